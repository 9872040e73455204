package timer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// backoff lists the pauses after the first, second, … failed attempt, equal to the delay levels of
// the stream (DESIGN section 8). A failure after the last pause goes to Options.OnDead.
var backoff = [...]time.Duration{5 * time.Second, time.Minute, 10 * time.Minute, time.Hour}

// transientPause is the pause after a transient failure. Up to half of it is added at random to
// avoid a thundering herd.
const transientPause = 5 * time.Second

// jittered returns transientPause plus a random part.
func jittered() time.Duration { return transientPause + rand.N(transientPause/2) }

// laterError is the error that Later returns: the timer shall be delivered again after a pause,
// which is no failure.
type laterError struct{ in time.Duration }

// Error returns the text for the log.
func (e *laterError) Error() string { return fmt.Sprintf("look again in %v", e.in) }

// Later returns an error by which a handler asks for another delivery after d. It consumes no
// attempt; touches during the lease count as usual.
func Later(d time.Duration) error { return &laterError{max(d, 0)} }

// LaterDelay returns the pause of an error made by Later, and whether err is one. Callers that run
// handlers without an Engine need it.
func LaterDelay(err error) (d time.Duration, ok bool) {
	if wait, ok := errors.AsType[*laterError](err); ok {
		return wait.in, true
	}
	return 0, false
}

// deliver runs the handler of a fired timer and queues the outcome. leased is the time of the
// lease, late the delay of the timer at that time.
func (w *worker) deliver(handlerCtx context.Context, f Fired, leased time.Time, late time.Duration) {
	begun := time.Now()
	w.engine.unarmed.remove(f.Key, f.Gen)
	w.count.Fired.Add(1)
	if f.Delivery == 1 {
		w.count.Lateness.Observe(late + begun.Sub(leased))
	} else {
		w.count.Repeated.Add(1)
	}
	log := w.engine.opt.Log
	if log.Enabled(handlerCtx, slog.LevelDebug) {
		log.DebugContext(handlerCtx, "timer fired", "timer", f.Key.String(), "gen", f.Gen, "due", f.Due, "last", f.Last, "delivery", f.Delivery)
	}
	w.engine.trace(f, Started, f.Due.Std(), nil)
	// The handler is cancelled before its lease expires, early enough to settle it. An overrun
	// counts as a failure.
	ctx, cancel := context.WithDeadline(handlerCtx, leased.Add(w.engine.opt.LeaseTime/10*9))
	w.count.Running.Add(1)
	err := w.call(ctx, f)
	w.count.Running.Add(-1)
	overrun := err != nil && ctx.Err() != nil && handlerCtx.Err() == nil
	cancel()
	w.count.Busy.Add(int64(time.Since(begun)))
	out := w.outcomeOf(handlerCtx, f, err, overrun)
	step, cause := stepOf(f, out, err)
	w.engine.trace(f, step, begun, cause)
	w.engine.outcomes <- out
}

// call runs the handler and returns its error. A panic is counted and becomes an error with the
// stack, so the timer is retried like any failed one.
func (w *worker) call(ctx context.Context, f Fired) (err error) {
	defer func() {
		if p := recover(); p != nil {
			w.count.Panics.Add(1)
			err = fmt.Errorf("handler of timer %s panicked: %v\n%s", f.Key, p, debug.Stack())
		}
	}()
	return w.handler(ctx, f)
}

// outcomeOf maps the handler's error to the outcome of the lease. A failure after a stop has
// cancelled the handlers consumes no attempt.
func (w *worker) outcomeOf(ctx context.Context, f Fired, err error, overrun bool) Outcome {
	out := Outcome{Key: f.Key, Token: f.Token, Verdict: Done, Attempt: f.Attempt}
	log := w.engine.opt.Log
	if err == nil && !log.Enabled(ctx, slog.LevelDebug) {
		return out
	}
	log = log.With("timer", f.Key.String(), "gen", f.Gen, "attempt", f.Attempt)
	var wait *laterError
	switch {
	case err == nil:
		log.DebugContext(ctx, "timer applied")
	case errors.As(err, &wait):
		w.count.Snoozed.Add(1)
		out.Verdict, out.In, out.Attempt = Snooze, wait.in, 0
		log.DebugContext(ctx, "timer snoozed", "in", wait.in)
	case ctx.Err() != nil, !overrun && drive.IsKind(err, drive.Unavailable, drive.Stopping):
		w.count.Waits.Add(1)
		out.Verdict, out.In = Retry, jittered()
		log.DebugContext(ctx, "timer waits for an unavailable dependency", "in", out.In, "error", err)
	case f.Attempt < len(backoff):
		w.count.Retries.Add(1)
		out.Verdict, out.In, out.Attempt = Retry, backoff[f.Attempt], f.Attempt+1
		log.WarnContext(ctx, "timer handler failed; retrying", "in", out.In, "error", err)
	default:
		return w.deadLetter(ctx, f, out, err)
	}
	return out
}

// deadLetter passes a timer without attempts left to Options.OnDead and returns out, which ends the
// timer. If OnDead fails, it returns out changed to a retry after a pause. Without OnDead the timer
// is only logged.
func (w *worker) deadLetter(ctx context.Context, f Fired, out Outcome, cause error) Outcome {
	log := w.engine.opt.Log.With("timer", f.Key.String(), "gen", f.Gen)
	if dead := w.engine.opt.OnDead; dead != nil {
		if err := dead(ctx, f, cause); err != nil {
			log.WarnContext(ctx, "dead timer not recorded; delivering it again", "error", errors.Join(err, cause))
			out.Verdict, out.In = Retry, jittered()
			return out
		}
	}
	w.count.Dead.Add(1)
	log.ErrorContext(ctx, "timer failed its last attempt; it is a dead letter now", "error", cause)
	return out
}
