package upload

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// pendingSync is a running Store.Sync call that makes lazily stored contents durable while the
// transaction that publishes them runs. The transaction must await the result before it commits.
type pendingSync struct {
	done chan struct{}
	err  error // valid once done is closed
}

// syncWait is how long a transaction waits for contents to become durable. A waiting transaction
// holds SQLite's only writer or the locks of an account.
const syncWait = 20 * time.Millisecond

// errSyncPending reports that contents were not durable within syncWait.
var errSyncPending = errors.New("contents are not durable yet")

// startSync starts to make durable those files of all that are not yet. The work ignores
// cancellation of ctx; the caller must call wait.
func (c *committer) startSync(ctx context.Context, all []*pendingFile) *pendingSync {
	var names []string
	for _, a := range all {
		if a.needsSync {
			names = append(names, a.content.File)
		}
	}
	s := &pendingSync{done: make(chan struct{})}
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
		s.err = c.Store.Sync(context.WithoutCancel(ctx), names)
	}()
	return s
}

// wait blocks until the contents are durable and returns the error of making them so.
func (s *pendingSync) wait() error {
	<-s.done
	return s.err
}

// waitFor blocks until the contents are durable, but at most for limit. On timeout it returns
// errSyncPending: the caller rolls back, calls wait and runs its transaction again.
func (s *pendingSync) waitFor(limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-s.done:
		return s.err
	case <-timer.C:
		return errSyncPending
	}
}
