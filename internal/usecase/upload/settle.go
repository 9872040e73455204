package upload

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// settling makes contents durable that were laid, while the transaction runs that makes them
// visible, and before it is committed.
type settling struct {
	done chan struct{}
	err  error // once done is closed
}

// lateAfter is how long a transaction waits for contents: it has the only writer of SQLite, or the
// locks of an account.
const lateAfter = 20 * time.Millisecond

// errLate says that contents take longer than that.
var errLate = errors.New("contents are not durable yet")

// settle begins to make those of the contents durable that are not.
func (c *committer) settle(ctx context.Context, all []*arrival) *settling {
	var names []string
	for _, a := range all {
		if a.laid {
			names = append(names, a.content.File)
		}
	}
	s := &settling{done: make(chan struct{})}
	if len(names) == 0 {
		close(s.done)
		return s
	}
	go func() {
		defer close(s.done)
		defer func() {
			if r := recover(); r != nil {
				s.err = fmt.Errorf("settle contents: %w", panicked(r))
			}
		}()
		s.err = c.Store.Settle(context.WithoutCancel(ctx), names)
	}()
	return s
}

// wait returns when the contents are durable, or why they are not.
func (s *settling) wait() error {
	<-s.done
	return s.err
}

// inTime is wait for a transaction, for so long: errLate when it is better to begin another one
// afterwards.
func (s *settling) inTime(limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-s.done:
		return s.err
	case <-timer.C:
		return errLate
	}
}
