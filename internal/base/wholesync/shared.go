package wholesync

import (
	"errors"
	"sync"
)

// Shared lets concurrent callers share a sync. The zero value is ready to use.
type Shared struct {
	runMu sync.Mutex  // held across I/O, so that callers wait for the running sync
	mu    sync.Mutex  // guards next
	next  *sharedSync // the sync that has not begun; nil: none
}

// sharedSync is a sync for several callers.
type sharedSync struct {
	done chan struct{}
	err  error // valid once done is closed
}

// errPanicked is returned to callers that waited for a sync that panicked.
var errPanicked = errors.New("a sync has panicked")

// Do runs sync, or waits for a run by another caller that begins after Do was called, and returns
// its error. Calls during a run share the next run.
func (s *Shared) Do(sync func() error) error {
	s.mu.Lock()
	next, first := s.next, s.next == nil
	if first {
		next = &sharedSync{done: make(chan struct{})}
		s.next = next
	}
	s.mu.Unlock()
	if !first {
		<-next.done
		return next.err
	}
	s.runMu.Lock()
	defer s.runMu.Unlock()
	s.mu.Lock()
	s.next = nil
	s.mu.Unlock()
	next.err = errPanicked
	defer close(next.done)
	next.err = sync()
	return next.err
}
