package stream

import (
	"context"
	"errors"
	"time"
)

// result is the end of one handler in runParallel: its record, the outcome, and the error that
// pauses the consumer, if any.
type result struct {
	it  *item
	out Outcome
	err error
}

// runParallel handles records of the window, up to Parallel at once, until no handler runs and no
// record may start. It polls, settles and postpones records meanwhile. After an outage it starts no
// more handlers, waits for the running ones and returns the error.
func (r *Runner) runParallel(ctx context.Context, stats *Stats) error {
	results := make(chan result, r.consumer.Parallel) // buffered, so that no handler waits for this loop
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
				results <- result{it, out, err}
			}()
		}
		if working == 0 {
			return outage
		}
		r.postponeBlocked()
		ended, woken := r.waitForOne(results, stats, &outage)
		if ended {
			working--
		}
		outage = errors.Join(outage, r.settleAndFill(ctx, outage, woken))
	}
}

// waitForOne waits until a handler ends (ended) or it is time to poll or settle (woken). It adds
// the handler's error to *outage.
func (r *Runner) waitForOne(results <-chan result, stats *Stats, outage *error) (ended, woken bool) {
	var ready <-chan struct{}
	at := r.nextAck()
	if *outage == nil && r.room() > 0 {
		ready, at = r.session.Ready(), r.next()
	}
	wait := r.idle(at)
	if r.more && r.room() > 0 && *outage == nil {
		wait = 0
	}
	if !r.blockedSince.IsZero() {
		wait = min(wait, maxBlocked)
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

// room returns how many more records the window accepts.
func (r *Runner) room() int { return r.consumer.Window - len(r.window.items) }

// settleAndFill settles the outcomes that are due and then polls for more records, while handlers
// run. It does not poll during an outage (outage is not nil), after ctx has ended, or if neither
// woken is set nor the last poll may have left some. Without a session it does nothing.
func (r *Runner) settleAndFill(ctx context.Context, outage error, woken bool) error {
	if r.session == nil {
		return nil // the session was discarded; running handlers finish
	}
	if err := r.settleDue(ctx); err != nil {
		return err
	}
	if outage == nil && ctx.Err() == nil && (woken || r.more) {
		return r.fill(ctx)
	}
	return nil
}

// maxBlocked is the time that a full window may be blocked by busy keys before its records are
// postponed. It is long enough for quick handlers to finish.
const maxBlocked = time.Second

// postponeBlocked postpones the waiting records if the window has been full of records with busy
// keys for maxBlocked.
func (r *Runner) postponeBlocked() {
	switch {
	case r.room() > 0 || r.window.next(r.consumer.PerKey) != nil:
		r.blockedSince = time.Time{}
	case r.blockedSince.IsZero():
		r.blockedSince = time.Now()
	case time.Since(r.blockedSince) >= maxBlocked:
		r.counters.Postponed.Add(int64(r.window.postpone(r.levels[0], r.now())))
		r.blockedSince = time.Time{}
	}
}
