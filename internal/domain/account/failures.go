package account

import (
	"container/list"
	"math"
	"net/netip"
	"sync"
	"time"

	"smartdrive/internal/base/drive"
)

const (
	failureWindow = 15 * time.Minute // after which a failure is forgotten
	maxFailedKeys = 16 << 10         // remembered: some 6 MiB at most

	maxPair    = 10  // failed logins with one name from one address within failureWindow
	maxAddress = 30  // from one address with any names: an office may be behind one
	siege      = 100 // with one name from anywhere: then an address that is not known for it has siegePair
	siegePair  = 2
)

// failures counts failed logins by key in a bounded memory: where it is full, the key that failed
// longest ago is forgotten. An address can add some maxAddress keys to it, so that washing a key
// out takes hundreds of addresses. Each process counts for itself.
//
// Nobody's failures close a name to everybody: who fails from elsewhere does not keep its user out.
// What a thousand addresses can guess is bounded by siege, and by the turns to hash.
type failures struct {
	mu    sync.Mutex
	byKey map[string]*list.Element
	order *list.List // of *failed, the last to fail at the back
}

// counter is a key, and how many failures it may have.
type counter struct {
	key  string
	most int
}

type failed struct {
	key string
	at  []time.Time // ascending
}

func newFailures() *failures { return &failures{byKey: map[string]*list.Element{}, order: list.New()} }

// refuses is Rate when a counter has no attempt left.
func (f *failures) refuses(now time.Time, counters ...counter) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refusesLocked(now, counters)
}

func (f *failures) refusesLocked(now time.Time, counters []counter) error {
	var wait time.Duration
	for _, c := range counters {
		if at := f.recentLocked(c.key, now); len(at) >= c.most {
			wait = max(wait, at[len(at)-c.most].Add(failureWindow).Sub(now))
		}
	}
	if wait > 0 {
		return drive.Fail(drive.Rate, "retry_after", int(math.Ceil(wait.Seconds())))
	}
	return nil
}

// take counts an attempt under every key as failed, before its outcome is known, so that guesses
// made in parallel cannot pass the limit together. A counter that has no attempt left is Rate, and
// then nothing is counted.
func (f *failures) take(now time.Time, counters ...counter) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.refusesLocked(now, counters); err != nil {
		return err
	}
	for _, c := range counters {
		f.addLocked(c.key, now)
	}
	return nil
}

// recent is how often a key failed within the window.
func (f *failures) recent(key string, now time.Time) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.recentLocked(key, now))
}

// undo takes one attempt back that turned out not to be a failure.
func (f *failures) undo(counters ...counter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range counters {
		if e, ok := f.byKey[c.key]; ok {
			entry := e.Value.(*failed)
			if entry.at = entry.at[:max(0, len(entry.at)-1)]; len(entry.at) == 0 {
				f.removeLocked(e)
			}
		}
	}
}

// forget clears a key.
func (f *failures) forget(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e, ok := f.byKey[key]; ok {
		f.removeLocked(e)
	}
}

func (f *failures) recentLocked(key string, now time.Time) []time.Time {
	e, ok := f.byKey[key]
	if !ok {
		return nil
	}
	entry := e.Value.(*failed)
	for len(entry.at) > 0 && now.Sub(entry.at[0]) >= failureWindow {
		entry.at = entry.at[1:]
	}
	return entry.at
}

func (f *failures) addLocked(key string, now time.Time) {
	e, ok := f.byKey[key]
	if !ok {
		if f.order.Len() >= maxFailedKeys {
			f.removeLocked(f.order.Front())
		}
		e = f.order.PushBack(&failed{key: key})
		f.byKey[key] = e
	}
	entry := e.Value.(*failed)
	entry.at = append(entry.at, now)
	f.order.MoveToBack(e)
}

func (f *failures) removeLocked(e *list.Element) {
	delete(f.byKey, e.Value.(*failed).key)
	f.order.Remove(e)
}

// nameKey, pairKey and addressKey are the keys of a login. An IPv6 client owns its /64, so that is
// one address.
func nameKey(slot string) string { return "name " + slot }

func pairKey(slot string, a netip.Addr) string { return "pair " + slot + " " + source(a) }

func addressKey(a netip.Addr) string { return "address " + source(a) }

func source(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	switch {
	case !a.IsValid():
		return ""
	case a.Is6():
		return netip.PrefixFrom(a, 64).Masked().String()
	}
	return a.String()
}
