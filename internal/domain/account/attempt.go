package account

import (
	"container/list"
	"math"
	"sync"
	"time"
)

// attempt is what a login counts under, and how it stands in line.
type attempt struct {
	visitor

	counters []counter
	pair     string // empty: a name that nobody can have
}

// attempt says how a login is counted. A known pair of name and address has a count of its own,
// which nobody else's failures touch.
func (s *Sessions) attempt(in Login, now time.Time) attempt {
	a := attempt{visitor: visitor{source: source(in.Client)}}
	if name, err := parseName(in.Name); err == nil {
		slot := slotOf(name)
		a.pair = pairKey(slot, in.Client)
		a.known = !in.Client.IsValid() || s.known.has(a.pair, now)
		pair := counter{a.pair, maxPair}
		if !a.known && s.failures.recent(nameKey(slot), now) >= siege {
			pair.most = siegePair
		}
		a.counters = append(a.counters, pair, counter{nameKey(slot), math.MaxInt})
	}
	if in.Client.IsValid() && !a.known {
		a.counters = append(a.counters, counter{addressKey(in.Client), maxAddress})
	}
	return a
}

const (
	knownFor = loginLife // after a login
	maxPairs = 16 << 10  // remembered: some 4 MiB
)

// knownPairs are the names and addresses that belong together, as a login has shown. They live in
// memory: after a start everybody is a stranger, who waits longer and is not refused.
type knownPairs struct {
	mu    sync.Mutex
	byKey map[string]*list.Element
	order *list.List // of *knownPair, the last login at the back
}

type knownPair struct {
	key string
	at  time.Time
}

func newKnownPairs() *knownPairs {
	return &knownPairs{byKey: map[string]*list.Element{}, order: list.New()}
}

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

func (k *knownPairs) has(key string, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	e, ok := k.byKey[key]
	return ok && now.Sub(e.Value.(*knownPair).at) < knownFor
}
