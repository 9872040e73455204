package export

import (
	"context"
	"errors"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/engine/sqldb"
)

// releaser ends batches and releases their references. When the disk is full, it also evicts
// fetched documents of waiting batches.
type releaser struct {
	*core
	publisher *publisher
	sender    *sender
}

// Cancel ends a batch in any state and releases its references. It is idempotent. A sealed batch
// can no longer be downloaded; running downloads continue while their bytes exist.
func (e *Exports) Cancel(ctx context.Context, who drive.Who, id drive.ExportID) error {
	return e.releaser.cancel(ctx, who, id)
}

// cancel ends a batch of the account, so that its worker loses it, and releases its references. If
// the release fails, a worker retries it later and cancel returns nil. For a batch that has ended
// it does nothing and returns nil; an unknown id is NotFound.
func (r *releaser) cancel(ctx context.Context, who drive.Who, id drive.ExportID) error {
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
	if err := r.release(ctx, id); err != nil { // the workers release it later
		r.log.WarnContext(ctx, "the references of a cancelled batch could not be released; a worker retries", "export", id, "error", err)
	}
	return nil
}

// releaseBatch is the number of references released per transaction (about 20 ms).
const releaseBatch = 200

// releaseEnded marks sealed batches whose lifetime is over as expired, and then releases the
// references of up to 100 ended batches. If more are left, a later call continues. A failure does
// not keep it from the other batches; it returns all errors joined.
func (r *releaser) releaseEnded(ctx context.Context) error {
	now, err := r.retentionNow(ctx)
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
	for _, id := range ids { // a failure does not block the other batches
		errs = errors.Join(errs, r.release(ctx, id))
	}
	return errs
}

// release releases all references of an ended batch in short transactions (X5), and removes its
// object from the bucket. It is idempotent, can be interrupted, and can run concurrently for the
// same batch. An unreachable bucket is only logged; Purge removes the object later.
func (r *releaser) release(ctx context.Context, id drive.ExportID) error {
	now, err := r.now(ctx)
	if err != nil {
		return err
	}
	b, err := r.find(ctx, r.opt.DB, "WHERE id = ?", id)
	if err == nil {
		err = r.publisher.removeObject(ctx, b)
	}
	if err != nil && !drive.IsKind(err, drive.NotFound) { // an unreachable bucket is no reason to wait: Purge sweeps it
		r.log.WarnContext(ctx, "the bucket object of an ended batch could not be removed; the purge retries", "export", id, "error", err)
	}
	for more := true; more; {
		err := r.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			more, err = r.releaseSome(ctx, tx, id, now)
			return err
		})
		if err != nil {
			return fmt.Errorf("give back what batch %s holds: %w", id, err)
		}
		r.testHook("released")
	}
	r.sender.cache.evict(id)
	return nil
}

// releaseSome releases up to releaseBatch references of a batch within tx, with their charges, and
// marks the batch as released when none is left. more reports whether references may be left; then
// the caller calls again. It does nothing for a batch that is missing, released or not ended.
func (r *releaser) releaseSome(ctx context.Context, tx *sqldb.Tx, id drive.ExportID, now drive.Time) (more bool, err error) {
	b, err := r.find(ctx, tx, "WHERE id = ?", id) // read without lock first: the account never changes
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
	if err := r.opt.Ledger.Apply(ctx, tx, b.Account, quota.Move{Finished: -chargedBytes(pins)}); err != nil {
		return false, err
	}
	if err := r.dropPins(ctx, tx, b, pins); err != nil || len(pins) == releaseBatch {
		return err == nil, err
	}
	_, err = tx.Exec(ctx, "UPDATE exports SET released_at = ? WHERE id = ?", now, id)
	return false, err
}

// heldPin is a pin to be released.
type heldPin struct {
	n       int64
	blob    drive.BlobID // zero: a folder
	size    drive.ByteSize
	charged drive.ByteSize
}

// pinsOf returns up to releaseBatch pins of a batch by entry number. where is "" or an SQL
// condition that begins with AND.
func pinsOf(ctx context.Context, q sqldb.Querier, id drive.ExportID, where string) ([]heldPin, error) {
	rows, err := q.Query(ctx, "SELECT n, NULLIF(blob_id, ''), size, charged FROM export_pins WHERE export_id = ? "+where+" ORDER BY n LIMIT ?", id, releaseBatch)
	return sqldb.Scan(rows, err, func(h *heldPin, scan func(...any) error) error { return scan(&h.n, &h.blob, &h.size, &h.charged) })
}

// chargedBytes returns the sum of the bytes that pins are charged for; pins of files of the drive
// are charged 0.
func chargedBytes(pins []heldPin) (sum drive.ByteSize) {
	for _, p := range pins {
		sum += p.charged
	}
	return sum
}

// dropPins deletes pins of b within tx and releases their references to contents. The caller has
// updated the ledger and the counts of the batch within tx.
func (r *releaser) dropPins(ctx context.Context, tx *sqldb.Tx, b batch, pins []heldPin) error {
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
	if _, err := tx.Exec(ctx, "DELETE FROM export_pins WHERE export_id = ? AND n IN ("+sqldb.Placeholders(len(pins))+")", args...); err != nil {
		return err
	}
	return r.opt.Content.ReleaseAll(ctx, tx, b.Account, blobs...)
}

