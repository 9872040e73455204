package fsck

import (
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/engine/sqldb"
)

// owes sums the files of one account that wait to be deleted; what is not released any more is owed
// by nobody.
const owes = `SELECT COALESCE(SUM(f.size), 0) FROM owed_files f JOIN released r ON r.file = f.file WHERE f.account_id = l.account_id`

const selectOwed = `SELECT l.account_id, COALESCE(o.size, 0), (` + owes + `) FROM ledgers l LEFT JOIN owed o ON o.account_id = l.account_id `

// checkOwed compares what each account owes with the files that it has let go and that are there
// still (Q6).
func (p *pass) checkOwed(ctx context.Context) error {
	return p.checkSums(ctx, selectOwed+`WHERE l.account_id > ? ORDER BY l.account_id LIMIT ?`, wrongDebt, fixOwed)
}

// checkSums compares, for each account, what is counted with what there is.
func (p *pass) checkSums(ctx context.Context, query string, wrong func(balance) Finding,
	fix func(context.Context, *sqldb.Tx, drive.AccountID, *Finding) (bool, error),
) error {
	const page = 50 // each row of it adds up a whole account
	return each(ctx, p, query, page, scanBalance, func(row balance) any { return row.account }, func(row balance) error {
		if row.has == row.sum {
			return nil
		}
		return p.found(ctx, defect{Finding: wrong(row), fixTx: func(ctx context.Context, tx *sqldb.Tx, f *Finding) (bool, error) {
			return fix(ctx, tx, row.account, f)
		}})
	})
}

func wrongDebt(row balance) Finding {
	return Finding{
		Invariant: "Q6", Subject: "account " + row.account.String(), Expected: fmt.Sprintf("owed %d", row.sum), Found: fmt.Sprintf("owed %d", row.has),
	}
}

// fixOwed adds up again, within the transaction.
func fixOwed(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, f *Finding) (bool, error) {
	if err := (quota.Ledger{}).Lock(ctx, tx, account); err != nil {
		return false, err
	}
	// Who deletes released files has not locked the ledger, but this row before it takes anything
	// from it.
	var size drive.ByteSize
	err := tx.QueryRow(ctx, `SELECT size FROM owed WHERE account_id = ?`+tx.ForUpdate(), account).Scan(&size)
	if err != nil && !drive.IsKind(err, drive.NotFound) {
		return false, err
	}
	var row balance
	err = scanBalance(&row, tx.QueryRow(ctx, selectOwed+`WHERE l.account_id = ?`, account).Scan)
	if drive.IsKind(err, drive.NotFound) || err == nil && row.has == row.sum {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	again := wrongDebt(row)
	f.Expected, f.Found, f.Repaired = again.Expected, again.Found, true
	for _, fix := range []struct {
		query string
		args  []any
	}{
		{`DELETE FROM owed_files WHERE account_id = ? AND NOT EXISTS (SELECT 1 FROM released r WHERE r.file = owed_files.file)`, []any{account}},
		{`DELETE FROM owed WHERE account_id = ?`, []any{account}},
		{`INSERT INTO owed (account_id, size) VALUES (?, ?)`, []any{account, row.sum}},
	} {
		if _, err := tx.Exec(ctx, fix.query, fix.args...); err != nil {
			return false, fmt.Errorf("add up what account %s owes: %w", account, err)
		}
	}
	return true, nil
}
