package activity

import (
	"maps"
	"slices"
	"sync"

	"smartdrive/internal/base/drive"
)

// hub wakes those in this process who wait for entries of an account. It is a hint: what other
// instances write is found by looking now and then.
type hub struct {
	mu      sync.Mutex
	waiting map[drive.AccountID]map[*Watch]struct{}
	all     map[*Watch]struct{}
}

// Watch is somebody who waits for entries.
type Watch struct {
	// Ready gets a value when something was committed since it was last received from.
	Ready    chan struct{}
	hub      *hub
	accounts []drive.AccountID
	dirty    map[drive.AccountID]struct{} // under the hub's lock; nil: of one who waits for all accounts
}

// Take returns those of the watch's accounts in which something may have been committed since it
// was called last.
func (w *Watch) Take() []drive.AccountID {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	all := slices.Collect(maps.Keys(w.dirty))
	clear(w.dirty)
	return all
}

// Watch begins to wait for entries of accounts; none: of all of them. Close must follow.
func (l *Log) Watch(accounts ...drive.AccountID) *Watch {
	w := &Watch{Ready: make(chan struct{}, 1), hub: &l.hub, accounts: accounts}
	h := &l.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting == nil {
		h.waiting, h.all = map[drive.AccountID]map[*Watch]struct{}{}, map[*Watch]struct{}{}
	}
	if len(accounts) == 0 {
		h.all[w] = struct{}{}
	} else {
		w.dirty = map[drive.AccountID]struct{}{}
	}
	for _, id := range accounts {
		if h.waiting[id] == nil {
			h.waiting[id] = map[*Watch]struct{}{}
		}
		h.waiting[id][w] = struct{}{}
	}
	return w
}

// Close ends the wait.
func (w *Watch) Close() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	delete(w.hub.all, w)
	for _, id := range w.accounts {
		delete(w.hub.waiting[id], w)
		if len(w.hub.waiting[id]) == 0 {
			delete(w.hub.waiting, id)
		}
	}
}

func (h *hub) announce(account drive.AccountID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.waiting[account] {
		w.dirty[account] = struct{}{}
		w.signal()
	}
	for w := range h.all {
		w.signal()
	}
}

func (w *Watch) signal() {
	select {
	case w.Ready <- struct{}{}:
	default: // nobody has looked since the last time
	}
}

// Wake makes the watch look at one of its accounts.
func (w *Watch) Wake(account drive.AccountID) {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	w.dirty[account] = struct{}{}
	w.signal()
}

// watched are the accounts that somebody waits for by name.
func (h *hub) watched() []drive.AccountID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.waiting))
}
