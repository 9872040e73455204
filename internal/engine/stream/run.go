package stream

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// idlePoll bounds how long a record waits whose wake-up was lost with the reply to its commit.
	idlePoll = 15 * time.Second
	// The pauses of an outage, each drawn from the upper half of its bound.
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second
)

// Run hands over records until ctx is done, then settles what was handed over and returns nil.
// Outages are logged and waited out: nothing else ends it.
func (r *Runner) Run(ctx context.Context) error {
	defer r.stop(ctx)
	bound := firstPause
	for ctx.Err() == nil {
		stats, err := r.RunOnce(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			pause := bound/2 + rand.N(bound/2)
			r.log.Warn("consumer pauses", "pause", pause, "error", err)
			sleep(ctx, nil, pause)
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

func (r *Runner) idle(next time.Time) time.Duration {
	if next.IsZero() {
		return idlePoll
	}
	return min(idlePoll, max(0, next.Sub(r.now())))
}

// stop settles what was handed over: without it the next start would hand it over again, which is
// allowed but wasteful.
func (r *Runner) stop(ctx context.Context) {
	if err := r.settle(ctx); err != nil {
		r.log.Warn("records that were handled will be handed over again", "error", err)
	}
	if err := r.abandon(); err != nil {
		r.log.Warn("close a session", "error", err)
	}
}

// sleep waits for d, for a wake-up, or for the end of ctx. An outage is slept out whatever is
// published meanwhile: wake is nil then.
func sleep(ctx context.Context, wake <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
	}
}
