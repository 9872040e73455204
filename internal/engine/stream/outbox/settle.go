package outbox

import (
	"context"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/stream"
)

// Settle implements stream.Session. The cursor and the rows of retries are compared before they are
// set, so that an outcome counts once even if a second session of the same consumer hands over the
// same record.
func (s *session) Settle(ctx context.Context, outcomes []stream.Outcome) error {
	to := s.settled
	for _, out := range outcomes {
		if !out.Retry {
			to = out.Position.Offset
		}
	}
	err := s.o.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := s.step(ctx, tx, to); err != nil {
			return err
		}
		for _, out := range outcomes {
			if err := s.settleOne(ctx, tx, out); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("settle for %s of %s: %w", s.sub.Consumer, s.sub.Topic, err)
	}
	s.settled = to
	for _, out := range outcomes {
		if out.Retry {
			delete(s.retries, out.Position.Offset)
		}
	}
	return nil
}

func (s *session) step(ctx context.Context, tx *sqldb.Tx, to int64) error {
	if to == s.settled {
		return nil
	}
	n, err := tx.Exec(ctx, "UPDATE cursors SET position = ? WHERE consumer = ? AND topic = ? AND position = ?",
		to, s.sub.Consumer, string(s.sub.Topic), s.settled)
	return moved(n, err)
}

func (s *session) settleOne(ctx context.Context, tx *sqldb.Tx, out stream.Outcome) error {
	if out.Retry && out.Verdict == stream.Delay {
		n, err := tx.Exec(ctx, "UPDATE deliveries SET failures = ?, kind = ?, error = ?, not_before = ? WHERE id = ? AND failures = ?",
			out.Failures, out.Failure.Kind, out.Failure.Text, s.dueAt(out), out.Position.Offset, before(out))
		return moved(n, err)
	}
	if out.Retry {
		if err := moved(tx.Exec(ctx, "DELETE FROM deliveries WHERE id = ?", out.Position.Offset)); err != nil {
			return err
		}
	}
	switch out.Verdict {
	case stream.Ack:
		return nil
	case stream.Delay:
		_, err := tx.Exec(ctx, "INSERT INTO deliveries (consumer, topic, `key`, event, failures, kind, error, not_before) "+
			"VALUES (?, ?, ?, ?, ?, ?, ?, ?)", s.sub.Consumer, string(out.Topic), out.Key, string(out.Event), out.Failures,
			out.Failure.Kind, out.Failure.Text, s.dueAt(out))
		return err
	case stream.Bury:
		return s.o.bury(ctx, tx, stream.DeadLetter{
			Consumer: s.sub.Consumer, Topic: out.Topic, Key: out.Key, Event: out.Event, Failures: out.Failures, Failure: out.Failure,
		})
	}
	return fmt.Errorf("no verdict %d", out.Verdict)
}

// before is how often the record had failed when it was handed over.
func before(out stream.Outcome) int {
	if out.PutOff() {
		return out.Failures
	}
	return out.Failures - 1
}

// dueAt rounds up: a retry never comes before its level's delay is over.
func (s *session) dueAt(out stream.Outcome) drive.Time {
	return drive.TimeOf(s.o.now().Add(out.Level.Delay + time.Millisecond - 1))
}

// moved turns a compare-and-set that found nothing into the end of the session: somebody else has
// settled it.
func moved(n int64, err error) error {
	if err == nil && n == 0 {
		return drive.Fail(drive.WrongState)
	}
	return err
}
