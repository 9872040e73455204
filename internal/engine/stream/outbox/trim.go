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
)

// Trim deletes records that are older than 7 days and settled by every consumer of their topic, in
// batches, until there are none, and returns how many. A consumer that exists no more keeps its
// topic from being trimmed until Forget. Where a relay sends the records, it deletes those that
// were sent an hour ago, and no others.
func (o *Outbox) Trim(ctx context.Context, now time.Time) (int64, error) {
	if o.relayed {
		n, err := o.trimAll(ctx, sqldb.Batch{Where: "sent_at < ?", Args: []any{drive.TimeOf(now.Add(-sentKept))}})
		if err != nil {
			return n, fmt.Errorf("trim what was sent: %w", err)
		}
		return n, nil
	}
	var all int64
	before := drive.TimeOf(now.Add(-retention))
	for _, topic := range stream.Topics() {
		// It looks at the oldest rows of the topic only, so it reads no more than it deletes,
		// whatever is behind them.
		n, err := o.trimAll(ctx, sqldb.Batch{
			Where: `id IN (SELECT id FROM (SELECT id, created_at FROM outbox WHERE topic = ?
				AND id <= COALESCE((SELECT MIN(position) FROM cursors WHERE topic = ?), 9223372036854775807)
				ORDER BY id LIMIT ?) AS oldest WHERE created_at < ?)`,
			Args: []any{string(topic), string(topic), trimBatch, before},
		})
		if all += n; err != nil {
			return all, fmt.Errorf("trim %s: %w", topic, err)
		}
	}
	return all, nil
}

// trimAll deletes batches until one is empty. One that is not full says nothing: some of the oldest
// rows may have to stay.
func (o *Outbox) trimAll(ctx context.Context, batch sqldb.Batch) (int64, error) {
	batch.Table, batch.Key, batch.Limit = "outbox", "id", trimBatch
	for all := int64(0); ; {
		var n int64
		err := o.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			n, err = tx.DeleteBatch(ctx, batch)
			return err
		})
		if err != nil || n == 0 {
			return all, err
		}
		all += n
		o.counters.Trimmed.Add(n)
	}
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
