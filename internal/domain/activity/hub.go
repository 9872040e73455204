package activity

import (
	"maps"
	"slices"
	"sync"

	"example.org/smartdrive/internal/base/drive"
)

// hub notifies watches in this process of new entries. Notifications are hints; entries of other
// instances are found by polling. Each account has its own lock, and an entry only notifies watches
// that have been drained since the previous one.
type hub struct {
	mu     sync.RWMutex               // guards the maps; not held while notifying
	topics map[drive.AccountID]*topic // by account; only watched ones
	all    map[*Watch]struct{}        // watches of all accounts
}

// topic is the set of watches of one account.
type topic struct {
	watches int // guarded by hub.mu

	mu   sync.Mutex
	idle map[*Watch]struct{} // watches without a pending notification for the account
}

// Watch waits for entries of some accounts.
type Watch struct {
	// Ready receives a value when entries were committed since the last receive.
	Ready    chan struct{}
	hub      *hub
	accounts map[drive.AccountID]*topic // empty: all accounts

	mu    sync.Mutex
	dirty map[drive.AccountID]struct{} // accounts with new entries since the last receive
}

// Drain returns the watched accounts that may have new entries since the last call. For a watch of
// all accounts it only returns those passed to Wake.
func (w *Watch) Drain() []drive.AccountID {
	w.mu.Lock()
	all := slices.Collect(maps.Keys(w.dirty))
	clear(w.dirty)
	w.mu.Unlock()
	for _, id := range all { // the caller reads after this, so it sees all entries committed before
		if r := w.accounts[id]; r != nil {
			r.mu.Lock()
			r.idle[w] = struct{}{}
			r.mu.Unlock()
		}
	}
	return all
}

// Watch returns a Watch that is notified of later entries of accounts; without arguments, of all
// accounts. The caller must call Close.
func (l *Log) Watch(accounts ...drive.AccountID) *Watch {
	h := &l.hub
	w := &Watch{Ready: make(chan struct{}, 1), hub: h, accounts: map[drive.AccountID]*topic{}, dirty: map[drive.AccountID]struct{}{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.topics == nil {
		h.topics, h.all = map[drive.AccountID]*topic{}, map[*Watch]struct{}{}
	}
	if len(accounts) == 0 {
		h.all[w] = struct{}{}
	}
	for _, id := range accounts {
		if w.accounts[id] != nil {
			continue
		}
		r := h.topics[id]
		if r == nil {
			r = &topic{idle: map[*Watch]struct{}{}}
			h.topics[id] = r
		}
		r.watches++
		r.mu.Lock()
		r.idle[w] = struct{}{}
		r.mu.Unlock()
		w.accounts[id] = r
	}
	return w
}

// Close stops the watch. The caller must call it once. Ready is not closed.
func (w *Watch) Close() {
	h := w.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, w)
	for id, r := range w.accounts {
		r.mu.Lock()
		delete(r.idle, w)
		r.mu.Unlock()
		if r.watches--; r.watches == 0 {
			delete(h.topics, id)
		}
	}
}

// announce notifies watches of a committed entry. A watch that starts concurrently finds the entry
// by reading.
func (h *hub) announce(account drive.AccountID) {
	h.mu.RLock()
	r := h.topics[account]
	all := slices.Collect(maps.Keys(h.all)) // only a few, of the server itself
	h.mu.RUnlock()
	for _, w := range all {
		w.signal()
	}
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for w := range r.idle {
		w.Wake(account)
	}
	clear(r.idle)
}

// signal makes Ready receive a value unless one is pending.
func (w *Watch) signal() {
	select {
	case w.Ready <- struct{}{}:
	default: // a value is pending
	}
}

// Wake marks an account as possibly having new entries.
func (w *Watch) Wake(account drive.AccountID) {
	w.mu.Lock()
	w.dirty[account] = struct{}{}
	w.mu.Unlock()
	w.signal()
}

// watched returns the accounts that are watched individually.
func (h *hub) watched() []drive.AccountID {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return slices.Collect(maps.Keys(h.topics))
}
