// Package quota implements the ledger: how many bytes each account may use and how many it uses.
//
// The ledger row is the only usage counter; nothing caches it. It has three sums, defined by the
// invariants of docs/invariants.md:
//
//	finished    Q1  sizes of the account's versions, trash included
//	reserved    Q2  declared bytes (or the grant) of uploads in active and sealing
//	unfinished  Q3  held bytes of uploads in parked and reclaiming
//
// Q4: no commit that increases finished + unfinished + reserved leaves the sum above total. A Move
// that does not increase the sum always succeeds, even if an administrator has set total below the
// usage.
//
// Q6: no commit that increases the sum leaves it, together with the deleted bytes still on disk
// (owed), above twice the total. So emptying the trash frees space at once, but a client that
// stores and deletes repeatedly must wait until the disk space is freed.
package quota

import (
	"context"
	"fmt"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Ledger reads and changes ledger rows. The zero value is ready to use.
type Ledger struct{}

// Balance is a ledger row.
type Balance struct {
	Total      *drive.ByteSize // nil: unlimited
	Finished   drive.ByteSize  // bytes of files, versions and the trash
	Unfinished drive.ByteSize  // received bytes of parked and reclaiming uploads (Q3)
	Reserved   drive.ByteSize  // declared bytes of uploads in active and sealing (Q2)
	Owed       drive.ByteSize  // bytes deleted by the account and still on disk (Q6)
	Version    int64           // increases with each change
}

// Used returns the sum that Q4 bounds.
func (b Balance) Used() drive.ByteSize { return b.Finished + b.Unfinished + b.Reserved }

// Available returns the bytes that may still be added, never negative; drive.MaxFileSize if
// unlimited.
func (b Balance) Available() drive.ByteSize {
	if b.Total == nil {
		return drive.MaxFileSize
	}
	left := *b.Total - b.Used()
	return max(0, min(left, left+*b.Total-b.Owed))
}

// Refused returns the Quota error for growth that does not fit: {needed, available}, and owed if it
// would fit once deleted bytes have left the disk.
func (b Balance) Refused(growth drive.ByteSize) error {
	if b.Total != nil && b.Used()+growth <= *b.Total {
		return drive.Fail(drive.Quota, "needed", growth, "available", b.Available(), "owed", b.Owed)
	}
	return drive.Fail(drive.Quota, "needed", growth, "available", b.Available())
}

// Move is a change of the three sums in bytes; negative values decrease them.
type Move struct{ Finished, Unfinished, Reserved drive.ByteSize }

// growth returns the change of the total sum.
func (m Move) growth() drive.ByteSize { return m.Finished + m.Unfinished + m.Reserved }

// Create creates the ledger row of an account; nil total means unlimited. It is idempotent, but
// fails if the row exists with another total (I2).
func (Ledger) Create(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, total *drive.ByteSize) error {
	if _, err := tx.InsertNew(ctx, `INSERT INTO ledgers (account_id, total) VALUES (?, ?)`, account, total); err != nil {
		return fmt.Errorf("create a ledger: %w", err)
	}
	b, err := Ledger{}.Get(ctx, tx, account)
	if err != nil {
		return err
	}
	if (b.Total == nil) != (total == nil) || (total != nil && *b.Total != *total) {
		return fmt.Errorf("the ledger of account %s exists with another total", account)
	}
	return nil
}

// Lock locks the ledger row of the account until the end of the transaction. Uploads, tree and
// operations of an account are changed only under this lock, so that they stay as read. Lock or
// Apply is the first statement of such a transaction. Lock does nothing on SQLite, which has a
// single writer, and for an account without a ledger.
func (Ledger) Lock(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	if tx.Dialect() == sqldb.SQLite {
		return nil
	}
	var id drive.AccountID
	err := tx.QueryRow(ctx, `SELECT account_id FROM ledgers WHERE account_id = ? FOR UPDATE`, account).Scan(&id)
	if err != nil && !drive.IsKind(err, drive.NotFound) {
		return fmt.Errorf("lock the ledger of account %s: %w", account, err)
	}
	return nil
}

// owed is an SQL expression, for statements on ledgers, of the bytes that the account has deleted
// and that are still on disk. Package content maintains them.
const owed = `COALESCE((SELECT owed.size FROM owed WHERE owed.account_id = ledgers.account_id), 0)`

// Get returns the balance of an account; NotFound if it has no ledger.
func (Ledger) Get(ctx context.Context, q sqldb.Querier, account drive.AccountID) (Balance, error) {
	var b Balance
	err := q.QueryRow(ctx, `SELECT total, finished, unfinished, reserved, `+owed+`, version FROM ledgers WHERE account_id = ?`, account).
		Scan(&b.Total, &b.Finished, &b.Unfinished, &b.Reserved, &b.Owed, &b.Version)
	if err != nil {
		return Balance{}, fmt.Errorf("read the ledger of account %s: %w", account, err)
	}
	return b, nil
}

const getAtOnce = 500 // balances per statement

// GetMany returns balances by account. Accounts without a ledger are missing in the map.
func (Ledger) GetMany(ctx context.Context, q sqldb.Querier, accounts ...drive.AccountID) (map[drive.AccountID]Balance, error) {
	type entry struct {
		account drive.AccountID
		Balance
	}
	found := make(map[drive.AccountID]Balance, len(accounts))
	for some := range slices.Chunk(accounts, getAtOnce) {
		marks, args := sqldb.ListArgs(some)
		rows, err := q.Query(ctx, `SELECT account_id, total, finished, unfinished, reserved, `+owed+`, version FROM ledgers WHERE account_id IN (`+marks+`)`, args...)
		all, err := sqldb.Scan(rows, err, func(e *entry, scan func(...any) error) error {
			return scan(&e.account, &e.Total, &e.Finished, &e.Unfinished, &e.Reserved, &e.Owed, &e.Version)
		})
		if err != nil {
			return nil, fmt.Errorf("read %d ledgers: %w", len(accounts), err)
		}
		for _, e := range all {
			found[e.account] = e.Balance
		}
	}
	return found, nil
}

// Apply adds m to the sums of the account's ledger and locks its row until tx ends, even for an
// empty move. If growth does not fit it returns Quota (Balance.Refused); NotFound if the account
// has no ledger. If a sum would become negative, an invariant is broken: it returns Internal and
// changes nothing.
func (l Ledger) Apply(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, m Move) error {
	if m == (Move{}) {
		return l.Lock(ctx, tx, account)
	}
	growth := max(0, m.growth())
	n, err := tx.Exec(ctx, `UPDATE ledgers
		SET finished = finished + ?, unfinished = unfinished + ?, reserved = reserved + ?, version = version + 1
		WHERE account_id = ? AND (? = 0 OR total IS NULL OR finished + unfinished + reserved + ? <= total
			AND finished + unfinished + reserved + ? - total + `+owed+` <= total)`,
		m.Finished, m.Unfinished, m.Reserved, account, growth, growth, growth)
	if err != nil {
		return fmt.Errorf("move %+v in the ledger of account %s: %w", m, account, err)
	}
	if n == 1 {
		return nil
	}
	b, err := l.Get(ctx, tx, account)
	if err != nil {
		return err
	}
	return b.Refused(growth)
}

// Grant reserves up to want bytes, limited to the available bytes, but at least least, and returns
// how many. It fails with Quota if least does not fit; nothing is reserved then.
func (l Ledger) Grant(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, want, least drive.ByteSize) (drive.ByteSize, error) {
	if err := l.Lock(ctx, tx, account); err != nil {
		return 0, err
	}
	b, err := l.Get(ctx, tx, account)
	if err != nil {
		return 0, err
	}
	take := max(least, min(want, b.Available()))
	return take, l.Apply(ctx, tx, account, Move{Reserved: take})
}

// Delete deletes the ledger of an account. It fails with WrongState {not-empty} unless finished,
// unfinished and reserved are zero, and if there is no ledger.
func (Ledger) Delete(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	n, err := tx.Exec(ctx, `DELETE FROM ledgers WHERE account_id = ? AND finished = 0 AND unfinished = 0 AND reserved = 0`, account)
	if err == nil && n == 0 {
		err = drive.Fail(drive.WrongState, "state", "not-empty")
	}
	if err != nil {
		return fmt.Errorf("delete the ledger of account %s: %w", account, err)
	}
	return nil
}

// SetTotal changes the quota of an account; nil is unlimited. It may be below the usage. NotFound
// if the account has no ledger.
func (Ledger) SetTotal(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, total *drive.ByteSize) error {
	n, err := tx.Exec(ctx, `UPDATE ledgers SET total = ?, version = version + 1 WHERE account_id = ?`, total, account)
	if err != nil {
		return fmt.Errorf("set the total of account %s: %w", account, err)
	}
	if n == 0 {
		return drive.Fail(drive.NotFound)
	}
	return nil
}
