package innodb

import (
	"context"
	"errors"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

func gib(n drive.ByteSize) *drive.ByteSize { n *= drive.GiB; return &n }

func createLedger(account drive.AccountID, total *drive.ByteSize) func(context.Context, *sqldb.Tx) error {
	return func(ctx context.Context, tx *sqldb.Tx) error { return quota.Ledger{}.Create(ctx, tx, account, total) }
}

// The first of many concurrent requests creates the row, and all others find it: one balance per
// user.
func TestLedgerOfManyFirstRequestsIsOneRow(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	account := d.newAccount(t)
	must(t, errors.Join(atOnce(64, func(int) error { return d.Write(t.Context(), createLedger(account, gib(1))) })...))
	d.want(t, "SELECT COUNT(*) FROM ledgers", "1")
}

// The first transaction rolls back while two wait, and those deadlock. No caller gets the deadlock
// error.
func TestLedgerAfterFirstInsertRollsBack(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	account := d.newAccount(t)
	first := d.hold(t, createLedger(account, gib(1)))
	second := d.write(t, createLedger(account, gib(1)))
	d.raw.awaitWaiting(t, 1)
	third := d.write(t, createLedger(account, gib(1)))
	d.raw.awaitWaiting(t, 2)
	first.rollBack(t)
	must(t, errors.Join(<-second, <-third))
	d.reran(t)
	d.want(t, "SELECT COUNT(*) FROM ledgers", "1")
}

// Ensuring the row neither resets its bytes, as REPLACE would, nor accepts another total.
func TestLedgerMadeAgainKeepsItsBytes(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	account := d.newAccount(t)
	must(t, d.Write(t.Context(), createLedger(account, gib(1))))
	exec(t, d.raw, "UPDATE ledgers SET finished = 500")
	must(t, d.Write(t.Context(), createLedger(account, gib(1))))
	if err := d.Write(t.Context(), createLedger(account, gib(2))); err == nil {
		t.Fatal("a ledger was made with a total that it has not")
	}
	d.want(t, "SELECT CONCAT(total, ' ', finished) FROM ledgers", "1073741824 500")
}

// What IGNORE would hide is an error.
func TestInsertNewHidesOnlyDuplicates(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	account := d.newAccount(t)
	must(t, d.Write(t.Context(), createLedger(account, nil)))
	for name, c := range map[string]struct {
		query string
		args  []any
	}{
		"no parent":    {"INSERT INTO ledgers (account_id) VALUES (?)", []any{drive.NewID[drive.AccountID]()}},
		"null":         {"INSERT INTO ledgers (account_id, finished) VALUES (?, NULL)", []any{d.newAccount(t)}},
		"too long":     {"INSERT INTO ledgers (account_id) VALUES (?)", []any{account.String() + "0"}},
		"too large":    {"INSERT INTO ledgers (account_id, total) VALUES (?, 9223372036854775808)", []any{d.newAccount(t)}},
		"no number":    {"INSERT INTO ledgers (account_id, total) VALUES (?, '12x')", []any{d.newAccount(t)}},
		"broken check": {"INSERT INTO ledgers (account_id, finished) VALUES (?, -1)", []any{d.newAccount(t)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := d.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				_, err := tx.InsertNew(ctx, c.query, c.args...)
				return err
			})
			if err == nil || sqldb.IsDuplicate(err) {
				t.Fatalf("error %v", err)
			}
			d.want(t, "SELECT COUNT(*) FROM ledgers", "1")
		})
	}
}

// The affected rows of a plain INSERT show whether a row is new; those of an upsert do not.
func TestInsertNewTellsANewRow(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	for _, want := range []bool{true, false} {
		must(t, d.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			made, err := tx.InsertNew(ctx, "INSERT INTO meta (name, value) VALUES ('ann', '')")
			if made != want {
				t.Errorf("new: %v, want %v", made, want)
			}
			return err
		}))
	}
}

// Growth is one conditional UPDATE: no row is read first, so there is nothing that could be out of
// date.
func TestLedgerUnderManyReservationsHoldsItsTotal(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	account := d.newAccount(t)
	must(t, d.Write(t.Context(), createLedger(account, gib(10))))
	reserved := 0
	for _, err := range atOnce(64, func(int) error {
		return d.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			return quota.Ledger{}.Apply(ctx, tx, account, quota.Move{Reserved: drive.GiB})
		})
	}) {
		if err == nil {
			reserved++
			continue
		}
		wantKind(t, err, drive.Quota)
	}
	if reserved != 10 {
		t.Fatalf("%d reservations", reserved)
	}
	d.want(t, "SELECT reserved / 1073741824 FROM ledgers", "10.0000")
}

// The balance and the tree of an account, by two who both think that they are first.
func TestTreeOfManyFirstRequestsHasOneRoot(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	account := d.newAccount(t)
	trees := tree.New(tree.Options{})
	roots := make([]drive.NodeID, 32)
	must(t, errors.Join(atOnce(len(roots), func(i int) error {
		return d.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) (err error) {
			roots[i], err = trees.Create(ctx, tx, account)
			return err
		})
	})...))
	for _, root := range roots {
		if root != roots[0] {
			t.Fatalf("roots %v and %v", roots[0], root)
		}
	}
	d.want(t, "SELECT COUNT(*) FROM nodes", "1")
}
