package export

import (
	"context"
	"errors"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/engine/sqldb"
)

// releases give back what batches hold that have ended, or that wait while the disk is full.
type releases struct {
	*ground
	publisher *publisher
	sender    *sender
}

// Cancel ends a batch, whatever it is doing, and gives back what it holds. A sealed one can no
// longer be downloaded; downloads that run go on while the bytes are there. Again is not an error.
func (e *Exports) Cancel(ctx context.Context, who drive.Who, id drive.ExportID) error {
	return e.releases.cancel(ctx, who, id)
}

func (r *releases) cancel(ctx context.Context, who drive.Who, id drive.ExportID) error {
	now, err := r.now(ctx)
	if err != nil {
		return err
	}
	err = r.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := tx.Exec(ctx, `UPDATE exports SET state = 'cancelled', epoch = epoch + 1, ended_at = ?, due_at = 0
			WHERE id = ? AND account_id = ? AND state IN ('pending', 'running', 'aborted', 'sealed')`, now, id, who.Account)
		if err != nil || n == 1 {
			return err
		}
		_, err = r.find(ctx, tx, "WHERE id = ? AND account_id = ?", id, who.Account)
		return err
	})
	if err != nil {
		return fmt.Errorf("cancel batch %s: %w", id, err)
	}
	if err := r.release(ctx, id); err != nil { // whoever looks after what has ended does it again
		r.log.WarnContext(ctx, "what a cancelled batch holds is given back later", "export", id, "error", err)
	}
	return nil
}

// releaseBatch is how many references one transaction gives back: some 20 ms.
const releaseBatch = 200

// ended lets batches expire whose time has come, and gives back what those hold that have
// ended.
func (r *releases) ended(ctx context.Context) error {
	now, err := r.kept(ctx)
	if err != nil {
		return err
	}
	var over int64
	err = r.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		over, err = tx.Exec(ctx, `UPDATE exports SET state = 'expired', epoch = epoch + 1 WHERE state = 'sealed' AND released_at = 0 AND expires_at <= ?`, now)
		return err
	})
	if err != nil {
		return fmt.Errorf("let batches expire: %w", err)
	}
	rows, err := r.opt.DB.Query(ctx, `SELECT id FROM exports WHERE released_at = 0 AND state IN ('failed', 'cancelled', 'expired') ORDER BY ended_at, id LIMIT 100`)
	ids, err := sqldb.Scan(rows, err, func(id *drive.ExportID, scan func(...any) error) error { return scan(id) })
	if err != nil {
		return fmt.Errorf("look for batches that have ended: %w", err)
	}
	if over > 0 {
		r.log.InfoContext(ctx, "batches have expired", "count", over)
	}
	var errs error
	for _, id := range ids { // one that cannot be released keeps no other
		errs = errors.Join(errs, r.release(ctx, id))
	}
	return errs
}

// release gives back what a batch holds that has ended (X5). It works in short transactions and may
// stop anywhere, run twice, and run beside itself.
func (r *releases) release(ctx context.Context, id drive.ExportID) error {
	now, err := r.now(ctx)
	if err != nil {
		return err
	}
	b, err := r.find(ctx, r.opt.DB, "WHERE id = ?", id)
	if err == nil {
		err = r.publisher.withdraw(ctx, b)
	}
	if err != nil && !drive.IsKind(err, drive.NotFound) { // the bucket may be away for long; Purge looks through it
		r.log.WarnContext(ctx, "what lies in the bucket is removed later", "export", id, "error", err)
	}
	for more := true; more; {
		err := r.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			more, err = r.releaseSome(ctx, tx, id, now)
			return err
		})
		if err != nil {
			return fmt.Errorf("give back what batch %s holds: %w", id, err)
		}
		r.halt("released")
	}
	r.sender.cache.drop(id)
	return nil
}

