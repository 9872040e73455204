package collect

import (
	"context"
	"fmt"

	"smartdrive/internal/drive"
	"smartdrive/internal/sqldb"
)

const batch = 500 // rows a transaction, well within its 50 ms

// ended is an upload that has ended since it was looked at last.
type ended struct {
	upload drive.UploadID
	size   drive.ByteSize
	gone   bool
	node   drive.NodeID
}

// settle moves what has ended out of the sum into the link's row, a batch at a time; what is left is in the sum as before. The caller
// holds the lock on the account's ledger, under which uploads end.
func settle(ctx context.Context, tx *sqldb.Tx, l *Link) error {
	rows, err := tx.Query(ctx, `SELECT c.upload_id, c.size, COALESCE(u.state, 'done') = 'gone', u.node_id
		FROM collected c LEFT JOIN uploads u ON u.id = c.upload_id
		WHERE c.collect_id = ? AND c.state = 'open' AND (u.state IS NULL OR u.state IN ('done', 'gone')) ORDER BY c.upload_id LIMIT ?`, l.ID, batch)
	all, err := sqldb.Scan(rows, err, func(e *ended, scan func(...any) error) error { return scan(&e.upload, &e.size, &e.gone, &e.node) })
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

func (e ended) settle(ctx context.Context, tx *sqldb.Tx) (int64, error) {
	if e.gone {
		return tx.Exec(ctx, "DELETE FROM collected WHERE upload_id = ? AND state = 'open'", e.upload)
	}
	return tx.Exec(ctx, "UPDATE collected SET state = 'done', node_id = ? WHERE upload_id = ? AND state = 'open'", e.node, e.upload)
}

// Purge settles all links, before the rows of the uploads are dropped, and drops what no longer means anything: links into folders that
// were deleted for good, and what is written down of links that are not there. It works in short transactions and may stop anywhere.
func (s *Links) Purge(ctx context.Context) error {
	if err := s.settleAll(ctx); err != nil {
		return err
	}
	for _, b := range []sqldb.Batch{
		{Table: "collects", Key: "id", Where: "NOT EXISTS (SELECT 1 FROM nodes WHERE nodes.id = collects.folder_id)"},
		{Table: "collected", Key: "upload_id", Where: "NOT EXISTS (SELECT 1 FROM collects WHERE collects.id = collected.collect_id)"},
	} {
		b.Limit = batch
		if err := s.drop(ctx, b); err != nil {
			return fmt.Errorf("purge %s: %w", b.Table, err)
		}
	}
	return nil
}

func (s *Links) drop(ctx context.Context, b sqldb.Batch) error {
	for {
		var n int64
		err := s.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			n, err = tx.DeleteBatch(ctx, b)
			return err
		})
		if err != nil || n < batch {
			return err
		}
	}
}

func (s *Links) settleAll(ctx context.Context) error {
	for after := (drive.CollectID{}); ; {
		rows, err := s.opt.DB.Query(ctx, "SELECT "+columns+" FROM collects WHERE id > ? ORDER BY id LIMIT ?", after.String(), batch)
		page, err := sqldb.Scan(rows, err, scan)
		if err != nil {
			return fmt.Errorf("list collect links: %w", err)
		}
		for _, l := range page {
			if after = l.ID; l.hasOpen(ctx, s.opt.DB) {
				err = s.settleOne(ctx, l)
			}
			if err != nil {
				return err
			}
		}
		if len(page) < batch {
			return nil
		}
	}
}

// hasOpen reports whether there may be something to settle.
func (l Link) hasOpen(ctx context.Context, q sqldb.Querier) bool {
	var yes int
	err := q.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM collected WHERE collect_id = ? AND state = 'open')", l.ID).Scan(&yes)
	return err != nil || yes == 1
}

func (s *Links) settleOne(ctx context.Context, l Link) error {
	for before := int64(-1); before != l.Files; {
		before = l.Files
		err := s.write(ctx, l.Account, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			if l, err = s.find(ctx, tx, "id = ?", l.ID); drive.IsKind(err, drive.NotFound) { // deleted meanwhile
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

// Forget drops the links of an account that is being purged, and what is written down of them.
func (s *Links) Forget(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	for _, table := range []string{"collects", "collected"} {
		if _, err := tx.Exec(ctx, "DELETE FROM "+table+" WHERE account_id = ?", account); err != nil {
			return fmt.Errorf("forget the %s of account %s: %w", table, account, err)
		}
	}
	return nil
}
