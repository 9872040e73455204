package outbox

import (
	"context"
	"fmt"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
)

var (
	_ stream.Backlog            = (*Outbox)(nil)
	_ stream.DeadLetterImporter = (*Outbox)(nil)
)

// Announced receives a value after this process published or replayed a record (stream.Backlog).
func (o *Outbox) Announced() <-chan struct{} { return o.announced }

// Unsent returns up to limit records without a mark, in the order of their rows, and up to limit
// due retries (stream.Backlog). Retries that wait on a level of the outbox, from before the switch
// to a broker, are sent when due.
func (o *Outbox) Unsent(ctx context.Context, limit int) ([]stream.Unsent, error) {
	rows, err := o.db.Query(ctx, "SELECT id, topic, `key`, event FROM outbox WHERE sent_at IS NULL ORDER BY id LIMIT ?", limit)
	log, err := sqldb.Scan(rows, err, func(u *stream.Unsent, scan func(...any) error) error {
		return scan(&u.Position.Offset, &u.Topic, &u.Key, &u.Event)
	})
	if err != nil {
		return nil, fmt.Errorf("read what is unsent: %w", err)
	}
	rows, err = o.db.Query(ctx, "SELECT id, consumer, topic, `key`, event, failures FROM deliveries WHERE not_before <= ? ORDER BY id LIMIT ?",
		o.nowMs(), limit)
	retries, err := sqldb.Scan(rows, err, func(u *stream.Unsent, scan func(...any) error) error {
		u.Retry = true
		return scan(&u.Position.Offset, &u.Consumer, &u.Topic, &u.Key, &u.Event, &u.Failures)
	})
	if err != nil {
		return nil, fmt.Errorf("read the retries that are unsent: %w", err)
	}
	return append(log, retries...), nil
}

// MarkSent marks records as sent, so that Unsent does not return them, and deletes sent retries at
// once, in one transaction (stream.Backlog). Trim deletes marked records later. It may be repeated.
func (o *Outbox) MarkSent(ctx context.Context, sent []stream.Unsent) error {
	var log, retries []any
	for _, u := range sent {
		if u.Retry {
			retries = append(retries, u.Position.Offset)
		} else {
			log = append(log, u.Position.Offset)
		}
	}
	err := o.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if len(log) > 0 {
			args := append([]any{o.nowMs()}, log...)
			if _, err := tx.Exec(ctx, "UPDATE outbox SET sent_at = ? WHERE id IN ("+placeholders(len(log))+")", args...); err != nil {
				return err
			}
		}
		if len(retries) == 0 {
			return nil
		}
		_, err := tx.Exec(ctx, "DELETE FROM deliveries WHERE id IN ("+placeholders(len(retries))+")", retries...)
		return err
	})
	if err != nil {
		return fmt.Errorf("mark %d records as sent: %w", len(sent), err)
	}
	return nil
}

// placeholders returns n placeholders for a statement.
func placeholders(n int) string { return strings.TrimSuffix(strings.Repeat("?,", n), ",") }

// Waiting returns the number of unsent records and due retries, and the age of the oldest record
// (stream.Backlog).
func (o *Outbox) Waiting(ctx context.Context) (n int64, oldest time.Duration, err error) {
	var created drive.Time
	err = o.db.QueryRow(ctx, `SELECT count(*) + (SELECT count(*) FROM deliveries WHERE not_before <= ?), coalesce(min(created_at), 0)
		FROM outbox WHERE sent_at IS NULL`, o.nowMs()).Scan(&n, &created)
	if err != nil {
		return 0, 0, fmt.Errorf("count what is unsent: %w", err)
	}
	if created == 0 {
		return n, 0, nil
	}
	return n, max(0, o.nowMs().Sub(created)), nil
}

// Import inserts dead letters read from one partition of a log and advances the import mark of the
// partition, in one transaction (stream.DeadLetterImporter). The mark advances by compare-and-set:
// of two concurrent imports of a partition, one fails with WrongState.
func (o *Outbox) Import(ctx context.Context, log string, letters []stream.DrainedLetter) error {
	if len(letters) == 0 {
		return nil
	}
	err := o.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		position, err := o.drainPosition(ctx, tx, log, letters[0].Position.Partition)
		if err != nil {
			return err
		}
		for _, d := range letters {
			if d.Position.Offset <= position {
				continue
			}
			if err := o.insertLetter(ctx, tx, d); err != nil {
				return err
			}
		}
		last := letters[len(letters)-1].Position
		if last.Offset <= position {
			return nil
		}
		n, err := tx.Exec(ctx, "UPDATE drains SET position = ? WHERE log = ? AND shard = ? AND position = ?",
			last.Offset, log, last.Partition, position)
		return requireRow(n, err)
	})
	if err != nil {
		return fmt.Errorf("take over dead letters from %s: %w", log, err)
	}
	return nil
}

// drainPosition returns the offset up to which the dead letters of a partition of log were
// imported; -1 for a new partition, for which it inserts a row in tx.
func (o *Outbox) drainPosition(ctx context.Context, tx *sqldb.Tx, log string, shard int32) (position int64, err error) {
	const find = "SELECT position FROM drains WHERE log = ? AND shard = ?"
	err = tx.QueryRow(ctx, find, log, shard).Scan(&position)
	if !drive.IsKind(err, drive.NotFound) {
		return position, err
	}
	if _, err := tx.InsertNew(ctx, "INSERT INTO drains (log, shard, position) VALUES (?, ?, -1)", log, shard); err != nil {
		return 0, err
	}
	err = tx.QueryRow(ctx, find, log, shard).Scan(&position)
	return position, err
}

// insertLetter inserts the row of one imported dead letter. It does nothing if a letter with the
// same event id and consumer is there; a letter without them is always inserted.
func (o *Outbox) insertLetter(ctx context.Context, tx *sqldb.Tx, d stream.DrainedLetter) error {
	var event any
	if d.EventID != "" && d.Consumer != "" {
		event = d.EventID
	}
	_, err := tx.InsertNew(ctx, "INSERT INTO dead_letters (consumer, topic, `key`, event, failures, kind, error, died_at, event_id) "+
		"VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", d.Consumer, string(d.Topic), d.Key, string(d.Event), d.Failures,
		d.Failure.Kind, d.Failure.Text, d.DiedAt, event)
	return err
}
