package timer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"smartdrive/internal/base/drive"
)

// backoff is the pause after the first, second, ... failed attempt: the delay levels of the stream
// (DESIGN section 8). After the last one comes Options.Dead.
var backoff = [...]time.Duration{5 * time.Second, time.Minute, 10 * time.Minute, time.Hour}

// deferral is the pause after a failure that is nobody's fault; half of it again is added at
// random, so that what failed together does not return together.
const deferral = 5 * time.Second

func jittered() time.Duration { return deferral + rand.N(deferral/2) }

// later is what a handler returns to be asked again.
type later struct{ in time.Duration }

func (l *later) Error() string { return fmt.Sprintf("look again in %v", l.in) }

// Later is returned by a handler whose suspicion was not confirmed, to be asked again after d:
// touches that have come since count then as usual. It consumes no attempt.
func Later(d time.Duration) error { return &later{max(d, 0)} }

// IsLater returns after how long a handler's error asks to look again; for who calls handlers in
// place of an Engine.
func IsLater(err error) (d time.Duration, ok bool) {
	if wait, ok := errors.AsType[*later](err); ok {
		return wait.in, true
	}
	return 0, false
}

// deliver runs the handler of a fired timer and settles it. late is how late it was when it was
// leased.
func (l *lane) deliver(hard context.Context, f Fired, leased time.Time, late time.Duration) {
	begun := time.Now()
	l.engine.owed.settled(f.Key, f.Gen)
	l.count.Fired.Add(1)
	if f.Delivery == 1 {
		l.count.Lateness.Observe(late + begun.Sub(leased))
	} else {
		l.count.Repeated.Add(1)
	}
	log := l.engine.opt.Log
	if log.Enabled(hard, slog.LevelDebug) {
		log.DebugContext(hard, "timer fired", "timer", f.Key.String(), "gen", f.Gen, "due", f.Due, "last", f.Last, "delivery", f.Delivery)
	}
	l.engine.trace(f, Started, f.Due.Std(), nil)
	// A lease that is over is no longer ours: the handler is told to stop in time to settle it,
	// which counts as a failure.
	ctx, cancel := context.WithDeadline(hard, leased.Add(l.engine.opt.Hold/10*9))
	l.count.Running.Add(1)
	err := l.call(ctx, f)
	l.count.Running.Add(-1)
	overrun := err != nil && ctx.Err() != nil && hard.Err() == nil
	cancel()
	l.count.Busy.Add(int64(time.Since(begun)))
	out := l.judge(hard, f, err, overrun)
	step, cause := stepOf(f, out, err)
	l.engine.trace(f, step, begun, cause)
	l.engine.outcomes <- out
}

// call runs the handler; a panic becomes an error.
func (l *lane) call(ctx context.Context, f Fired) (err error) {
	defer func() {
		if p := recover(); p != nil {
			l.count.Panics.Add(1)
			err = fmt.Errorf("handler of timer %s panicked: %v\n%s", f.Key, p, debug.Stack())
		}
	}()
	return l.handler(ctx, f)
}

// judge turns what the handler returned into the outcome of the lease. Whatever fails once a stop
// has cancelled the handlers is not counted against the timer.
func (l *lane) judge(ctx context.Context, f Fired, err error, overrun bool) Outcome {
	out := Outcome{Key: f.Key, Token: f.Token, Verdict: Done, Attempt: f.Attempt}
	log := l.engine.opt.Log
	if err == nil && !log.Enabled(ctx, slog.LevelDebug) {
		return out
	}
	log = log.With("timer", f.Key.String(), "gen", f.Gen, "attempt", f.Attempt)
	var wait *later
	switch {
	case err == nil:
		log.DebugContext(ctx, "timer applied")
	case errors.As(err, &wait):
		l.count.Snoozed.Add(1)
		out.Verdict, out.In, out.Attempt = Snooze, wait.in, 0
		log.DebugContext(ctx, "timer snoozed", "in", wait.in)
	case ctx.Err() != nil, !overrun && drive.IsKind(err, drive.Unavailable, drive.Stopping):
		l.count.Waits.Add(1)
		out.Verdict, out.In = Retry, jittered()
		log.DebugContext(ctx, "timer waits", "in", out.In, "error", err)
	case f.Attempt < len(backoff):
		l.count.Retries.Add(1)
		out.Verdict, out.In, out.Attempt = Retry, backoff[f.Attempt], f.Attempt+1
		log.WarnContext(ctx, "timer failed", "in", out.In, "error", err)
	default:
		return l.bury(ctx, f, out, err)
	}
	return out
}

// bury hands over a timer whose attempts are used up. Until Dead has taken it, it stays a timer.
func (l *lane) bury(ctx context.Context, f Fired, out Outcome, cause error) Outcome {
	log := l.engine.opt.Log.With("timer", f.Key.String(), "gen", f.Gen, "error", cause)
	if dead := l.engine.opt.Dead; dead != nil {
		if err := dead(ctx, f, cause); err != nil {
			log.WarnContext(ctx, "dead timer was not taken", "dead_err", err)
			out.Verdict, out.In = Retry, jittered()
			return out
		}
	}
	l.count.Dead.Add(1)
	log.ErrorContext(ctx, "timer is dead")
	return out
}
