package outbox

import (
	"context"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
)

// Settle writes the outcomes in one transaction: it moves the cursor and the rows of retries, by
// compare-and-set, and inserts retries and dead letters (stream.Session). If a second session of
// the consumer has settled any of the outcomes, it fails with WrongState and writes nothing.
func (s *session) Settle(ctx context.Context, outcomes []stream.Outcome) error {
	to := s.settled
	for _, out := range outcomes {
		if !out.Retry {
			to = out.Position.Offset
		}
	}
	err := s.o.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := s.moveCursor(ctx, tx, to); err != nil {
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

// moveCursor moves the cursor to the given id, or fails with WrongState if another session moved
// it.
func (s *session) moveCursor(ctx context.Context, tx *sqldb.Tx, to int64) error {
	if to == s.settled {
		return nil
	}
	n, err := tx.Exec(ctx, "UPDATE cursors SET position = ? WHERE consumer = ? AND topic = ? AND position = ?",
		to, s.sub.Consumer, string(s.sub.Topic), s.settled)
	return requireRow(n, err)
}

// settleOne writes one outcome in tx: it deletes or reschedules the row of a retried record, and
// inserts a row for a record that failed first, as a retry or a dead letter. It does not move the
// cursor. It fails as requireRow does if another session has settled the retry.
func (s *session) settleOne(ctx context.Context, tx *sqldb.Tx, out stream.Outcome) error {
	if out.Retry && out.Verdict == stream.Delay {
		n, err := tx.Exec(ctx, "UPDATE deliveries SET failures = ?, kind = ?, error = ?, not_before = ? WHERE id = ? AND failures = ?",
			out.Failures, out.Failure.Kind, out.Failure.Text, s.dueAt(out), out.Position.Offset, failuresBefore(out))
		return requireRow(n, err)
	}
	if out.Retry {
		if err := requireRow(tx.Exec(ctx, "DELETE FROM deliveries WHERE id = ?", out.Position.Offset)); err != nil {
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
	case stream.Dead:
		return s.o.insertDead(ctx, tx, stream.DeadLetter{
			Consumer: s.sub.Consumer, Topic: out.Topic, Key: out.Key, Event: out.Event, Failures: out.Failures, Failure: out.Failure,
		})
	}
	return fmt.Errorf("no verdict %d", out.Verdict)
}

// failuresBefore returns the number of failures that the record had when it was delivered, which
// the row still shows.
func failuresBefore(out stream.Outcome) int {
	if out.Postponed() {
		return out.Failures
	}
	return out.Failures - 1
}

// dueAt returns the time of the retry, rounded up, so that no retry is early.
func (s *session) dueAt(out stream.Outcome) drive.Time {
	return drive.TimeOf(s.o.now().Add(out.Level.Delay + time.Millisecond - 1))
}

// requireRow checks the result of an update: n rows and err. If it changed no row, another session
// has settled the record, and requireRow returns WrongState.
func requireRow(n int64, err error) error {
	if err == nil && n == 0 {
		return drive.Fail(drive.WrongState)
	}
	return err
}
