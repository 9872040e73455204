// Package lease runs work on a row under a lease that is stored in the row.
//
// The row contains the epoch (fencing token) of its holder and the end of the lease. Every
// statement of the work must compare the epoch, so correctness never depends on this package. The
// package only stops the work early: after another worker has taken the row, or after heartbeats
// have failed for so long that another worker may take it.
package lease

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// The times of a lease.
const (
	TTL               = 30 * time.Second // without a heartbeat for this time, another worker may take the row
	HeartbeatInterval = 7 * time.Second  // interval of heartbeats: three may fail
)

var (
	// ErrFenced says that another worker has the row, or that the work has ended. Nothing was
	// changed, and the worker must stop.
	ErrFenced = errors.New("it is another's by now")
	// ErrLost says that heartbeats failed for so long that another worker may take the row.
	ErrLost = errors.New("no heartbeat in time")
)

// Heartbeat renews a lease. yield asks the worker to release the row at its next save point. It
// returns ErrFenced if the worker no longer has the row.
type Heartbeat func(ctx context.Context) (yield bool, err error)

// Run runs fn while sending heartbeats. The context of fn is cancelled when the lease is lost; the
// error of Run then wraps ErrFenced or ErrLost. yielding reports whether fn must stop at its next
// save point.
func Run(ctx context.Context, beat Heartbeat, fn func(ctx context.Context, yielding func() bool) error) error {
	ctx, lose := context.WithCancelCause(ctx)
	var asked atomic.Bool
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		beatUntil(ctx, stop, lose, &asked, beat)
	}()
	err := fn(ctx, asked.Load)
	close(stop)
	<-stopped
	if cause := context.Cause(ctx); errors.Is(cause, ErrFenced) || errors.Is(cause, ErrLost) {
		if err == nil {
			err = cause
		}
		err = fmt.Errorf("%w: %w", cause, err)
	}
	lose(nil)
	return err
}

// beatUntil sends heartbeats until stop is closed, ctx is done or the lease is lost, which it
// reports to lose.
func beatUntil(ctx context.Context, stop <-chan struct{}, lose context.CancelCauseFunc, asked *atomic.Bool, beat Heartbeat) {
	tick := time.NewTicker(HeartbeatInterval)
	defer tick.Stop()
	good := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-stop:
			return
		case <-tick.C:
		}
		start := time.Now()
		beatCtx, cancel := context.WithTimeout(ctx, HeartbeatInterval)
		yield, err := beat(beatCtx)
		cancel()
		switch {
		case err == nil:
			good = start
			asked.Store(asked.Load() || yield)
		case errors.Is(err, ErrFenced):
			lose(ErrFenced)
			return
		case tooLong(good):
			lose(ErrLost)
			return
		}
	}
}

// tooLong reports whether the last successful heartbeat is too old by either clock: the monotonic
// clock stops while a machine is suspended.
func tooLong(good time.Time) bool {
	const most = TTL - HeartbeatInterval
	return time.Since(good) > most || time.Now().Round(0).Sub(good.Round(0)) > most
}
