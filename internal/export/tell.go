package export

import (
	"context"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/stream"
)

// What people want to be told of a batch is a record of the stream, written by the transaction that
// makes it true: sealed, failed for good, about to end, late. Of each there is one at most.

// endingSoon is how long before its end a sealed batch is told to be about to end. One that lives
// no longer than that is not: who is told that it is ready is told until when.
const endingSoon = 24 * time.Hour

// told is the data of the records about a batch.
type told struct {
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

// tell writes a record about a batch, whose row is as b says.
func (g *ground) tell(ctx context.Context, tx *sqldb.Tx, typ stream.Type, b batch) error {
	if g.opt.Events == nil {
		return nil
	}
	record, err := stream.New(stream.TopicExports, typ, b.Account, b.ID.String(), told{
		Export: b.ID, Root: b.Root, Revision: b.Revision, Set: b.Set, Part: b.Part, Parts: b.Parts, Name: b.Name, Origin: b.Origin,
		Total: b.Total, Collected: b.Collected, Failed: b.Failed, Size: b.Size, ETag: b.ETag, ExpiresAt: maybe(b.Expires), Error: b.Error,
	})
	if err != nil {
		return err
	}
	return g.opt.Events.Append(ctx, tx, record)
}

// endingAt is when a sealed batch is told to be about to end, which its due_at says until then; 0:
// it is not told.
func (g *ground) endingAt(expires drive.Time) drive.Time {
	if g.opt.Life <= endingSoon {
		return 0
	}
	return expires.Add(-endingSoon)
}

// endingPage is how many batches are told of between two looks for other work.
const endingPage = 100

// tellEnding tells of batches that are about to end.
func (r *releases) tellEnding(ctx context.Context) error {
	now, err := r.kept(ctx)
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
			if err != nil || n == 0 { // another one did, or it was cancelled
				return err
			}
			return r.tell(ctx, tx, stream.ExportEnding, b)
		})
		if err != nil {
			return fmt.Errorf("tell that batch %s is about to end: %w", b.ID, err)
		}
	}
	return nil
}

// tellLate tells of batches that have run for longer than Options.Late and have not ended: once
// each, with a record of the stream, a line in the log and a counter.
func (r *releases) tellLate(ctx context.Context) error {
	now, err := r.now(ctx)
	if err != nil {
		return err
	}
	rows, err := r.opt.DB.Query(ctx, selectViews+`WHERE state IN ('pending', 'running', 'aborted') AND begun_at > 0 AND begun_at <= ? AND late_at = 0
		LIMIT ?`, now.Add(-r.opt.Late), endingPage)
	all, err := sqldb.Scan(rows, err, scanBatch)
	if err != nil {
		return fmt.Errorf("look for late batches: %w", err)
	}
	for _, b := range all {
		var told bool
		err := r.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			n, err := tx.Exec(ctx, "UPDATE exports SET late_at = ? WHERE id = ? AND late_at = 0 AND state IN ('pending', 'running', 'aborted')", now, b.ID)
			if told = err == nil && n == 1; !told { // another instance told it, or it has ended
				return err
			}
			return r.tell(ctx, tx, stream.ExportLate, b)
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
