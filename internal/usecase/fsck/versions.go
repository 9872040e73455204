package fsck

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/engine/sqldb"
)

// selectOldVersions selects the stored and actual number of old versions per account.
const selectOldVersions = `SELECT t.account_id, COALESCE(o.n, 0), (SELECT COUNT(*) FROM versions v JOIN nodes n ON n.id = v.node_id
		JOIN versions c ON c.id = n.version_id AND c.node_id = n.id WHERE v.account_id = t.account_id AND v.id <> c.id)
	FROM trees t LEFT JOIN old_versions o ON o.account_id = t.account_id `

// checkOldVersions compares the stored count of old versions of each account with its rows (N3).
// Files without version and versions without file are left to other checks.
func (p *pass) checkOldVersions(ctx context.Context) error {
	return p.checkSums(ctx, selectOldVersions+`WHERE t.account_id > ? ORDER BY t.account_id LIMIT ?`, oldVersionsFinding, fixOldVersions)
}

// oldVersionsFinding returns the finding of a wrong count.
func oldVersionsFinding(row balance) Finding {
	return Finding{
		Invariant: "N3", Subject: "tree of account " + row.account.String(), Expected: fmt.Sprintf("%d old versions", row.actual),
		Found: fmt.Sprintf("%d old versions", row.stored),
	}
}

// fixOldVersions counts the old versions of an account again within tx under the lock of the
// ledger, stores the count and updates f. It returns false, and changes nothing, if the count is
// right by now or the tree is gone.
func fixOldVersions(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, f *Finding) (bool, error) {
	if err := (quota.Ledger{}).Lock(ctx, tx, account); err != nil {
		return false, err
	}
	var row balance
	err := scanBalance(&row, tx.QueryRow(ctx, selectOldVersions+`WHERE t.account_id = ?`, account).Scan)
	if drive.IsKind(err, drive.NotFound) || err == nil && row.stored == row.actual {
		return false, nil
	}
	if err == nil {
		_, err = tx.Exec(ctx, `DELETE FROM old_versions WHERE account_id = ?`, account)
	}
	if err == nil {
		_, err = tx.Exec(ctx, `INSERT INTO old_versions (account_id, n) VALUES (?, ?)`, account, row.actual)
	}
	again := oldVersionsFinding(row)
	f.Expected, f.Found, f.Repaired = again.Expected, again.Found, err == nil
	return true, err
}
