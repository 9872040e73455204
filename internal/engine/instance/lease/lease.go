// Package lease runs work that belongs to whoever has renewed a row's lease last.
//
// The row says under which epoch it was taken and when the lease ends; every statement of the work
// names the epoch, so correctness never rests on what is here. What is here stops the work early:
// when somebody else has taken the row, or when no heartbeat has come through for so long that
// somebody may.
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
	Length = 30 * time.Second // without a heartbeat the row is another's
	Beat   = 7 * time.Second  // between two heartbeats: three may fail
)

var (
	// ErrFenced says that somebody else has the row, or that the work on it has ended: nothing was
	// changed, and the worker stops.
	ErrFenced = errors.New("it is another's by now")
	// ErrLost is why a worker stops whose heartbeat does not come through: the row will be
	// another's before it is told.
	ErrLost = errors.New("no heartbeat in time")
)

// Heartbeat renews a lease. yield: somebody asks for the row to be given back at the next save
// point.
type Heartbeat func(ctx context.Context) (yield bool, err error)

// Hold runs fn beside heartbeats. fn's context ends when somebody else has the row, or may have it
// because no heartbeat came through, and the error is then ErrFenced or ErrLost; yielding tells fn
// to stop at the next save point.
func Hold(ctx context.Context, beat Heartbeat, fn func(ctx context.Context, yielding func() bool) error) error {
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

func beatUntil(ctx context.Context, stop <-chan struct{}, lose context.CancelCauseFunc, asked *atomic.Bool, beat Heartbeat) {
	tick := time.NewTicker(Beat)
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
		beatCtx, cancel := context.WithTimeout(ctx, Beat)
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

// tooLong counts by both clocks: the monotonic one stands still while a machine sleeps.
func tooLong(good time.Time) bool {
	const most = Length - Beat
	return time.Since(good) > most || time.Now().Round(0).Sub(good.Round(0)) > most
}
