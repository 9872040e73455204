package account

import (
	"container/list"
	"math"
	"sync"
	"time"
)

// loginAttempt holds the failure counters of one login attempt and its place in the queue for
// hashing.
type loginAttempt struct {
	requester

	counters []counter // failures that count against the attempt
	pairKey  string    // key of name and address; empty: no user can have the name
}

// newAttempt returns the counters for a login. A known pair of name and address has only its own
// counter, so that failures from other addresses do not lock it out.
func (s *Sessions) newAttempt(login Login, now time.Time) loginAttempt {
	a := loginAttempt{requester: requester{source: source(login.Client)}}
	if name, err := parseName(login.Name); err == nil {
		slot := slotOf(name)
		a.pairKey = pairKey(slot, login.Client)
		a.known = !login.Client.IsValid() || s.knownPairs.contains(a.pairKey, now)
		pair := counter{a.pairKey, maxPair}
		if !a.known && s.failures.count(nameKey(slot), now) >= attackThreshold {
			pair.limit = maxPairUnderAttack
		}
		a.counters = append(a.counters, pair, counter{nameKey(slot), math.MaxInt})
	}
	if login.Client.IsValid() && !a.known {
		a.counters = append(a.counters, counter{addressKey(login.Client), maxAddress})
	}
	return a
}

// Bounds of knownPairs.
const (
	knownPairLife = loginLife // after the last login
	maxPairs      = 16 << 10  // pairs remembered: some 4 MiB
)

// knownPairs remembers pairs of user name and address from which a login succeeded, in memory only.
// After a restart all clients are unknown: they wait longer and are not refused.
type knownPairs struct {
	mu    sync.Mutex
	byKey map[string]*list.Element
	order *list.List // of *knownPair, most recent login at the back
}

// knownPair is a pair key and the time of its last login.
type knownPair struct {
	key string
	at  time.Time
}

// newKnownPairs returns an empty set of pairs.
func newKnownPairs() *knownPairs {
	return &knownPairs{byKey: map[string]*list.Element{}, order: list.New()}
}

// add records that a login of the pair succeeded at now. If maxPairs are recorded, a new pair
// evicts the one whose last login is oldest.
func (k *knownPairs) add(key string, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e, ok := k.byKey[key]; ok {
		e.Value.(*knownPair).at = now
		k.order.MoveToBack(e)
		return
	}
	if k.order.Len() >= maxPairs {
		oldest := k.order.Front()
		delete(k.byKey, oldest.Value.(*knownPair).key)
		k.order.Remove(oldest)
	}
	k.byKey[key] = k.order.PushBack(&knownPair{key, now})
}

// contains reports whether a login of the pair of user and client succeeded within knownPairLife
// before now, as far as this process remembers.
func (k *knownPairs) contains(key string, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, ok := k.byKey[key]
	return ok && now.Sub(e.Value.(*knownPair).at) < knownPairLife
}
