package fsck

import (
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/engine/sqldb"
)

// intake is what a collect link says has come by it, and what is written down.
type intake struct {
	id      drive.CollectID
	account drive.AccountID
	has     totals
	sum     totals
}

type totals struct {
	files int64
	bytes drive.ByteSize
}

func (t totals) String() string { return fmt.Sprintf("%d files, %d bytes", t.files, t.bytes) }

const selectIntakes = `SELECT l.id, l.account_id, l.files, l.received,
	(SELECT COUNT(*) FROM collected c WHERE c.collect_id = l.id AND c.state = 'done'),
	(SELECT COALESCE(SUM(c.size), 0) FROM collected c WHERE c.collect_id = l.id AND c.state = 'done') FROM collects l `

func scanIntake(i *intake, scan func(...any) error) error {
	return scan(&i.id, &i.account, &i.has.files, &i.has.bytes, &i.sum.files, &i.sum.bytes)
}

// checkLinks compares what collect links have received with the files of which it is the sum. A
// statement is one moment of the database, and every transaction keeps them equal.
func (p *pass) checkLinks(ctx context.Context) error {
	const page = 200
	err := each(ctx, p, selectIntakes+"WHERE l.id > ? ORDER BY l.id LIMIT ?", page, scanIntake, func(i intake) any { return i.id },
		func(i intake) error {
			if i.has == i.sum {
				return nil
			}
			return p.found(ctx, defect{
				Finding: Finding{Invariant: "C1", Subject: "collect " + i.id.String(), Expected: i.sum.String(), Found: i.has.String()},
				fixTx: func(ctx context.Context, tx *sqldb.Tx, f *Finding) (bool, error) {
					return fixIntake(ctx, tx, i, f)
				},
			})
		})
	if err != nil {
		return fmt.Errorf("check collect links: %w", err)
	}
	return nil
}

// fixIntake adds up again within the transaction, under the lock that settling takes.
func fixIntake(ctx context.Context, tx *sqldb.Tx, i intake, f *Finding) (bool, error) {
	if err := (quota.Ledger{}).Lock(ctx, tx, i.account); err != nil {
		return false, err
	}
	err := scanIntake(&i, tx.QueryRow(ctx, selectIntakes+"WHERE l.id = ?", i.id).Scan)
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
