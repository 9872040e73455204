package outbox

import (
	"context"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
)

const (
	retention   = 7 * 24 * time.Hour // as long as a finished upload can be queried
	keepSent    = time.Hour          // as long as a transaction may be retried after a lost reply
	trimBatch   = 500                // rows per transaction, far below its budget of 50 ms
	trimExamine = 100_000            // records of a topic that a run examines, if none is old
)

// Trim deletes records that are older than 7 days and settled by every consumer of their topic, in
// batches, and returns their number. A consumer that no longer exists blocks the trimming of its
// topic until RemoveConsumer. With a relay, Trim deletes only records sent more than an hour ago.
func (o *Outbox) Trim(ctx context.Context, now time.Time) (int64, error) {
	if o.relayed {
		n, err := o.trimSent(ctx, drive.TimeOf(now.Add(-keepSent)))
		if err != nil {
			return n, fmt.Errorf("trim what was sent: %w", err)
		}
		return n, nil
	}
	var all int64
	for _, topic := range stream.Topics() {
		n, err := o.trimTopic(ctx, topic, drive.TimeOf(now.Add(-retention)))
		if all += n; err != nil {
			return all, fmt.Errorf("trim %s: %w", topic, err)
		}
	}
	return all, nil
}

// trimSent deletes the records sent before the given time, in transactions of trimBatch rows, until
// a batch is empty. It returns the number of deleted rows, also with an error.
func (o *Outbox) trimSent(ctx context.Context, before drive.Time) (all int64, err error) {
	for {
		n, err := o.trimBatch(ctx, before)
		if all += n; err != nil || n == 0 {
			return all, err
		}
	}
}

// settled is the condition for records of a topic that every consumer has settled.
const settled = "topic = ? AND id <= COALESCE((SELECT MIN(position) FROM cursors WHERE topic = ?), 9223372036854775807)"

// trimTopic deletes records of a topic that all consumers have settled and that were created before
// the given time. It examines a bounded number of rows, continues at the next call where it
// stopped, and returns the number of deleted rows.
func (o *Outbox) trimTopic(ctx context.Context, topic stream.Topic, before drive.Time) (int64, error) {
	old := sqldb.Sweep{
		Table: "outbox", Time: "created_at", Where: settled, Args: []any{string(topic), string(topic)}, Batch: trimBatch, MaxExamined: o.examine,
	}
	n, upTo, err := old.Run(ctx, o.db, before, o.trimCursor(topic))
	o.counters.Trimmed.Add(n)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.trimCursors[topic] = upTo
	return n, err
}

// trimCursor returns the id at which the last trim of the topic stopped; 0: it reached the end.
func (o *Outbox) trimCursor(topic stream.Topic) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.trimCursors[topic]
}

// trimBatch deletes up to trimBatch records sent before the given time, in a transaction of its
// own, and adds their number to the counter. It returns 0 with an error.
func (o *Outbox) trimBatch(ctx context.Context, before drive.Time) (n int64, err error) {
	err = o.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		n, err = tx.DeleteBatch(ctx, sqldb.Batch{Table: "outbox", Key: "id", Where: "sent_at < ?", Args: []any{before}, Limit: trimBatch})
		return err
	})
	if err != nil {
		return 0, err
	}
	o.counters.Trimmed.Add(n)
	return n, nil
}

// RemoveConsumer removes a consumer permanently. Its cursor no longer blocks Trim, and its waiting
// retries become dead letters.
func (o *Outbox) RemoveConsumer(ctx context.Context, consumer string, topic stream.Topic) error {
	err := o.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		// Delete the cursor first: a session that is about to add a retry must have moved the
		// cursor before, or fails.
		if _, err := tx.Exec(ctx, "DELETE FROM cursors WHERE consumer = ? AND topic = ?", consumer, string(topic)); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO dead_letters (consumer, topic, `+"`key`"+`, event, failures, kind, error, died_at)
			SELECT consumer, topic, `+"`key`"+`, event, failures, kind, error, ? FROM deliveries WHERE consumer = ? AND topic = ?`,
			o.nowMs(), consumer, string(topic)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "DELETE FROM deliveries WHERE consumer = ? AND topic = ?", consumer, string(topic))
		return err
	})
	if err != nil {
		return fmt.Errorf("forget consumer %s of %s: %w", consumer, topic, err)
	}
	return nil
}