// DeleteAccount ends and deletes all batches, schedules, marks and archives of an account that is
// being purged. It works in short transactions and can be interrupted and repeated. When it returns
// nil, the account's ledger has no charge of this package.
func (e *Exports) DeleteAccount(ctx context.Context, account drive.AccountID) error {
	return e.releaser.deleteAccount(ctx, account)
}

// deleteAccount ends the schedules, jobs and batches of an account in one transaction, and then
// releases and deletes its batches one by one. It stops at the first error; it may be called again
// and continues.
func (r *releaser) deleteAccount(ctx context.Context, account drive.AccountID) error {
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
			err = r.deleteBatch(ctx, b.ID)
		}
		if err != nil {
			return fmt.Errorf("forget batch %s: %w", b.ID, err)
		}
	}
}

// Purge deletes batches whose retention period is over, lists without a batch, expired archives and
// unused turns, releases ended batches, and removes objects of ended batches from the bucket. It
// works in short transactions and can be interrupted. It returns all errors joined.
func (e *Exports) Purge(ctx context.Context) error {
	now, err := e.retentionNow(ctx)
	if err != nil {
		return err
	}
	return errors.Join(e.releaser.releaseEnded(ctx), e.deleteReleased(ctx, now.Add(-keepRows)), e.lists.deleteOrphans(ctx, now), e.archives.purge(ctx, now),
		e.queue.purgeTurns(ctx, now), e.publisher.sweep(ctx))
}

// deleteReleased deletes the batches that were released before the given time, the oldest first. It
// returns nil when none is left, or the first error.
func (c *core) deleteReleased(ctx context.Context, before drive.Time) error {
	for {
		b, err := c.find(ctx, c.opt.DB, "WHERE released_at > 0 AND released_at < ? ORDER BY released_at LIMIT 1", before)
		if drive.IsKind(err, drive.NotFound) {
			return nil
		}
		if err == nil {
			err = c.deleteBatch(ctx, b.ID)
		}
		if err != nil {
			return fmt.Errorf("purge batch %s: %w", b.ID, err)
		}
	}
}

// deleteBatch deletes the rows of a released batch, in several transactions, the batch row last.
// The caller must check that the batch is released: an unreleased one keeps its own row, but loses
// its list, failures and jobs.
func (c *core) deleteBatch(ctx context.Context, id drive.ExportID) error {
	for table, key := range map[string]string{"export_wants": "n", "export_errors": "n", "export_lists": "n", "export_jobs": "id"} {
		if err := c.deleteRows(ctx, table, key, id); err != nil {
			return err
		}
	}
	return c.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
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

// deleteRows deletes the rows of batch id from table, whose rows have the key column key, in
// several transactions.
func (c *core) deleteRows(ctx context.Context, table, key string, id drive.ExportID) error {
	return c.deleteInChunks(ctx, sqldb.Batch{Table: table, Key: key, Where: "export_id = ?", Args: []any{id}})
}

// deleteChunk is the number of rows deleted per transaction.
const deleteChunk = 500

// deleteInChunks deletes the rows that b matches, deleteChunk rows per transaction, until a
// transaction finds fewer. On an error the chunks before it stay deleted. It ignores b.Limit.
func (c *core) deleteInChunks(ctx context.Context, b sqldb.Batch) error {
	b.Limit = deleteChunk
	for n := int64(deleteChunk); n == deleteChunk; {
		err := c.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			n, err = tx.DeleteBatch(ctx, b)
			return err
		})
		if err != nil {
			return fmt.Errorf("drop rows of %s: %w", b.Table, err)
		}
	}
	return nil
}

// orphanAge is the age from which a list without a batch is an orphan. A younger list may belong
// to a batch that is being created.
const orphanAge = int64(3600_000) // ms

// deleteOrphans deletes lists, and the recorded sizes of lists, that belong to no batch because the
// insert of the batch failed or was interrupted. It spares those younger than orphanAge. It skips
// from batch id to batch id, not row by row.
func (l *listStore) deleteOrphans(ctx context.Context, now drive.Time) error {
	return errors.Join(l.deleteOrphansOf(ctx, "export_wants", now), l.deleteOrphansOf(ctx, "export_texts", now))
}

// deleteOrphansOf deletes from table the rows of lists without a batch, once they are older than
// orphanAge, and their recorded sizes. It visits each list in the table and stops at the first
// error.
func (l *listStore) deleteOrphansOf(ctx context.Context, table string, now drive.Time) error {
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
		if int64(now)-createdMilli(id) < orphanAge {
			continue
		}
		if err := errors.Join(l.deleteRows(ctx, "export_wants", "n", id), l.uncharge(ctx, id)); err != nil {
			return err
		}
	}
}

// createdMilli returns the timestamp of a UUIDv7 in Unix milliseconds (RFC 9562 §5.7).
func createdMilli(id drive.ExportID) (ms int64) {
	for _, b := range id[:6] {
		ms = ms<<8 | int64(b)
	}
	return ms
}
