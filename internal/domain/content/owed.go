package content

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// The account that released a file owes its bytes until the file is deleted from the store.
// owed_files has one row per file, and owed their sum per account, which counts towards the quota
// (Q6). Files that no account released, such as a healed file, are owed by none.

// addDebt records that the account owes a file that was just released. The zero account owes
// nothing.
func (c Content) addDebt(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, file string, size drive.ByteSize) error {
	if account.IsZero() || size == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `INSERT INTO owed_files (file, account_id, size) VALUES (?, ?, ?)`, file, account, size)
	if err != nil {
		return fmt.Errorf("owe file %s: %w", file, err)
	}
	return c.addToDebtSum(ctx, tx, account, size)
}

// addToDebtSum adds size to the account's row of owed, the bytes that the account has deleted and
// that are still on disk, and inserts the row if it is missing. It returns an error to retry if a
// concurrent transaction inserted the row first.
func (c Content) addToDebtSum(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, size drive.ByteSize) error {
	n, err := tx.Exec(ctx, `UPDATE owed SET size = size + ? WHERE account_id = ?`, size, account)
	if err == nil && n == 0 {
		_, err = tx.Exec(ctx, `INSERT INTO owed (account_id, size) VALUES (?, ?)`, account, size)
		err = retryIfChanged(err)
	}
	if err != nil {
		return fmt.Errorf("add to what account %s owes: %w", account, err)
	}
	return nil
}

// clearDebts removes files that are deleted from the debts of their accounts, in the order of
// accounts. The caller must have locked their released rows.
func (c Content) clearDebts(ctx context.Context, tx *sqldb.Tx, files []string) error {
	names, in := args(files), whereFile(len(files))
	type debt struct {
		account drive.AccountID
		size    drive.ByteSize
	}
	rows, err := tx.Query(ctx, `SELECT account_id, SUM(size) FROM owed_files`+in+` GROUP BY account_id ORDER BY account_id`, names...)
	debts, err := sqldb.Scan(rows, err, func(d *debt, scan func(dest ...any) error) error { return scan(&d.account, &d.size) })
	if err != nil {
		return fmt.Errorf("read what is owed for %d files: %w", len(files), err)
	}
	if len(debts) == 0 {
		return nil
	}
	for _, d := range debts {
		_, err := tx.Exec(ctx, `UPDATE owed SET size = CASE WHEN size > ? THEN size - ? ELSE 0 END WHERE account_id = ?`, d.size, d.size, d.account)
		if err == nil {
			_, err = tx.Exec(ctx, `DELETE FROM owed WHERE account_id = ? AND size = 0`, d.account)
		}
		if err != nil {
			return fmt.Errorf("settle what account %s owes: %w", d.account, err)
		}
	}
	if _, err := tx.Exec(ctx, `DELETE FROM owed_files`+in, names...); err != nil {
		return fmt.Errorf("settle %d files: %w", len(files), err)
	}
	return nil
}
