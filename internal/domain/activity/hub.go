package activity

import (
	"maps"
	"slices"
	"sync"

	"smartdrive/internal/base/drive"
)

// hub wakes those in this process who wait for entries of an account. It is a hint: what other
// instances write is found by looking now and then. Each account has a lock of its own, and an
// entry goes through those alone who have looked since the one before.
type hub struct {
	mu    sync.RWMutex // of the maps; nobody is woken under it
	rooms map[drive.AccountID]*room
	all   map[*Watch]struct{}
}

// room is those who wait for entries of one account.
type room struct {
	watches int // under the hub's lock

	mu    sync.Mutex
	quiet map[*Watch]struct{} // who do not know yet that there is something
}

// Watch is somebody who waits for entries.
type Watch struct {
	// Ready gets a value when something was committed since it was last received from.
	Ready    chan struct{}
	hub      *hub
	accounts map[drive.AccountID]*room // empty: all accounts

	mu    sync.Mutex
	dirty map[drive.AccountID]struct{}
}

// Take returns those of the watch's accounts in which something may have been committed since it
// was called last.
func (w *Watch) Take() []drive.AccountID {
	w.mu.Lock()
	all := slices.Collect(maps.Keys(w.dirty))
	clear(w.dirty)
	w.mu.Unlock()
	for _, id := range all { // what is committed before this the caller reads after it
		if r := w.accounts[id]; r != nil {
			r.mu.Lock()
			r.quiet[w] = struct{}{}
			r.mu.Unlock()
		}
	}
	return all
}

// Watch begins to wait for entries of accounts; none: of all of them. Close must follow.
func (l *Log) Watch(accounts ...drive.AccountID) *Watch {
	h := &l.hub
	w := &Watch{Ready: make(chan struct{}, 1), hub: h, accounts: map[drive.AccountID]*room{}, dirty: map[drive.AccountID]struct{}{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.rooms == nil {
		h.rooms, h.all = map[drive.AccountID]*room{}, map[*Watch]struct{}{}
	}
	if len(accounts) == 0 {
		h.all[w] = struct{}{}
	}
	for _, id := range accounts {
		if w.accounts[id] != nil {
			continue
		}
		r := h.rooms[id]
		if r == nil {
			r = &room{quiet: map[*Watch]struct{}{}}
			h.rooms[id] = r
		}
		r.watches++
		r.mu.Lock()
		r.quiet[w] = struct{}{}
		r.mu.Unlock()
		w.accounts[id] = r
	}
	return w
}

// Close ends the wait.
func (w *Watch) Close() {
	h := w.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.all, w)
	for id, r := range w.accounts {
		r.mu.Lock()
		delete(r.quiet, w)
		r.mu.Unlock()
		if r.watches--; r.watches == 0 {
			delete(h.rooms, id)
		}
	}
}

// announce tells of an entry that was committed. Who begins to wait meanwhile finds it by looking.
func (h *hub) announce(account drive.AccountID) {
	h.mu.RLock()
	r := h.rooms[account]
	all := slices.Collect(maps.Keys(h.all)) // the program's own: a few
	h.mu.RUnlock()
	for _, w := range all {
		w.signal()
	}
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for w := range r.quiet {
		w.Wake(account)
	}
	clear(r.quiet)
}

func (w *Watch) signal() {
	select {
	case w.Ready <- struct{}{}:
	default: // nobody has looked since the last time
	}
}

// Wake makes the watch look at one of its accounts.
func (w *Watch) Wake(account drive.AccountID) {
	w.mu.Lock()
	w.dirty[account] = struct{}{}
	w.mu.Unlock()
	w.signal()
}

// watched are the accounts that somebody waits for by name.
func (h *hub) watched() []drive.AccountID {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return slices.Collect(maps.Keys(h.rooms))
}
