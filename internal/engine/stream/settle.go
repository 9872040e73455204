package stream

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// gathered reports whether acks have been gathered for long enough, by count or by age.
func (r *Runner) gathered() bool {
	ready := r.window.settleable()
	return len(ready) >= r.consumer.Batch || r.aged(ready)
}

func (r *Runner) aged(ready []*item) bool {
	oldest := r.oldest(ready)
	return !oldest.IsZero() && r.now().Sub(oldest) >= r.consumer.AckAge
}

func (r *Runner) oldest(ready []*item) (t time.Time) {
	for _, it := range ready {
		if t.IsZero() || it.since.Before(t) {
			t = it.since
		}
	}
	return t
}

// settleDue settles what may not wait any longer: only acks of the log may, since a failure that a
// crash forgets costs an attempt, and a retry that is settled late is handed over twice.
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

// settle makes outcomes durable, during a stop too: what was done must not be done again without
// need.
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.settling)
	defer cancel()
	if err := r.session.Settle(ctx, outcomes); err != nil {
		return errors.Join(fmt.Errorf("settle %d records: %w", len(outcomes), err), r.abandon())
	}
	r.window.remove(func(it *item) bool { return gone[it] })
	return nil
}

// abandon forgets all that is not durable, as a crash would: the next session goes on from the
// cursor.
func (r *Runner) abandon() error {
	session := r.session
	r.session, r.window, r.more = nil, window{}, false
	if session == nil {
		return nil
	}
	return session.Close()
}

// next is the earlier of the next retry and the time by which pending acks are to be settled.
func (r *Runner) next() time.Time {
	ack := r.nextAck()
	if ack.IsZero() || !r.retryAt.IsZero() && r.retryAt.Before(ack) {
		return r.retryAt
	}
	return ack
}

func (r *Runner) nextAck() time.Time {
	oldest := r.oldest(r.window.settleable())
	if oldest.IsZero() {
		return oldest
	}
	return oldest.Add(r.consumer.AckAge)
}
