package fsck

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/engine/sqldb"
)

// owedSum is the sum of an account's files that wait for deletion. Files that are no longer
// released are not counted.
const owedSum = `SELECT COALESCE(SUM(f.size), 0) FROM owed_files f JOIN released r ON r.file = f.file WHERE f.account_id = l.account_id`

// selectOwed selects the stored and the actual debt per account.
const selectOwed = `SELECT l.account_id, COALESCE(o.size, 0), (` + owedSum + `) FROM ledgers l LEFT JOIN owed o ON o.account_id = l.account_id `

// checkOwed compares the stored debt of each account with its released files (Q6).
func (p *pass) checkOwed(ctx context.Context) error {
	return p.checkSums(ctx, selectOwed+`WHERE l.account_id > ? ORDER BY l.account_id LIMIT ?`, owedFinding, fixOwed)
}

// checkSums compares the stored value of each account that query returns with the computed sum. For
// a difference it records wrong's finding; fix is its repair, which runs in a transaction and
// reports whether it changed anything.
func (p *pass) checkSums(ctx context.Context, query string, wrong func(balance) Finding,
	fix func(context.Context, *sqldb.Tx, drive.AccountID, *Finding) (bool, error),
) error {
	const page = 50 // each row adds up a whole account
	return each(ctx, p, query, page, scanBalance, func(row balance) any { return row.account }, func(row balance) error {
		if row.stored == row.actual {
			return nil
		}
		return p.found(ctx, defect{Finding: wrong(row), fixTx: func(ctx context.Context, tx *sqldb.Tx, f *Finding) (bool, error) {
			return fix(ctx, tx, row.account, f)
		}})
	})
}

// owedFinding returns the finding of a wrong debt.
func owedFinding(row balance) Finding {
	return Finding{
		Invariant: "Q6", Subject: "account " + row.account.String(), Expected: fmt.Sprintf("owed %d", row.actual), Found: fmt.Sprintf("owed %d", row.stored),
	}
}

// fixOwed recomputes the debt of an account within tx under the locks of ledger and debt, and
// updates f. It returns false, and changes nothing, if the debt is right by now or the account is
// gone.
func fixOwed(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, f *Finding) (bool, error) {
	if err := (quota.Ledger{}).Lock(ctx, tx, account); err != nil {
		return false, err
	}
	// The deletion of released files locks this row instead of the ledger before it reduces the
	// debt.
	var size drive.ByteSize
	err := tx.QueryRow(ctx, `SELECT size FROM owed WHERE account_id = ?`+tx.ForUpdate(), account).Scan(&size)
	if err != nil && !drive.IsKind(err, drive.NotFound) {
		return false, err
	}
	var row balance
	err = scanBalance(&row, tx.QueryRow(ctx, selectOwed+`WHERE l.account_id = ?`, account).Scan)
	if drive.IsKind(err, drive.NotFound) || err == nil && row.stored == row.actual {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	again := owedFinding(row)
	f.Expected, f.Found, f.Repaired = again.Expected, again.Found, true
	for _, fix := range []struct {
		query string
		args  []any
	}{
		{`DELETE FROM owed_files WHERE account_id = ? AND NOT EXISTS (SELECT 1 FROM released r WHERE r.file = owed_files.file)`, []any{account}},
		{`DELETE FROM owed WHERE account_id = ?`, []any{account}},
		{`INSERT INTO owed (account_id, size) VALUES (?, ?)`, []any{account, row.actual}},
	} {
		if _, err := tx.Exec(ctx, fix.query, fix.args...); err != nil {
			return false, fmt.Errorf("add up what account %s owes: %w", account, err)
		}
	}
	return true, nil
}
