package outbox

import (
	"context"
	"fmt"
	"slices"
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
		n, err := o.trimBatch(ctx, sqldb.Batch{Where: "sent_at < ?", Args: []any{before}})
		if all += n; err != nil || n == 0 {
			return all, err
		}
	}
}

// trimTopic deletes what is old. The oldest records are the first, and most runs need only those.
// But records of a clock that was ahead may lie before them, so a run also looks at many that have
// to stay, and the next one goes on behind those.
func (o *Outbox) trimTopic(ctx context.Context, topic stream.Topic, before drive.Time) (all int64, err error) {
	after, young := int64(0), 0
	for young < o.look {
		p, err := o.trimPage(ctx, topic, after, before)
		if all += p.deleted; err != nil {
			return all, err
		}
		if p.rows == 0 {
			after = 0
			break
		}
		after = p.last
		if !p.old {
			if young == 0 {
				after = max(after, o.lookedUpTo(topic))
			}
			young += p.rows
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.looked[topic] = after
	return all, nil
}

func (o *Outbox) lookedUpTo(topic stream.Topic) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.looked[topic]
}

// page is what trimTopic has looked at.
type page struct {
	rows    int
	last    int64
	old     bool // some were old
	deleted int64
}

// settled are the records of a topic that every consumer has settled.
const settled = "topic = ? AND id <= COALESCE((SELECT MIN(position) FROM cursors WHERE topic = ?), 9223372036854775807)"

func (o *Outbox) trimPage(ctx context.Context, topic stream.Topic, after int64, before drive.Time) (p page, err error) {
	type row struct {
		id int64
		at drive.Time
	}
	rows, err := o.db.Query(ctx, "SELECT id, created_at FROM outbox WHERE "+settled+" AND id > ? ORDER BY id LIMIT ?",
		string(topic), string(topic), after, trimBatch)
	all, err := sqldb.Scan(rows, err, func(r *row, scan func(...any) error) error { return scan(&r.id, &r.at) })
	if err != nil || len(all) == 0 {
		return p, err
	}
	p.rows, p.last = len(all), all[len(all)-1].id
	if p.old = slices.ContainsFunc(all, func(r row) bool { return r.at < before }); p.old {
		p.deleted, err = o.trimBatch(ctx, sqldb.Batch{
			Where: settled + " AND id > ? AND id <= ? AND created_at < ?",
			Args:  []any{string(topic), string(topic), after, p.last, before},
		})
	}
	return p, err
}

func (o *Outbox) trimBatch(ctx context.Context, batch sqldb.Batch) (n int64, err error) {
	batch.Table, batch.Key, batch.Limit = "outbox", "id", trimBatch
	err = o.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		n, err = tx.DeleteBatch(ctx, batch)
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
