// Package quota keeps the ledger: for each account how many bytes it may have and how many it has.
//
// The row is the only usage counter; nothing caches it. Its three sums, by the invariants of
// docs/invariants.md:
//
//	finished    Q1  sizes of the account's versions, trash included
//	reserved    Q2  declared bytes (or the grant) of uploads in active and sealing
//	unfinished  Q3  held bytes of uploads in parked and reclaiming
//
// Q6: together with what the account has deleted and the disk still holds (owed), a commit that
// grows the sum leaves at most twice the total: who empties the trash has room at once, and who
// puts and deletes again and again waits until the disk is rid of it.
//
// Q4: no commit that grows finished + unfinished + reserved leaves it above total. A Move that does
// not grow the sum always succeeds, also when an administrator has set total below what is there.
package quota

import (
	"context"
	"fmt"
	"slices"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Ledger moves bytes between the columns of ledger rows. The zero value is ready.
type Ledger struct{}

// Balance is a ledger row.
type Balance struct {
	Total      *drive.ByteSize // nil: unlimited
	Finished   drive.ByteSize
	Unfinished drive.ByteSize
	Reserved   drive.ByteSize
	Owed       drive.ByteSize // deleted and still on the disk (Q6)
	Version    int64          // grows with every move
}

// Used returns the sum that Q4 bounds.
func (b Balance) Used() drive.ByteSize { return b.Finished + b.Unfinished + b.Reserved }

// Available returns what may still be added, never negative; unlimited is drive.MaxFileSize.
func (b Balance) Available() drive.ByteSize {
	if b.Total == nil {
		return drive.MaxFileSize
	}
	left := *b.Total - b.Used()
	return max(0, min(left, left+*b.Total-b.Owed))
}

// Refused is the error about growth that does not fit: Quota {needed, available}, and owed where it
// would fit if what was deleted were gone from the disk.
func (b Balance) Refused(growth drive.ByteSize) error {
	if b.Total != nil && b.Used()+growth <= *b.Total {
		return drive.Fail(drive.Quota, "needed", growth, "available", b.Available(), "owed", b.Owed)
	}
	return drive.Fail(drive.Quota, "needed", growth, "available", b.Available())
}

// Move is a change of the three columns in bytes; negative takes away.
type Move struct{ Finished, Unfinished, Reserved drive.ByteSize }

func (m Move) growth() drive.ByteSize { return m.Finished + m.Unfinished + m.Reserved }

// Create makes the row of an account, with total nil for unlimited. It may run any number of times:
// the row that is there is read back and must agree (insert if absent, read back, verify: I2).
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

// Lock takes the row lock of the account, until the end of the transaction: whatever belongs to an
// account (its uploads, its tree, its operations) is changed under it, so that one who read it and
// then writes finds what was read. It is the first statement of such a transaction, or Apply is.
// SQLite has one writer and takes no lock; an account without a ledger has none.
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

// owed is, within a statement about ledgers, what the account has deleted and the disk still holds.
// Package content writes it.
const owed = `COALESCE((SELECT owed.size FROM owed WHERE owed.account_id = ledgers.account_id), 0)`

// Get reads a balance; NotFound when the account has none.
func (Ledger) Get(ctx context.Context, q sqldb.Querier, account drive.AccountID) (Balance, error) {
	var b Balance
	err := q.QueryRow(ctx, `SELECT total, finished, unfinished, reserved, `+owed+`, version FROM ledgers WHERE account_id = ?`, account).
		Scan(&b.Total, &b.Finished, &b.Unfinished, &b.Reserved, &b.Owed, &b.Version)
	if err != nil {
		return Balance{}, fmt.Errorf("read the ledger of account %s: %w", account, err)
	}
	return b, nil
}

const getAtOnce = 500 // balances that one statement reads

// GetMany reads balances, by account. Accounts that have none are not in the map.
func (Ledger) GetMany(ctx context.Context, q sqldb.Querier, accounts ...drive.AccountID) (map[drive.AccountID]Balance, error) {
	type entry struct {
		account drive.AccountID
		Balance
	}
	found := make(map[drive.AccountID]Balance, len(accounts))
	for some := range slices.Chunk(accounts, getAtOnce) {
		marks, args := sqldb.In(some)
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

// Apply moves bytes, and locks the row as Lock does, also where there is nothing to move. Growth of
// the sum that does not fit is Quota (Balance.Refused); a column that would become negative is a
// broken invariant and fails as Internal, leaving the row alone.
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

// Grant moves up to want bytes into reserved, cut to what is left but not below least, and returns
// how many it took.
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

// Delete removes the row of an account that has nothing left; one that has is an error.
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

// SetTotal changes the limit; nil is unlimited. It may go below what is used.
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
