package outbox

import (
	"context"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/stream"
)

const (
	retention = 7 * 24 * time.Hour // as long as a finished upload can be asked for
	sentKept  = time.Hour          // as long as a transaction may be run again whose reply was lost
	trimBatch = 500                // rows of one transaction: far below its budget of 50 ms
	trimLook  = 100_000            // records of a topic, none of them old, that a run reads
)

// Trim deletes records that are older than 7 days and settled by every consumer of their topic, in
// batches, and returns how many. A consumer that exists no more keeps its topic from being trimmed
// until Forget. Where a relay sends the records, it deletes those that were sent an hour ago, and
// no others.
func (o *Outbox) Trim(ctx context.Context, now time.Time) (int64, error) {
	if o.relayed {
		n, err := o.trimSent(ctx, drive.TimeOf(now.Add(-sentKept)))
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

// trimSent deletes batches until one is empty.
func (o *Outbox) trimSent(ctx context.Context, before drive.Time) (all int64, err error) {
	for {
		n, err := o.trimBatch(ctx, before)
		if all += n; err != nil || n == 0 {
			return all, err
		}
	}
}

// settled are the records of a topic that every consumer has settled.
const settled = "topic = ? AND id <= COALESCE((SELECT MIN(position) FROM cursors WHERE topic = ?), 9223372036854775807)"

// trimTopic deletes what is old.
func (o *Outbox) trimTopic(ctx context.Context, topic stream.Topic, before drive.Time) (int64, error) {
	old := sqldb.Sweep{
		Table: "outbox", Time: "created_at", Where: settled, Args: []any{string(topic), string(topic)}, Batch: trimBatch, Look: o.look,
	}
	n, upTo, err := old.Run(ctx, o.db, before, o.lookedUpTo(topic))
	o.counters.Trimmed.Add(n)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.looked[topic] = upTo
	return n, err
}

func (o *Outbox) lookedUpTo(topic stream.Topic) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.looked[topic]
}

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

// Forget ends a consumer that is not coming back: its cursor no longer holds back Trim, and what
// waited for its retry becomes dead letters, so that nothing is lost unseen.
func (o *Outbox) Forget(ctx context.Context, consumer string, topic stream.Topic) error {
	err := o.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		// The cursor goes first: a session that is about to add a retry has moved it, or finds that
		// it is gone.
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
