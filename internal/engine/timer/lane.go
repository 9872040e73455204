package timer

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// maxLease is how many timers one Lease takes at most: it bounds what a crash makes late by a whole
// Hold.
const maxLease = 512

// tellEvery is how often the log is told that the queue still does not answer: it is asked again
// after a second or two.
const tellEvery = time.Minute

// lane delivers the timers of one kind: the loop, its slots, and when it means to wake.
type lane struct {
	engine  *Engine
	kind    Kind
	handler Handler
	slots   chan struct{} // one element per handler that may run
	wake    chan struct{} // something is due before planned
	born    time.Time     // planned counts from here, by the monotonic clock
	planned atomic.Int64  // nanoseconds: when the loop wakes by itself; math.MaxInt64 while it is not asleep
	count   Counters
}

func newLane(e *Engine, kind Kind, h Handler, slots int) *lane {
	l := &lane{engine: e, kind: kind, handler: h, slots: make(chan struct{}, slots), wake: make(chan struct{}, 1), born: time.Now()}
	for range slots {
		l.slots <- struct{}{}
	}
	l.planned.Store(math.MaxInt64)
	return l
}

// armed wakes the loop if x can be due before it would wake.
func (l *lane) armed(x *Entry) {
	wait := x.Idle
	switch {
	case x.Last != 0 || x.First != 0:
		wait = 0 // an age by another clock: let the queue judge
	case x.Max > 0:
		wait = min(wait, x.Max)
	}
	l.expect(wait)
}

// expect wakes the loop if it would sleep for longer than wait. What may be due then is in the
// queue already, and the loop sets planned to "never" before it asks the queue: whatever the order,
// either the loop saw it or it is woken.
func (l *lane) expect(wait time.Duration) {
	if wait == Never || int64(time.Since(l.born)+wait) >= l.planned.Load() {
		return
	}
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *lane) run(ctx, hard context.Context, handlers *sync.WaitGroup) {
	var told time.Time // when the log was last told that the queue does not answer; zero: it answers
	for ctx.Err() == nil {
		wait, err := l.runOnce(ctx, hard, handlers)
		switch log := l.engine.opt.Log; {
		case ctx.Err() != nil:
		case err != nil:
			l.count.LeaseErrs.Add(1)
			if told.IsZero() || time.Since(told) >= tellEvery {
				log.WarnContext(ctx, "timer queue does not answer", "kind", l.kind.String(), "error", err)
				told = time.Now()
			}
		case !told.IsZero():
			log.InfoContext(ctx, "timer queue answers again", "kind", l.kind.String())
			told = time.Time{}
		}
		l.sleep(ctx, wait)
	}
}

// runOnce waits for a free slot, leases what is due and hands it over. It returns how long nothing
// more will be due.
func (l *lane) runOnce(ctx, hard context.Context, handlers *sync.WaitGroup) (time.Duration, error) {
	free := l.take(ctx)
	if free == 0 {
		return 0, ctx.Err()
	}
	l.planned.Store(math.MaxInt64)
	b, err := l.engine.opt.Queue.Lease(ctx, l.kind, free, l.engine.opt.Hold)
	leased := time.Now()
	l.give(free - len(b.Fired))
	if err != nil {
		return time.Second + rand.N(time.Second), err
	}
	l.engine.loss.saw(b.Epoch)
	l.count.Early.Add(int64(b.Early))
	for _, f := range b.Fired {
		handlers.Go(func() {
			defer l.give(1)
			l.deliver(hard, f, leased, b.Now.Sub(f.Due))
		})
	}
	return b.Wait, nil
}

// take takes one slot, waiting for it, and the others that are free right now.
func (l *lane) take(ctx context.Context) int {
	select {
	case <-ctx.Done():
		return 0
	case <-l.slots:
	}
	for n := 1; n < maxLease; n++ {
		select {
		case <-l.slots:
		default:
			return n
		}
	}
	return maxLease
}

func (l *lane) give(n int) {
	for range n {
		l.slots <- struct{}{}
	}
}

// sleep waits until something may be due: for d, or until something earlier.
func (l *lane) sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	var due <-chan time.Time
	if d != Never {
		t := time.NewTimer(d)
		defer t.Stop()
		due = t.C
		l.planned.Store(int64(time.Since(l.born) + d))
	}
	select {
	case <-ctx.Done():
	case <-due:
	case <-l.wake:
	}
}
