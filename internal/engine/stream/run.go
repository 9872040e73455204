package stream

import (
	"context"
	"math/rand/v2"
	"time"

	"example.org/smartdrive/internal/base/telemetry"
)

const (
	// idlePoll bounds the delay of a record whose wake-up was lost with the reply to its commit.
	idlePoll = 15 * time.Second
	// The backoff of an outage: pauses are drawn from the upper half of a bound that doubles.
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second // longest pause after repeated errors
)

// Run handles records until ctx is done, then settles the handled ones. After an outage, which it
// logs, it retries with a growing pause. It always returns nil.
func (r *Runner) Run(ctx context.Context) error {
	defer r.stop(ctx)
	bound := firstPause
	var outage telemetry.Outage
	for ctx.Err() == nil {
		stats, err := r.RunOnce(ctx)
		outage.Record(ctx, r.log, "consumer paused by an outage; it retries", err)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			sleep(ctx, nil, bound/2+rand.N(bound/2))
			bound = min(2*bound, lastPause)
		default:
			bound = firstPause
			if !stats.More {
				sleep(ctx, r.session.Ready(), r.idle(stats.Next))
			}
		}
	}
	return nil
}

// idle returns how long to sleep until next, at most idlePoll. Zero means unknown.
func (r *Runner) idle(next time.Time) time.Duration {
	if next.IsZero() {
		return idlePoll
	}
	return min(idlePoll, max(0, next.Sub(r.now())))
}

// stop settles handled records, so that the next start does not repeat them, and closes the
// session. It logs errors; the records are then delivered again.
func (r *Runner) stop(ctx context.Context) {
	if err := r.settle(ctx); err != nil {
		r.log.Warn("handled records were not settled; they are delivered again", "error", err)
	}
	if err := r.discardSession(); err != nil {
		r.log.Warn("the session of a consumer could not be closed while stopping", "error", err)
	}
}

// sleep waits for d, for a wake-up or for the end of ctx. With a nil wake only the other two count.
func sleep(ctx context.Context, wake <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
	}
}
