package outbox

import (
	"context"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
)

// session reads the records of one consumer from the tables (stream.Session).
type session struct {
	o       *Outbox
	sub     stream.Subscription
	ready   chan struct{}      // signals that records were published
	settled int64              // durable position of the cursor
	read    int64              // last offset returned by Poll
	gaps    gaps               // ids that are not visible yet, and may be of uncommitted transactions
	retries map[int64]struct{} // ids of polled and unsettled rows of deliveries
}

// Open starts a session at the consumer's cursor in the topic; if the consumer has none, it inserts
// one where sub.Start says (stream.Source). The caller must close the session. Several sessions of
// one consumer may be open; see Settle.
func (o *Outbox) Open(ctx context.Context, sub stream.Subscription) (stream.Session, error) {
	s := &session{o: o, sub: sub, ready: make(chan struct{}, 1), retries: map[int64]struct{}{}}
	err := o.findCursor(ctx, sub, &s.settled)
	if drive.IsKind(err, drive.NotFound) {
		if err = o.createCursor(ctx, sub); err == nil {
			err = o.findCursor(ctx, sub, &s.settled)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open consumer %s of %s: %w", sub.Consumer, sub.Topic, err)
	}
	s.read, s.gaps.complete = s.settled, s.settled
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sessions[s] = struct{}{}
	return s, nil
}

// findCursor sets *position to the cursor of a consumer in its topic. It fails with NotFound if the
// consumer has none yet, and leaves *position unchanged.
func (o *Outbox) findCursor(ctx context.Context, sub stream.Subscription, position *int64) error {
	return o.db.QueryRow(ctx, "SELECT position FROM cursors WHERE consumer = ? AND topic = ?",
		sub.Consumer, string(sub.Topic)).Scan(position)
}

// createCursor inserts the cursor of a new consumer at the position that sub.Start says, unless it
// exists. The caller must read the cursor back, because another process may have created it.
func (o *Outbox) createCursor(ctx context.Context, sub stream.Subscription) error {
	return o.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		var start int64
		if sub.Start == stream.FromEnd {
			err := tx.QueryRow(ctx, "SELECT COALESCE(MAX(id), 0) FROM outbox WHERE topic = ?", string(sub.Topic)).Scan(&start)
			if err != nil {
				return err
			}
		}
		_, err := tx.InsertNew(ctx, "INSERT INTO cursors (consumer, topic, position) VALUES (?, ?, ?)",
			sub.Consumer, string(sub.Topic), start)
		return err
	})
}

// Ready receives a value after this process published or replayed a record of the topic
// (stream.Session).
func (s *session) Ready() <-chan struct{} { return s.ready }

// Close ends the session without settling: unsettled records are delivered again to the next
// session (stream.Session). It may be called more than once and always returns nil.
func (s *session) Close() error {
	s.o.mu.Lock()
	defer s.o.mu.Unlock()
	delete(s.o.sessions, s)
	return nil
}

// Poll returns up to limit due retries, then up to limit records after the last one returned
// (stream.Session). next is the time of the next retry or of the next look at a gap; zero: none.
func (s *session) Poll(ctx context.Context, limit int) ([]stream.Delivery, time.Time, error) {
	retries, next, err := s.pollRetries(ctx, limit)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read the retries of %s: %w", s.sub.Consumer, err)
	}
	inOrder := s.o.db.Dialect() == sqldb.SQLite
	rows, err := s.o.db.Query(ctx, "SELECT id, `key`, event FROM outbox WHERE topic = ? AND id > ? ORDER BY id LIMIT ?",
		string(s.sub.Topic), s.read, limit)
	log, err := sqldb.Scan(rows, err, func(d *stream.Delivery, scan func(...any) error) error {
		d.Topic = s.sub.Topic
		return scan(&d.Position.Offset, &d.Key, &d.Event)
	})
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read %s: %w", s.sub.Topic, err)
	}
	log, wait, err := s.cutAtGap(ctx, log, inOrder)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("look for gaps in %s: %w", s.sub.Topic, err)
	}
	if again := s.o.now().Add(wait); wait > 0 && (next.IsZero() || again.Before(next)) {
		next = again
	}
	for _, d := range retries {
		s.retries[d.Position.Offset] = struct{}{}
	}
	if len(log) > 0 {
		s.read = log[len(log)-1].Position.Offset
	}
	return append(retries, log...), next, nil
}

// maxDelay exceeds the delay of every level. A retry that is due later was written by a clock that
// was ahead, and is delivered now.
const maxDelay = 2 * time.Hour

// retryRow is a row of deliveries.
type retryRow struct {
	stream.Delivery
	notBefore drive.Time
}

// pollRetries returns up to limit due retries that are not in flight, and the time at which the
// next one is due. It reads one more row than it returns to know that time.
func (s *session) pollRetries(ctx context.Context, limit int) ([]stream.Delivery, time.Time, error) {
	rows, err := s.o.db.Query(ctx, "SELECT id, `key`, event, failures, not_before FROM deliveries "+
		"WHERE consumer = ? AND topic = ? ORDER BY not_before, id LIMIT ?", s.sub.Consumer, string(s.sub.Topic), limit+1+len(s.retries))
	all, err := sqldb.Scan(rows, err, func(w *retryRow, scan func(...any) error) error {
		w.Topic, w.Retry = s.sub.Topic, true
		return scan(&w.Position.Offset, &w.Key, &w.Event, &w.Failures, &w.notBefore)
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	var due []stream.Delivery
	now := s.o.nowMs()
	for _, w := range all {
		if _, out := s.retries[w.Position.Offset]; out {
			continue
		}
		if len(due) == limit || w.notBefore > now && w.notBefore <= now.Add(maxDelay) {
			return due, w.notBefore.Std(), nil
		}
		due = append(due, w.Delivery)
	}
	return due, time.Time{}, nil
}