func (r *releases) releaseSome(ctx context.Context, tx *sqldb.Tx, id drive.ExportID, now drive.Time) (more bool, err error) {
	b, err := r.find(ctx, tx, "WHERE id = ?", id) // whose it is does not change
	if drive.IsKind(err, drive.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := r.opt.Ledger.Lock(ctx, tx, b.Account); err != nil {
		return false, err
	}
	if b, err = r.find(ctx, tx, "WHERE id = ?"+tx.ForUpdate(), id); err != nil {
		return false, err
	}
	if b.Released != 0 || b.State != Failed && b.State != Cancelled && b.State != Expired {
		return false, nil
	}
	pins, err := pinsOf(ctx, tx, id, "")
	if err != nil {
		return false, err
	}
	if err := r.opt.Ledger.Apply(ctx, tx, b.Account, quota.Move{Finished: -charges(pins)}); err != nil {
		return false, err
	}
	if err := r.dropPins(ctx, tx, b, pins); err != nil || len(pins) == releaseBatch {
		return err == nil, err
	}
	_, err = tx.Exec(ctx, "UPDATE exports SET released_at = ? WHERE id = ?", now, id)
	return false, err
}

// held is a reference of a batch.
type held struct {
	n       int64
	blob    drive.BlobID // zero: of a folder
	size    drive.ByteSize
	charged drive.ByteSize
}

// pinsOf reads up to releaseBatch references of a batch.
func pinsOf(ctx context.Context, q sqldb.Querier, id drive.ExportID, where string) ([]held, error) {
	rows, err := q.Query(ctx, "SELECT n, NULLIF(blob_id, ''), size, charged FROM export_pins WHERE export_id = ? "+where+" ORDER BY n LIMIT ?", id, releaseBatch)
	return sqldb.Scan(rows, err, func(h *held, scan func(...any) error) error { return scan(&h.n, &h.blob, &h.size, &h.charged) })
}

func charges(pins []held) (sum drive.ByteSize) {
	for _, p := range pins {
		sum += p.charged
	}
	return sum
}

// dropPins deletes references and gives them back. The ledger's share was moved before.
func (r *releases) dropPins(ctx context.Context, tx *sqldb.Tx, b batch, pins []held) error {
	if len(pins) == 0 {
		return nil
	}
	args := []any{b.ID}
	var blobs []drive.BlobID
	for _, p := range pins {
		if args = append(args, p.n); !p.blob.IsZero() {
			blobs = append(blobs, p.blob)
		}
	}
	if _, err := tx.Exec(ctx, "DELETE FROM export_pins WHERE export_id = ? AND n IN ("+sqldb.Marks(len(pins))+")", args...); err != nil {
		return err
	}
	return r.opt.Content.ReleaseAll(ctx, tx, b.Account, blobs...)
}

// Forget ends and drops everything of an account that is being purged. It works in short
// transactions and may stop anywhere; the account's ledger holds nothing of it any more when it
// returns.
func (e *Exports) Forget(ctx context.Context, account drive.AccountID) error {
	return e.releases.forget(ctx, account)
}

func (r *releases) forget(ctx context.Context, account drive.AccountID) error {
	if err := r.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		for _, end := range []string{
			"DELETE FROM export_schedules WHERE account_id = ?",
			"DELETE FROM export_turns WHERE account_id = ?",
			"DELETE FROM export_marks WHERE account_id = ?",
			"DELETE FROM archives WHERE account_id = ?",
			"UPDATE export_jobs SET state = 'failed', epoch = epoch + 1 WHERE account_id = ? AND state IN ('pending', 'running')",
			`UPDATE exports SET state = 'cancelled', epoch = epoch + 1 WHERE account_id = ? AND state IN ('pending', 'running', 'aborted', 'sealed')`,
		} {
			if _, err := tx.Exec(ctx, end, account); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return fmt.Errorf("end the batches of account %s: %w", account, err)
	}
	for {
		b, err := r.find(ctx, r.opt.DB, "WHERE account_id = ? ORDER BY id LIMIT 1", account)
		if drive.IsKind(err, drive.NotFound) {
			return nil
		}
		if err == nil {
			err = r.release(ctx, b.ID)
		}
		if err == nil {
			err = r.drop(ctx, b.ID)
		}
		if err != nil {
			return fmt.Errorf("forget batch %s: %w", b.ID, err)
		}
	}
}

// Purge drops the rows of batches that ended long ago, lists that belong to none, and archives that
// are over. It works in short transactions and may stop anywhere.
func (e *Exports) Purge(ctx context.Context) error {
	now, err := e.kept(ctx)
	if err != nil {
		return err
	}
	return errors.Join(e.releases.ended(ctx), e.dropReleased(ctx, now.Add(-keepRows)), e.lists.dropLoose(ctx, now), e.selections.purge(ctx, now),
		e.queue.purgeTurns(ctx, now), e.publisher.sweep(ctx))
}

// dropReleased drops batches that hold nothing since before a time.
func (g *ground) dropReleased(ctx context.Context, before drive.Time) error {
	for {
		b, err := g.find(ctx, g.opt.DB, "WHERE released_at > 0 AND released_at < ? ORDER BY released_at LIMIT 1", before)
		if drive.IsKind(err, drive.NotFound) {
			return nil
		}
		if err == nil {
			err = g.drop(ctx, b.ID)
		}
		if err != nil {
			return fmt.Errorf("purge batch %s: %w", b.ID, err)
		}
	}
}

// drop deletes the rows of a batch that holds nothing any more, its own last.
func (g *ground) drop(ctx context.Context, id drive.ExportID) error {
	for table, key := range map[string]string{"export_wants": "n", "export_errors": "n", "export_lists": "n", "export_jobs": "id"} {
		if err := g.dropRows(ctx, table, key, id); err != nil {
			return err
		}
	}
	return g.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := tx.Exec(ctx, "DELETE FROM exports WHERE id = ? AND released_at > 0", id)
		if err == nil && n == 1 {
			_, err = tx.Exec(ctx, "DELETE FROM export_texts WHERE export_id = ?", id)
		}
		if err == nil && n == 1 {
			_, err = tx.Exec(ctx, "DELETE FROM export_parts WHERE export_id = ?", id)
		}
		return err
	})
}

