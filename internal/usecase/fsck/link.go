package fsck

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/engine/sqldb"
)

// linkTotals is a collect link with its stored totals and the sums of its files.
type linkTotals struct {
	id      drive.CollectID
	account drive.AccountID
	has     totals
	sum     totals
}

// totals is a number of files and of their bytes.
type totals struct {
	files int64
	bytes drive.ByteSize
}

// String returns the totals in words, for a finding.
func (t totals) String() string { return fmt.Sprintf("%d files, %d bytes", t.files, t.bytes) }

// selectLinkTotals selects collect links with their stored and actual totals.
const selectLinkTotals = `SELECT l.id, l.account_id, l.files, l.received,
	(SELECT COUNT(*) FROM collected c WHERE c.collect_id = l.id AND c.state = 'done'),
	(SELECT COALESCE(SUM(c.size), 0) FROM collected c WHERE c.collect_id = l.id AND c.state = 'done') FROM collects l `

// scanLinkTotals reads a link with its stored and computed totals into i by calling scan, and
// returns the error of scan.
func scanLinkTotals(i *linkTotals, scan func(...any) error) error {
	return scan(&i.id, &i.account, &i.has.files, &i.has.bytes, &i.sum.files, &i.sum.bytes)
}

// checkLinks compares the totals of collect links with the sums of their files. One statement reads
// both, and each transaction keeps them equal.
func (p *pass) checkLinks(ctx context.Context) error {
	const page = 200
	err := each(ctx, p, selectLinkTotals+"WHERE l.id > ? ORDER BY l.id LIMIT ?", page, scanLinkTotals, func(i linkTotals) any { return i.id },
		func(i linkTotals) error {
			if i.has == i.sum {
				return nil
			}
			return p.found(ctx, defect{
				Finding: Finding{Invariant: "C1", Subject: "collect " + i.id.String(), Expected: i.sum.String(), Found: i.has.String()},
				fixTx: func(ctx context.Context, tx *sqldb.Tx, f *Finding) (bool, error) {
					return fixLinkTotals(ctx, tx, i, f)
				},
			})
		})
	if err != nil {
		return fmt.Errorf("check collect links: %w", err)
	}
	return nil
}

// fixLinkTotals recomputes the totals of a link in the transaction, under the lock that receiving a
// file uses, and describes the repair in f. It reports whether the defect still existed.
func fixLinkTotals(ctx context.Context, tx *sqldb.Tx, i linkTotals, f *Finding) (bool, error) {
	if err := (quota.Ledger{}).Lock(ctx, tx, i.account); err != nil {
		return false, err
	}
	err := scanLinkTotals(&i, tx.QueryRow(ctx, selectLinkTotals+"WHERE l.id = ?", i.id).Scan)
	if drive.IsKind(err, drive.NotFound) || err == nil && i.has == i.sum {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	n, err := tx.Exec(ctx, "UPDATE collects SET files = ?, received = ? WHERE id = ?", i.sum.files, i.sum.bytes, i.id)
	f.Expected, f.Found, f.Repaired = i.sum.String(), i.has.String(), n == 1
	return true, err
}
