package outbox

import (
	"context"
	"fmt"
	"strings"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/stream"
)

var (
	_ stream.Backlog   = (*Outbox)(nil)
	_ stream.Graveyard = (*Outbox)(nil)
)

// Announced implements stream.Backlog.
func (o *Outbox) Announced() <-chan struct{} { return o.announced }

// Unsent implements stream.Backlog. What waits on an embedded level, from before there was a
// broker, is sent when it is due.
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

// MarkSent implements stream.Backlog. Trim deletes marked records by their age; a retry is deleted
// at once.
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
			if _, err := tx.Exec(ctx, "UPDATE outbox SET sent_at = ? WHERE id IN ("+marks(len(log))+")", args...); err != nil {
				return err
			}
		}
		if len(retries) == 0 {
			return nil
		}
		_, err := tx.Exec(ctx, "DELETE FROM deliveries WHERE id IN ("+marks(len(retries))+")", retries...)
		return err
	})
	if err != nil {
		return fmt.Errorf("mark %d records as sent: %w", len(sent), err)
	}
	return nil
}

// marks returns n placeholders.
func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?,", n), ",") }

// Waiting implements stream.Backlog.
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

// Inter implements stream.Graveyard. The mark moves by compare-and-set, so that of two who drain
// one partition one finds out.
func (o *Outbox) Inter(ctx context.Context, log string, letters []stream.Drained) error {
	if len(letters) == 0 {
		return nil
	}
	err := o.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		mark, err := o.mark(ctx, tx, log, letters[0].Position.Partition)
		if err != nil {
			return err
		}
		for _, d := range letters {
			if d.Position.Offset <= mark {
				continue
			}
			if err := o.inter(ctx, tx, d); err != nil {
				return err
			}
		}
		last := letters[len(letters)-1].Position
		if last.Offset <= mark {
			return nil
		}
		n, err := tx.Exec(ctx, "UPDATE drains SET position = ? WHERE log = ? AND shard = ? AND position = ?",
			last.Offset, log, last.Partition, mark)
		return moved(n, err)
	})
	if err != nil {
		return fmt.Errorf("take over dead letters from %s: %w", log, err)
	}
	return nil
}

// mark returns how far a partition is drained; -1 when it is new.
func (o *Outbox) mark(ctx context.Context, tx *sqldb.Tx, log string, shard int32) (mark int64, err error) {
	const find = "SELECT position FROM drains WHERE log = ? AND shard = ?"
	err = tx.QueryRow(ctx, find, log, shard).Scan(&mark)
	if !drive.IsKind(err, drive.NotFound) {
		return mark, err
	}
	if _, err := tx.InsertNew(ctx, "INSERT INTO drains (log, shard, position) VALUES (?, ?, -1)", log, shard); err != nil {
		return 0, err
	}
	err = tx.QueryRow(ctx, find, log, shard).Scan(&mark)
	return mark, err
}

func (o *Outbox) inter(ctx context.Context, tx *sqldb.Tx, d stream.Drained) error {
	var event any
	if d.EventID != "" && d.Consumer != "" {
		event = d.EventID
	}
	_, err := tx.InsertNew(ctx, "INSERT INTO dead_letters (consumer, topic, `key`, event, failures, kind, error, died_at, event_id) "+
		"VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", d.Consumer, string(d.Topic), d.Key, string(d.Event), d.Failures,
		d.Failure.Kind, d.Failure.Text, d.DiedAt, event)
	return err
}
