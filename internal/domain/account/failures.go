package account

import (
	"container/list"
	"math"
	"net/netip"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// Bounds of failures.
const (
	failureWindow = 15 * time.Minute // after which a failure no longer counts
	maxFailedKeys = 16 << 10         // keys remembered, some 6 MiB at most

	maxPair            = 10  // failed logins per name and address within failureWindow
	maxAddress         = 30  // per address with any names: an office may share one
	attackThreshold    = 100 // per name from anywhere; above it, an unknown address has maxPairUnderAttack
	maxPairUnderAttack = 2
)

// failures counts failed logins by key in bounded memory. If it is full, the key with the oldest
// last failure is evicted. An address can add some maxAddress keys, so evicting a key on purpose
// takes hundreds of addresses. Each process counts on its own.
//
// Failures never lock a name for all addresses, so an attacker elsewhere cannot lock a user out.
// attackThreshold and the queue for hashing bound what many addresses can guess.
type failures struct {
	mu    sync.Mutex
	byKey map[string]*list.Element
	order *list.List // of *failureEntry, most recent failure at the back
}

// counter is a key and its limit of failures.
type counter struct {
	key   string
	limit int
}

// failureEntry holds the failures of one key.
type failureEntry struct {
	key string
	at  []time.Time // ascending
}

// newFailures returns an empty counter set.
func newFailures() *failures { return &failures{byKey: map[string]*list.Element{}, order: list.New()} }

// check fails with Rate {retry_after} if a counter has reached its limit.
func (f *failures) check(now time.Time, counters ...counter) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.checkLocked(now, counters)
}

// checkLocked fails with Rate {retry_after, in seconds} if one of counters has reached its limit of
// failures within failureWindow. It counts nothing itself. The caller holds f.mu.
func (f *failures) checkLocked(now time.Time, counters []counter) error {
	var wait time.Duration
	for _, c := range counters {
		if at := f.recentLocked(c.key, now); len(at) >= c.limit {
			wait = max(wait, at[len(at)-c.limit].Add(failureWindow).Sub(now))
		}
	}
	if wait > 0 {
		return drive.Fail(drive.Rate, "retry_after", int(math.Ceil(wait.Seconds())))
	}
	return nil
}

// record counts one failure for every counter. It is called before the outcome is known, so that
// parallel guesses cannot exceed the limit together. If a counter has reached its limit, it fails
// with Rate and records nothing.
func (f *failures) record(now time.Time, counters ...counter) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.checkLocked(now, counters); err != nil {
		return err
	}
	for _, c := range counters {
		f.addLocked(c.key, now)
	}
	return nil
}

// count returns the number of failures of a key within the window.
func (f *failures) count(key string, now time.Time) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.recentLocked(key, now))
}

// unrecord removes the newest failure of each counter, for an attempt that succeeded.
func (f *failures) unrecord(counters ...counter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range counters {
		if e, ok := f.byKey[c.key]; ok {
			entry := e.Value.(*failureEntry)
			if entry.at = entry.at[:max(0, len(entry.at)-1)]; len(entry.at) == 0 {
				f.removeLocked(e)
			}
		}
	}
}

// clear removes all failures of a key.
func (f *failures) clear(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e, ok := f.byKey[key]; ok {
		f.removeLocked(e)
	}
}

// recentLocked returns the times of a key's failures within the window. The caller holds f.mu.
func (f *failures) recentLocked(key string, now time.Time) []time.Time {
	e, ok := f.byKey[key]
	if !ok {
		return nil
	}
	entry := e.Value.(*failureEntry)
	for len(entry.at) > 0 && now.Sub(entry.at[0]) >= failureWindow {
		entry.at = entry.at[1:]
	}
	return entry.at
}

// addLocked adds a failure at now. The caller holds f.mu.
func (f *failures) addLocked(key string, now time.Time) {
	e, ok := f.byKey[key]
	if !ok {
		if f.order.Len() >= maxFailedKeys {
			f.removeLocked(f.order.Front())
		}
		e = f.order.PushBack(&failureEntry{key: key})
		f.byKey[key] = e
	}
	entry := e.Value.(*failureEntry)
	entry.at = append(entry.at, now)
	f.order.MoveToBack(e)
}

// removeLocked removes an entry. The caller holds f.mu.
func (f *failures) removeLocked(e *list.Element) {
	delete(f.byKey, e.Value.(*failureEntry).key)
	f.order.Remove(e)
}

// nameKey returns the counter key of a folded user name.
func nameKey(slot string) string { return "name " + slot }

// pairKey returns the counter key of a folded user name and an address.
func pairKey(slot string, a netip.Addr) string { return "pair " + slot + " " + source(a) }

// addressKey returns the counter key of an address.
func addressKey(a netip.Addr) string { return "address " + source(a) }

// source returns the text form of an address; of an IPv6 address, its /64, which one client owns.
// Empty: not an address.
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
