package outbox

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
)

// maxPage is the greatest page size of List.
const maxPage = 1000

// Add stores a record that did not pass through a session as a dead letter (stream.DeadLetters).
func (o *Outbox) Add(ctx context.Context, tx *sqldb.Tx, consumer string, r stream.Record, failures int, cause error) error {
	event, err := o.encode(r)
	if err != nil {
		return err
	}
	return o.insertDead(ctx, tx, stream.DeadLetter{
		Consumer: consumer, Topic: r.Topic, Key: keyText(r.Key), Event: []byte(event), Failures: failures,
		Failure: stream.FailureOf(cause),
	})
}

// insertDead inserts the row of a dead letter with a new id and the current time; ID and DiedAt of
// d are ignored.
func (o *Outbox) insertDead(ctx context.Context, tx *sqldb.Tx, d stream.DeadLetter) error {
	_, err := tx.Exec(ctx, "INSERT INTO dead_letters (consumer, topic, `key`, event, failures, kind, error, died_at) "+
		"VALUES (?, ?, ?, ?, ?, ?, ?, ?)", d.Consumer, string(d.Topic), d.Key, string(d.Event), d.Failures,
		d.Failure.Kind, d.Failure.Text, o.nowMs())
	if err != nil {
		return fmt.Errorf("write a dead letter: %w", err)
	}
	return nil
}

// selectDead selects the columns for scanDead.
const selectDead = "SELECT id, consumer, topic, `key`, event, failures, kind, error, died_at FROM dead_letters "

// scanDead scans a row of selectDead.
func scanDead(d *stream.DeadLetter, scan func(...any) error) error {
	return scan(&d.ID, &d.Consumer, &d.Topic, &d.Key, &d.Event, &d.Failures, &d.Failure.Kind, &d.Failure.Text, &d.DiedAt)
}

// List returns the dead letters with ids greater than after, the oldest first (stream.DeadLetters).
// The limit is clamped to 1..1000.
func (o *Outbox) List(ctx context.Context, limit int, after stream.DeadID) ([]stream.DeadLetter, error) {
	rows, err := o.db.Query(ctx, selectDead+"WHERE id > ? ORDER BY id LIMIT ?", int64(after), min(max(limit, 1), maxPage))
	letters, err := sqldb.Scan(rows, err, scanDead)
	if err != nil {
		return nil, fmt.Errorf("list dead letters: %w", err)
	}
	return letters, nil
}

// Get returns a dead letter, or NotFound (stream.DeadLetters).
func (o *Outbox) Get(ctx context.Context, id stream.DeadID) (stream.DeadLetter, error) {
	var d stream.DeadLetter
	if err := scanDead(&d, o.db.QueryRow(ctx, selectDead+"WHERE id = ?", int64(id)).Scan); err != nil {
		return stream.DeadLetter{}, fmt.Errorf("get dead letter %d: %w", id, err)
	}
	return d, nil
}

// Replay moves a dead letter to the due retries of its consumer, with no failures
// (stream.DeadLetters). It fails with NotFound if the letter does not exist.
func (o *Outbox) Replay(ctx context.Context, id stream.DeadID) error {
	err := o.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		var topic stream.Topic
		if err := tx.QueryRow(ctx, "SELECT topic FROM dead_letters WHERE id = ?", int64(id)).Scan(&topic); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "INSERT INTO deliveries (consumer, topic, `key`, event, failures, kind, error, not_before) "+
			"SELECT consumer, topic, `key`, event, 0, kind, error, ? FROM dead_letters WHERE id = ?", o.nowMs(), int64(id)); err != nil {
			return err
		}
		tx.AfterCommit(func() {
			o.counters.Replayed.Add(1)
			o.log.Debug("dead letter replayed", "dead_letter", int64(id), "topic", string(topic))
			o.wake(topic)
		})
		return deleteDead(ctx, tx, id)
	})
	if err != nil {
		return fmt.Errorf("replay dead letter %d: %w", id, err)
	}
	return nil
}

// Drop deletes a dead letter permanently, in a transaction of its own; its record is not delivered
// again (stream.DeadLetters). It fails with NotFound if the letter does not exist.
func (o *Outbox) Drop(ctx context.Context, id stream.DeadID) error {
	err := o.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return deleteDead(ctx, tx, id) })
	if err != nil {
		return fmt.Errorf("drop dead letter %d: %w", id, err)
	}
	return nil
}

// deleteDead deletes the row of a dead letter in tx. It fails with NotFound if there is none, so
// that two concurrent calls do not both succeed.
func deleteDead(ctx context.Context, tx *sqldb.Tx, id stream.DeadID) error {
	n, err := tx.Exec(ctx, "DELETE FROM dead_letters WHERE id = ?", int64(id))
	if err == nil && n == 0 {
		return drive.Fail(drive.NotFound)
	}
	return err
}