// dropRows deletes the rows of a table that belong to a batch.
func (g *ground) dropRows(ctx context.Context, table, key string, id drive.ExportID) error {
	return g.dropOld(ctx, sqldb.Batch{Table: table, Key: key, Where: "export_id = ?", Args: []any{id}})
}

const dropBatch = 500

// dropOld deletes rows in short transactions until there is none any more.
func (g *ground) dropOld(ctx context.Context, b sqldb.Batch) error {
	b.Limit = dropBatch
	for n := int64(dropBatch); n == dropBatch; {
		err := g.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			n, err = tx.DeleteBatch(ctx, b)
			return err
		})
		if err != nil {
			return fmt.Errorf("drop rows of %s: %w", b.Table, err)
		}
	}
	return nil
}

// looseAfter is how long a list may lie without its batch: that of one that is being made just now
// does.
const looseAfter = int64(3600_000) // ms

// dropLoose drops lists whose batch was never made. It goes from id to id, not from row to row.
func (l *lists) dropLoose(ctx context.Context, now drive.Time) error {
	return errors.Join(l.dropLooseOf(ctx, "export_wants", now), l.dropLooseOf(ctx, "export_texts", now))
}

func (l *lists) dropLooseOf(ctx context.Context, table string, now drive.Time) error {
	var after drive.ExportID
	for {
		var id drive.ExportID
		err := l.opt.DB.QueryRow(ctx, "SELECT MIN(export_id) FROM "+table+" WHERE export_id > ?", after.String()).Scan(&id)
		if err != nil {
			return fmt.Errorf("look for loose lists: %w", err)
		}
		if id.IsZero() {
			return nil
		}
		after = id
		if _, err := l.find(ctx, l.opt.DB, "WHERE id = ?", id); !drive.IsKind(err, drive.NotFound) {
			if err != nil {
				return err
			}
			continue
		}
		if int64(now)-madeAt(id) < looseAfter {
			continue
		}
		if err := errors.Join(l.dropRows(ctx, "export_wants", "n", id), l.uncharge(ctx, id)); err != nil {
			return err
		}
	}
}

// madeAt is the time in a UUIDv7, in Unix milliseconds (RFC 9562 §5.7).
func madeAt(id drive.ExportID) (ms int64) {
	for _, b := range id[:6] {
		ms = ms<<8 | int64(b)
	}
	return ms
}
