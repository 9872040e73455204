package quota_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

var ledger quota.Ledger

// account creates an account with a ledger; a negative total is unlimited.
func account(t testing.TB, db *sqldb.DB, total drive.ByteSize) drive.AccountID {
	t.Helper()
	id := drive.NewID[drive.AccountID]()
	err := db.Write(context.Background(), func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO accounts (id, created_at) VALUES (?, 0)`, id); err != nil {
			return err
		}
		return ledger.Create(ctx, tx, id, limit(total))
	})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func limit(total drive.ByteSize) *drive.ByteSize {
	if total < 0 {
		return nil
	}
	return &total
}

func apply(db *sqldb.DB, id drive.AccountID, m quota.Move) error {
	return db.Write(context.Background(), func(ctx context.Context, tx *sqldb.Tx) error { return ledger.Apply(ctx, tx, id, m) })
}

func balance(t testing.TB, db *sqldb.DB, id drive.AccountID) quota.Balance {
	t.Helper()
	b, err := ledger.Get(context.Background(), db, id)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Q4: concurrent moves that fit one by one never exceed the total together.
func TestParallelGrowth(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	id := account(t, db, 1000)
	var fitted atomic.Int64
	var all sync.WaitGroup
	for range 16 { // more would only wait longer for a connection than a transaction does
		all.Go(func() {
			for i := range 6 {
				m := []quota.Move{{Reserved: 30}, {Finished: 30}, {Unfinished: 30}}[i%3]
				switch err := apply(db, id, m); {
				case err == nil:
					fitted.Add(1)
				case !drive.IsKind(err, drive.Quota):
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := balance(t, db, id).Used(); got != 990 || fitted.Load() != 33 {
		t.Errorf("%d of 1000 bytes are used by %d moves", got, fitted.Load())
	}
}

func TestQuotaErrorHasNeededAndAvailable(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	id := account(t, db, 100)
	if err := apply(db, id, quota.Move{Finished: 70}); err != nil {
		t.Fatal(err)
	}
	err := apply(db, id, quota.Move{Reserved: 31})
	var e *drive.Error
	if !errors.As(err, &e) || e.Kind != drive.Quota || fmt.Sprint(e.Args) != "map[available:30B needed:31B]" {
		t.Fatalf("got %v", err)
	}
	if err := apply(db, id, quota.Move{Reserved: 30}); err != nil {
		t.Errorf("up to the last byte: %v", err)
	}
}

// A total below the usage refuses only growth. Q6: growth that would fit without the owed bytes is
// refused with their number, other growth without it.
func TestQuotaErrorHasOwedBytes(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	id := account(t, db, 100)
	err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO owed (account_id, size) VALUES (?, 170)", id); err != nil {
			return err
		}
		return ledger.Apply(ctx, tx, id, quota.Move{Finished: 10})
	})
	if err != nil {
		t.Fatal(err)
	}
	for growth, want := range map[drive.ByteSize]any{20: nil, 21: drive.ByteSize(170), 90: drive.ByteSize(170), 91: nil} {
		err := apply(db, id, quota.Move{Reserved: growth})
		e, _ := errors.AsType[*drive.Error](err)
		switch {
		case growth == 20:
			if err != nil {
				t.Errorf("20 bytes fit: %v", err)
			}
			if err := apply(db, id, quota.Move{Reserved: -growth}); err != nil {
				t.Fatal(err)
			}
		case e == nil || e.Kind != drive.Quota || e.Args["owed"] != want || e.Args["available"] != drive.ByteSize(20):
			t.Errorf("%d more: %v, %v", growth, err, e)
		}
	}
}

func TestTotalBelowUsageRefusesGrowth(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	id := account(t, db, 100)
	if err := apply(db, id, quota.Move{Reserved: 100}); err != nil {
		t.Fatal(err)
	}
	err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return ledger.SetTotal(ctx, tx, id, limit(10)) })
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []quota.Move{{Reserved: -50, Unfinished: 50}, {Finished: 40, Unfinished: -50}, {Reserved: -50, Finished: 50}} {
		if err := apply(db, id, m); err != nil {
			t.Errorf("%+v: %v", m, err)
		}
	}
	if err := apply(db, id, quota.Move{Finished: 1}); !drive.IsKind(err, drive.Quota) {
		t.Errorf("growth: %v", err)
	}
}

// A refund of bytes never charged is a broken invariant: it fails and changes nothing.
func TestNegativeSumIsRefused(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	id := account(t, db, -1)
	for _, m := range []quota.Move{{Reserved: -1}, {Finished: -1, Reserved: 1}, {Unfinished: -1}} {
		if err := apply(db, id, m); err == nil || drive.IsKind(err, drive.Quota) {
			t.Errorf("%+v: %v", m, err)
		}
	}
	if b := balance(t, db, id); b.Used() != 0 || b.Version != 0 {
		t.Errorf("left %+v", b)
	}
}

func TestCreateIsIdempotent(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	id := account(t, db, 100)
	create := func(total drive.ByteSize) error {
		return db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return ledger.Create(ctx, tx, id, limit(total)) })
	}
	if err := create(100); err != nil {
		t.Error(err)
	}
	if create(101) == nil || create(-1) == nil {
		t.Error("a ledger of another total was taken for ours")
	}
}

// FuzzLedger compares moves encoded in bytes with a model ledger.
func FuzzLedger(f *testing.F) {
	f.Add([]byte{0, 10, 1, 200, 6, 3})
	f.Add([]byte{5, 0, 0, 255, 3, 9, 7, 1, 2, 255, 4, 255})
	db := sqldbtest.Open(f)
	f.Fuzz(func(t *testing.T, ops []byte) {
		id := account(t, db, 500)
		m := model{total: 500}
		for ; len(ops) >= 2; ops = ops[2:] {
			n := drive.ByteSize(ops[1]) * 3
			want, got := m.step(ops[0], n), step(db, id, ops[0], n)
			if (want == fine) != (got == nil) || got != nil && drive.KindOf(got) != want {
				t.Fatalf("op %d of %d: %v, want %v", ops[0]%8, n, got, want)
			}
			b := balance(t, db, id)
			if b.Finished != m.finished || b.Unfinished != m.unfinished || b.Reserved != m.reserved {
				t.Fatalf("op %d of %d: %+v, want %+v", ops[0]%8, n, b, m)
			}
		}
	})
}

// fine is the model's word for "no error".
const fine = drive.Internal + 99

type model struct{ total, finished, unfinished, reserved drive.ByteSize }

func (m *model) sum() drive.ByteSize { return m.finished + m.unfinished + m.reserved }

func moveOf(op byte, n drive.ByteSize) quota.Move {
	return []quota.Move{
		{Reserved: n},
		{Reserved: -n},
		{Reserved: -n, Unfinished: n / 2},
		{Reserved: n, Unfinished: -n / 2},
		{Reserved: -n, Finished: n},
		{Finished: -n},
	}[op]
}

func (m *model) step(op byte, n drive.ByteSize) drive.Kind {
	switch op %= 8; op {
	case 6:
		m.total = n
		return fine
	case 7:
		take := max(n/4, min(n, max(0, m.total-m.sum())))
		if take > 0 && m.sum()+take > m.total {
			return drive.Quota
		}
		m.reserved += take
		return fine
	}
	v, next := moveOf(op, n), *m
	next.finished, next.unfinished, next.reserved = m.finished+v.Finished, m.unfinished+v.Unfinished, m.reserved+v.Reserved
	switch {
	case next.sum() > m.sum() && next.sum() > m.total:
		return drive.Quota
	case next.finished < 0 || next.unfinished < 0 || next.reserved < 0:
		return drive.Internal
	}
	*m = next
	return fine
}

func step(db *sqldb.DB, id drive.AccountID, op byte, n drive.ByteSize) error {
	switch op %= 8; op {
	case 6:
		return db.Write(context.Background(), func(ctx context.Context, tx *sqldb.Tx) error { return ledger.SetTotal(ctx, tx, id, &n) })
	case 7:
		return db.Write(context.Background(), func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := ledger.Grant(ctx, tx, id, n, n/4)
			return err
		})
	}
	return apply(db, id, moveOf(op, n))
}

// GetMany returns the balances that Get returns, and none for an account without a ledger.
func TestGetManyMatchesGet(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	ids := []drive.AccountID{account(t, db, 100), account(t, db, -1), drive.NewID[drive.AccountID]()}
	err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		return ledger.Apply(ctx, tx, ids[1], quota.Move{Finished: 7, Reserved: 1})
	})
	if err != nil {
		t.Fatal(err)
	}
	all, err := ledger.GetMany(t.Context(), db, ids...)
	if err != nil || len(all) != 2 {
		t.Fatalf("%v, %v", all, err)
	}
	for _, id := range ids[:2] {
		got, want := all[id], balance(t, db, id)
		if (got.Total == nil) != (want.Total == nil) || got.Total != nil && *got.Total != *want.Total {
			t.Errorf("the total is %v, want %v", got.Total, want.Total)
		}
		if got.Total, want.Total = nil, nil; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}
