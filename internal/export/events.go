package export

import (
	"context"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
)

// Owners are notified by events of the stream, written by the transaction that changes the batch:
// sealed, failed for good, ending soon, late. Each event is written at most once per batch.

// endingSoon is the time before expiry at which the owner is notified. Batches with a shorter
// lifetime send no such event: the sealed event already tells the expiry.
const endingSoon = 24 * time.Hour

// eventData is the JSON data of the events of a batch.
type eventData struct {
	Export    drive.ExportID `json:"export"`
	Root      drive.ExportID `json:"root"`
	Revision  int64          `json:"revision"`
	Set       drive.ExportID `json:"set"`
	Part      int64          `json:"part"`
	Parts     int64          `json:"parts"`
	Name      string         `json:"name"`
	Origin    Origin         `json:"origin"`
	Total     int64          `json:"total"`
	Collected int64          `json:"collected"`
	Failed    int64          `json:"failed"`
	Size      drive.ByteSize `json:"size,omitempty"`
	ETag      string         `json:"etag,omitempty"`
	ExpiresAt *drive.Time    `json:"expires_at,omitempty"`
	Error     string         `json:"error,omitempty"`
}

// publish writes an event about batch b in tx. Without Options.Events it does nothing.
func (c *core) publish(ctx context.Context, tx *sqldb.Tx, typ stream.Type, b batch) error {
	if c.opt.Events == nil {
		return nil
	}
	record, err := stream.New(stream.TopicExports, typ, b.Account, b.ID.String(), eventData{
		Export: b.ID, Root: b.Root, Revision: b.Revision, Set: b.Set, Part: b.Part, Parts: b.Parts, Name: b.Name, Origin: b.Origin,
		Total: b.Total, Collected: b.Collected, Failed: b.Failed, Size: b.Size, ETag: b.ETag, ExpiresAt: maybe(b.Expires), Error: b.Error,
	})
	if err != nil {
		return err
	}
	return c.opt.Events.Append(ctx, tx, record)
}

// endingAt returns when the owner of a sealed batch that expires at expires is told of that; 0 for
// no event, if batches live no longer than endingSoon.
func (c *core) endingAt(expires drive.Time) drive.Time {
	if c.opt.Lifetime <= endingSoon {
		return 0
	}
	return expires.Add(-endingSoon)
}

// endingPage is the number of events written between two polls for other work.
const endingPage = 100

// publishEnding writes one event for each sealed batch that expires soon, endingPage batches at
// most, and clears its due time in the same transaction, so that the event is not repeated. It
// stops at the first error; the next call continues.
func (r *releaser) publishEnding(ctx context.Context) error {
	now, err := r.retentionNow(ctx)
	if err != nil {
		return err
	}
	rows, err := r.opt.DB.Query(ctx, selectViews+"WHERE state = 'sealed' AND due_at > 0 AND due_at <= ? ORDER BY due_at LIMIT ?", now, endingPage)
	all, err := sqldb.Scan(rows, err, scanBatch)
	if err != nil {
		return fmt.Errorf("look for batches that are about to end: %w", err)
	}
	for _, b := range all {
		err := r.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			n, err := tx.Exec(ctx, "UPDATE exports SET due_at = 0 WHERE id = ? AND state = 'sealed' AND due_at = ?", b.ID, b.Due)
			if err != nil || n == 0 { // another instance was first, or the batch was cancelled
				return err
			}
			return r.publish(ctx, tx, stream.ExportEnding, b)
		})
		if err != nil {
			return fmt.Errorf("tell that batch %s is about to end: %w", b.ID, err)
		}
	}
	return nil
}

// publishLate reports each batch that runs longer than Options.LateAfter once, with an event, a
// warning and a counter. It reports at most endingPage batches and stops at the first error; the
// next call continues.
func (r *releaser) publishLate(ctx context.Context) error {
	now, err := r.now(ctx)
	if err != nil {
		return err
	}
	rows, err := r.opt.DB.Query(ctx, selectViews+`WHERE state IN ('pending', 'running', 'aborted') AND begun_at > 0 AND begun_at <= ? AND late_at = 0
		LIMIT ?`, now.Add(-r.opt.LateAfter), endingPage)
	all, err := sqldb.Scan(rows, err, scanBatch)
	if err != nil {
		return fmt.Errorf("look for late batches: %w", err)
	}
	for _, b := range all {
		var told bool
		err := r.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			n, err := tx.Exec(ctx, "UPDATE exports SET late_at = ? WHERE id = ? AND late_at = 0 AND state IN ('pending', 'running', 'aborted')", now, b.ID)
			if told = err == nil && n == 1; !told { // another instance was first, or the batch has ended
				return err
			}
			return r.publish(ctx, tx, stream.ExportLate, b)
		})
		if err != nil {
			return fmt.Errorf("tell that batch %s is late: %w", b.ID, err)
		}
		if told {
			r.counters.Late.Add(1)
			r.opt.Log.WarnContext(ctx, "export runs for longer than --export-late", "export", b.ID, "collected", b.Collected, "failed", b.Failed, "total", b.Total)
		}
	}
	return nil
}
