package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"example.org/smartdrive/internal/base/drive"
)

// errPanic marks the error that replaces a panic of a handler.
var errPanic = errors.New("panic in a handler")

// handle runs the handler for one delivery and returns the outcome. An error means an outage: the
// delivery keeps its place and consumes no attempt.
func (r *Runner) handle(ctx context.Context, d Delivery) (Outcome, error) {
	rec, err := d.decode()
	if err != nil {
		r.counters.Dead.Add(1)
		r.log.Error("record cannot be decoded; it is a dead letter now", "position", d.Position.Offset, "error", err)
		return Outcome{Delivery: d, Verdict: Dead, Failure: FailureOf(err)}, nil
	}
	log := r.log.With("record", rec.ID, "type", string(rec.Type), "subject", rec.Subject, "account", d.Key)
	err = r.call(ctx, rec, log)
	switch {
	case err == nil:
		r.counters.Handled.Add(1)
		log.Debug("record handled", "failures", d.Failures)
		return Outcome{Delivery: d, Verdict: Ack}, nil
	case isOutage(ctx, err):
		return Outcome{}, fmt.Errorf("handle record %s: %w", rec.ID, err)
	}
	return r.fail(d, err, log), nil
}

// fail counts a failed attempt and returns the outcome: a delay on the next level, or a dead letter
// after the last.
func (r *Runner) fail(d Delivery, err error, log *slog.Logger) Outcome {
	d.Failures++
	level, ok := levelAfter(r.levels, d.Failures)
	if !ok {
		r.counters.Dead.Add(1)
		log.Error("record failed its last attempt; it is a dead letter now", "failures", d.Failures, "error", err)
		return Outcome{Delivery: d, Verdict: Dead, Failure: FailureOf(err)}
	}
	r.counters.Retried.Add(1)
	log.Warn("handling a record failed; it is retried", "failures", d.Failures, "again_in", level.Delay, "error", err)
	return Outcome{Delivery: d, Verdict: Delay, Level: level, Failure: FailureOf(err)}
}

// call runs the handler and turns a panic into an error, so that later records are still handled.
func (r *Runner) call(ctx context.Context, rec Record, log *slog.Logger) (err error) {
	defer func() {
		if v := recover(); v != nil {
			r.counters.Panics.Add(1)
			log.Error("stream handler panicked; the record counts as failed", "panic", v, "stack", string(debug.Stack()))
			err = fmt.Errorf("%w: %v", errPanic, v)
		}
	}()
	return r.consumer.Handle(ctx, rec)
}

// decode returns the record of the delivery. It fails if the key is not an account id or the event
// is invalid.
func (d Delivery) decode() (Record, error) {
	var key drive.AccountID
	if d.Key != "" {
		var err error
		if key, err = drive.ParseID[drive.AccountID](d.Key); err != nil {
			return Record{}, fmt.Errorf("key %q is not an account", d.Key)
		}
	}
	return Decode(d.Topic, key, d.Event)
}
