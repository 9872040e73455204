package account

import (
	"container/list"
	"math"
	"net/netip"
	"sync"
	"time"

	"smartdrive/internal/drive"
)

const (
	maxFailures   = 10               // failed logins per name and per address within failureWindow
	failureWindow = 15 * time.Minute // after which a failure is forgotten
	maxFailedKeys = 16 << 10         // names and addresses remembered: about 6 MiB at most
)

// failures counts failed logins by key in a bounded memory: where it is full, the key that failed longest ago is forgotten.
// An address can add at most maxFailures names to it, so that washing a name out takes more than a thousand addresses.
// Each process counts for itself.
type failures struct {
	mu    sync.Mutex
	byKey map[string]*list.Element
	order *list.List // of *failed, the last to fail at the back
}

type failed struct {
	key string
	at  []time.Time // ascending, at most maxFailures
}

func newFailures() *failures { return &failures{byKey: map[string]*list.Element{}, order: list.New()} }

// take counts an attempt under every key as failed, before its outcome is known, so that guesses made in parallel cannot
// pass the limit together. A key that has no attempt left is Rate, and then nothing is counted.
func (f *failures) take(now time.Time, keys ...string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var wait time.Duration
	for _, key := range keys {
		if at := f.recentLocked(key, now); len(at) >= maxFailures {
			wait = max(wait, at[0].Add(failureWindow).Sub(now))
		}
	}
	if wait > 0 {
		return drive.Fail(drive.Rate, "retry_after", int(math.Ceil(wait.Seconds())))
	}
	for _, key := range keys {
		f.addLocked(key, now)
	}
	return nil
}

// undo takes one attempt back that turned out not to be a failure.
func (f *failures) undo(keys ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, key := range keys {
		if e, ok := f.byKey[key]; ok {
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

// nameKey and addressKey are the keys of a login. An IPv6 client owns its /64, so that is one address.
func nameKey(slot string) string { return "name " + slot }

func addressKey(a netip.Addr) string {
	a = a.Unmap().WithZone("")
	if a.Is6() {
		return "address " + netip.PrefixFrom(a, 64).Masked().String()
	}
	return "address " + a.String()
}
