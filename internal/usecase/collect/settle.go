package collect

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

const batchSize = 500 // rows per transaction, to stay below 50 ms

// endedUpload is an upload that has ended since the last settle: done, with its node, or gone.
type endedUpload struct {
	upload drive.UploadID
	size   drive.ByteSize
	gone   bool
	node   drive.NodeID
}

// settle moves up to batchSize ended uploads from the computed sum into the link's row, and updates
// Files and Received of l; the rest stays in the sum. The caller holds the lock on the account's
// ledger, under which uploads end.
func settle(ctx context.Context, tx *sqldb.Tx, l *Link) error {
	rows, err := tx.Query(ctx, `SELECT c.upload_id, c.size, COALESCE(u.state, 'done') = 'gone', u.node_id
		FROM collected c LEFT JOIN uploads u ON u.id = c.upload_id
		WHERE c.collect_id = ? AND c.state = 'open' AND (u.state IS NULL OR u.state IN ('done', 'gone')) ORDER BY c.upload_id LIMIT ?`, l.ID, batchSize)
	all, err := sqldb.Scan(rows, err, func(e *endedUpload, scan func(...any) error) error { return scan(&e.upload, &e.size, &e.gone, &e.node) })
	if err != nil {
		return fmt.Errorf("settle collect link %s: %w", l.ID, err)
	}
	files, received := int64(0), drive.ByteSize(0)
	for _, e := range all {
		n, err := e.settle(ctx, tx)
		if err != nil {
			return fmt.Errorf("settle upload %s: %w", e.upload, err)
		}
		if n == 1 && !e.gone {
			files, received = files+1, received+e.size
		}
	}
	if files == 0 {
		return nil
	}
	l.Files, l.Received = l.Files+files, l.Received+received
	if _, err := tx.Exec(ctx, "UPDATE collects SET files = files + ?, received = received + ? WHERE id = ?", files, received, l.ID); err != nil {
		return fmt.Errorf("settle collect link %s: %w", l.ID, err)
	}
	return nil
}

// settle deletes the record of a gone upload or marks that of a done one, and returns the number of
// changed rows: 0 if the record was settled before.
func (e endedUpload) settle(ctx context.Context, tx *sqldb.Tx) (int64, error) {
	if e.gone {
		return tx.Exec(ctx, "DELETE FROM collected WHERE upload_id = ? AND state = 'open'", e.upload)
	}
	return tx.Exec(ctx, "UPDATE collected SET state = 'done', node_id = ? WHERE upload_id = ? AND state = 'open'", e.node, e.upload)
}

// Purge settles links with open files before the rows of their uploads are deleted. It also deletes
// links into deleted folders, and records of deleted links, a limited number per call
// (sqldb.Orphans). It works in short transactions and may be interrupted.
func (s *Links) Purge(ctx context.Context) error {
	if err := s.settleAll(ctx); err != nil {
		return err
	}
	if err := s.Links.Purge(ctx); err != nil {
		return err
	}
	_, err := s.files.Delete(ctx, s.opt.DB)
	return err
}

// settleAll settles the links that have open files, page by page and link by link. It stops at the
// first error.
func (s *Links) settleAll(ctx context.Context) error {
	for after := (drive.CollectID{}); ; {
		rows, err := s.opt.DB.Query(ctx, "SELECT DISTINCT collect_id FROM collected WHERE state = 'open' AND collect_id > ? ORDER BY collect_id LIMIT ?",
			after.String(), batchSize)
		page, err := sqldb.Scan(rows, err, func(id *drive.CollectID, scan func(...any) error) error { return scan(id) })
		if err != nil {
			return fmt.Errorf("list collect links with open files: %w", err)
		}
		for _, id := range page {
			after = id
			if err := s.settleLink(ctx, id); err != nil {
				return err
			}
		}
		if len(page) < batchSize {
			return nil
		}
	}
}

// settleLink settles the link with that id. A deleted link, whose records wait for Purge, is no
// error.
func (s *Links) settleLink(ctx context.Context, id drive.CollectID) error {
	l, err := s.Read(ctx, s.opt.DB, "l.id = ?", id)
	if drive.IsKind(err, drive.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.settleOne(ctx, l)
}

// settleOne moves the finished uploads of a link from their rows into the link's totals, a batch
// per transaction, until a batch changes nothing. A deleted link is no error.
func (s *Links) settleOne(ctx context.Context, l Link) error {
	for before := int64(-1); before != l.Files; {
		before = l.Files
		err := s.Write(ctx, l.Account, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			if l, err = s.Read(ctx, tx, "l.id = ?", l.ID); drive.IsKind(err, drive.NotFound) { // deleted meanwhile
				return nil
			}
			if err != nil {
				return err
			}
			return settle(ctx, tx, &l)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// DeleteAccount deletes the links of an account that is being purged, and their records.
func (s *Links) DeleteAccount(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	if _, err := tx.Exec(ctx, "DELETE FROM collected WHERE account_id = ?", account); err != nil {
		return fmt.Errorf("forget what came by links of account %s: %w", account, err)
	}
	return s.Links.DeleteAccount(ctx, tx, account)
}
