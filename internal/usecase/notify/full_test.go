package notify_test

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/engine/sqldb"
)

// insertLedgers inserts ledgers without users; every tenth is nearly full.
func (f *fixture) insertLedgers(t *testing.T, n int) {
	t.Helper()
	const chunk = 1000
	for done := 0; done < n; done += chunk {
		var accounts, rows [][]any
		for i := range min(chunk, n-done) {
			id, used := drive.NewID[drive.AccountID](), 899
			if i%10 == 0 {
				used = 900
			}
			accounts, rows = append(accounts, []any{id, 1}), append(rows, []any{id, 1000, used, 0, 0, 1})
		}
		f.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			if err := tx.InsertRows(ctx, "INSERT INTO accounts (id, created_at)", accounts); err != nil {
				return err
			}
			return tx.InsertRows(ctx, "INSERT INTO ledgers (account_id, total, finished, unfinished, reserved, version)", rows)
		})
	}
}

// TestLedgersScansAll: a scan reads all ledgers in ranges and notifies a bounded number per call;
// one that fails delays no other. SMARTDRIVE_TEST_LEDGERS sets the number of ledgers for
// measurements.
func TestLedgersScansAll(t *testing.T) {
	t.Parallel()
	w := newFixture(t, "ann", "bob", "cid")
	many := 12_000
	if text := os.Getenv("SMARTDRIVE_TEST_LEDGERS"); text != "" {
		var err error
		if many, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	w.insertLedgers(t, many)
	for _, name := range []string{"ann", "cid"} {
		w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			return quota.Ledger{}.Apply(ctx, tx, w.people[name].Account, quota.Move{Finished: 950})
		})
	}
	look := func() (rounds int) {
		t.Helper()
		for more := true; more; rounds++ {
			began, calls := time.Now(), w.calls.Total()
			var err error
			if more, err = w.teller.ScanLedgers(t.Context()); err != nil {
				t.Fatal(err)
			}
			t.Logf("round %d: %v, %d calls", rounds, time.Since(began), w.calls.Total()-calls)
		}
		return rounds
	}
	if rounds := look(); rounds != many/10_000+1 {
		t.Errorf("it takes %d rounds", rounds)
	}
	w.wantNotices(t, "ann", "quota.full")
	w.wantNotices(t, "bob")
	w.wantNotices(t, "cid", "quota.full")
	w.advance(time.Hour)
	look()
	w.wantNotices(t, "cid", "quota.full")
	if look() != 1 {
		t.Error("it begins again within the hour")
	}
}
