package stream

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ackBatchReady reports whether the unsettled outcomes have reached the limit of count or age.
func (r *Runner) ackBatchReady() bool {
	ready := r.window.settleable()
	return len(ready) >= r.consumer.Batch || r.aged(ready)
}

// aged reports whether the oldest of ready was handled at least Consumer.AckAge ago, so that it
// must be settled now; false if ready is empty.
func (r *Runner) aged(ready []*item) bool {
	oldest := r.oldest(ready)
	return !oldest.IsZero() && r.now().Sub(oldest) >= r.consumer.AckAge
}

// oldest returns the earliest end of a handler among ready; zero if ready is empty.
func (r *Runner) oldest(ready []*item) (t time.Time) {
	for _, it := range ready {
		if t.IsZero() || it.doneAt.Before(t) {
			t = it.doneAt
		}
	}
	return t
}

// settleDue settles all finished outcomes if one of them must not wait longer: a failure, a retry,
// a full batch or the age limit; else it does nothing. Only acks of the log may wait: a crash
// before settling would lose a failed attempt, or deliver a retry twice.
func (r *Runner) settleDue(ctx context.Context) error {
	ready := r.window.settleable()
	must := len(ready) >= r.consumer.Batch || r.aged(ready)
	for _, it := range ready {
		must = must || it.out.Verdict != Ack || it.Retry
	}
	if !must {
		return nil
	}
	return r.settle(ctx)
}

// settle makes all settleable outcomes durable, also while ctx is done, so that a stop does not
// repeat work. On error it discards the session.
func (r *Runner) settle(ctx context.Context) error {
	ready := r.window.settleable()
	if len(ready) == 0 || r.session == nil {
		return nil
	}
	outcomes := make([]Outcome, len(ready))
	gone := make(map[*item]bool, len(ready))
	for i, it := range ready {
		outcomes[i], gone[it] = it.out, true
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.settleTimeout)
	defer cancel()
	if err := r.session.Settle(ctx, outcomes); err != nil {
		return errors.Join(fmt.Errorf("settle %d records: %w", len(outcomes), err), r.discardSession())
	}
	r.window.remove(func(it *item) bool { return gone[it] })
	return nil
}

// discardSession drops all unsettled records and closes the session, with the effect of a crash:
// the next session delivers them again. Without a session it does nothing. It returns the error of
// closing.
func (r *Runner) discardSession() error {
	session := r.session
	r.session, r.window, r.more = nil, window{}, false
	if session == nil {
		return nil
	}
	return session.Close()
}

// next returns the earlier of the next retry and the time to settle pending acks; zero: none.
func (r *Runner) next() time.Time {
	ack := r.nextAck()
	if ack.IsZero() || !r.retryAt.IsZero() && r.retryAt.Before(ack) {
		return r.retryAt
	}
	return ack
}

// nextAck returns the time at which pending acks must be settled: AckAge after the oldest of them.
// The zero time means that none is pending.
func (r *Runner) nextAck() time.Time {
	oldest := r.oldest(r.window.settleable())
	if oldest.IsZero() {
		return oldest
	}
	return oldest.Add(r.consumer.AckAge)
}
