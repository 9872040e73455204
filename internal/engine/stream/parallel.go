package stream

import (
	"context"
	"errors"
	"time"
)

// finished is how a handler ended that ran beside others.
type finished struct {
	it  *item
	out Outcome
	err error
}

// handOverParallel hands records over, several at a time, until none is at work and none may be
// handed over. It polls, settles and puts off meanwhile. After an outage it begins nothing more and
// waits for what is at work.
func (r *Runner) handOverParallel(ctx context.Context, stats *Stats) error {
	results := make(chan finished, r.consumer.Parallel) // so that no handler waits for this loop
	working := 0
	var outage error
	for {
		if outage == nil {
			outage = ctx.Err()
		}
		for outage == nil && working < r.consumer.Parallel {
			it := r.window.next(r.consumer.PerKey)
			if it == nil {
				break
			}
			r.window.begin(it)
			working++
			go func() {
				out, err := r.handle(ctx, it.Delivery)
				results <- finished{it, out, err}
			}()
		}
		if working == 0 {
			return outage
		}
		r.makeRoom()
		ended, woken := r.waitForOne(results, stats, &outage)
		if ended {
			working--
		}
		outage = errors.Join(outage, r.keepGoing(ctx, outage, woken))
	}
}

// waitForOne waits until a handler has ended, or there is something else to do.
func (r *Runner) waitForOne(results <-chan finished, stats *Stats, outage *error) (ended, woken bool) {
	var ready <-chan struct{}
	at := r.nextAck()
	if *outage == nil && r.room() > 0 {
		ready, at = r.session.Ready(), r.next()
	}
	wait := r.idle(at)
	if r.more && r.room() > 0 && *outage == nil {
		wait = 0
	}
	if !r.blocked.IsZero() {
		wait = min(wait, blockedFor)
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case f := <-results:
		*outage = errors.Join(*outage, r.finish(f.it, f.out, f.err, stats))
		return true, false
	case <-ready:
	case <-t.C:
	}
	return false, true
}

// room is how many more records the window takes.
func (r *Runner) room() int { return r.consumer.Window - len(r.window.items) }

// keepGoing settles what is due and looks for more while handlers are at work.
func (r *Runner) keepGoing(ctx context.Context, outage error, woken bool) error {
	if r.session == nil {
		return nil // it was abandoned; what is at work finds out when it ends
	}
	if err := r.settleDue(ctx); err != nil {
		return err
	}
	if outage == nil && ctx.Err() == nil && (woken || r.more) {
		return r.fill(ctx)
	}
	return nil
}

// blockedFor is how long a full window may stand still before its records are put off: those of a
// quick handler get their turn.
const blockedFor = time.Second

// makeRoom puts records off when the window is full and none of it could be handed over for a
// while.
func (r *Runner) makeRoom() {
	switch {
	case r.room() > 0 || r.window.next(r.consumer.PerKey) != nil:
		r.blocked = time.Time{}
	case r.blocked.IsZero():
		r.blocked = time.Now()
	case time.Since(r.blocked) >= blockedFor:
		r.counters.PutOff.Add(int64(r.window.putOff(r.levels[0], r.now())))
		r.blocked = time.Time{}
	}
}
