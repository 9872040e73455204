package wholesync

import (
	"errors"
	"sync"
)

// Shared lets those share a sync who ask for one at the same time. The zero value is ready.
type Shared struct {
	running sync.Mutex // held across I/O: to wait for the sync that runs is what it is for
	mu      sync.Mutex // guards next
	next    *turn
}

// turn is a sync on behalf of several.
type turn struct {
	done chan struct{}
	err  error // once done is closed
}

// errPanicked is what others get who waited for a sync that did not return.
var errPanicked = errors.New("a sync has panicked")

// Do calls sync, or waits for a call of it on behalf of somebody else that begins after Do was
// called: who comes while one runs shares the next one.
func (s *Shared) Do(sync func() error) error {
	s.mu.Lock()
	next, first := s.next, s.next == nil
	if first {
		next = &turn{done: make(chan struct{})}
		s.next = next
	}
	s.mu.Unlock()
	if !first {
		<-next.done
		return next.err
	}
	s.running.Lock()
	defer s.running.Unlock()
	s.mu.Lock()
	s.next = nil
	s.mu.Unlock()
	next.err = errPanicked
	defer close(next.done)
	next.err = sync()
	return next.err
}
