package migrate

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// pairs are the tested moves; those with a server are skipped without one.
var pairs = []struct {
	name     string
	from, to func(t testing.TB) *place
}{
	{"SQLite to SQLite", onSQLite, onNewSQLite},
	{"SQLite to MySQL", onSQLite, onMySQL},
	{"MySQL to SQLite", onMySQL, onNewSQLite},
}

func TestThroughAllPhasesAndBack(t *testing.T) {
	t.Parallel()
	for _, pair := range pairs {
		t.Run(pair.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, pair.from(t), pair.to(t))
			p := s.mustStart(s.old)
			defer func() { p.stop(t) }()
			accounts := seed(t, p.db, 20)
			var last int64
			for range 5 { // the shares have ended; only the counter remains
				last = numbered(t, p.db)
			}
			report, err := p.m.Start(t.Context(), Request{ToDB: s.new.at})
			must(t, err)
			if !report.OK {
				t.Fatalf("the preflight refuses: %+v", report.Checks)
			}
			n := 0
			changeRows := func() {
				t.Helper()
				n++
				changeAll(t, p.db, accounts, n)
				if p.m.State().Phase < WriteNew { // so that the other side does not see these numbers before it needs them
					return
				}
				got := numbered(t, p.db)
				if got <= last {
					t.Errorf("a share gets the number %d, and there was %d", got, last)
				}
				last = got
			}
			work := func() {
				t.Helper()
				must(t, p.m.participant.runOnce(t.Context()))
				must(t, p.m.participant.leadOnce(t.Context()))
			}
			check := func(want Phase) {
				t.Helper()
				if got := p.m.State().Phase; got != want {
					t.Fatalf("phase %d, want %d", got, want)
				}
				changeRows()
				must(t, p.m.apply.applyPending(t.Context()))
				v := p.m.currentSnapshot()
				if diff := cmp.Diff(dump(t, p.m, v.primary), dump(t, p.m, v.other)); diff != "" && want != Fill {
					t.Fatalf("phase %d: the sides differ (-primary +secondary):\n%s", want, diff)
				}
			}
			forward := func(to Phase) {
				t.Helper()
				work()
				must(t, p.m.Verify(t.Context()))
				work()
				got, err := p.m.Advance(t.Context(), AnyPhase)
				if err != nil || got != to {
					t.Fatalf("advance: phase %d, %v", got, err)
				}
				check(to)
			}
			back := func(to Phase) {
				t.Helper()
				work()
				got, err := p.m.Rollback(t.Context(), AnyPhase)
				if err != nil || got != to {
					t.Fatalf("roll back: phase %d, %v", got, err)
				}
			}
			check(Fill)
			forward(DualWrite)
			forward(ReadNew)
			must(t, p.m.Percent(t.Context(), 100, nil))
			check(ReadNew)
			forward(WriteNew)
			if to, err := p.m.Rollback(t.Context(), AnyPhase); err == nil || !strings.Contains(err.Error(), "never compared in this direction") && !strings.Contains(err.Error(), "of the other direction") {
				t.Fatalf("back to phase %d without a comparison: %v", to, err)
			}
			must(t, p.m.Verify(t.Context()))
			work()
			back(ReadNew)
			check(ReadNew)
			back(DualWrite)
			check(DualWrite)
			back(Fill)
			forward(DualWrite)
			forward(ReadNew)
			forward(WriteNew)
			work()
			must(t, p.m.Verify(t.Context()))
			work()
			must(t, p.m.Finish(t.Context()))
			changeRows()
			if got := p.m.State(); got.Phase != NewOnly || !got.Switched {
				t.Fatalf("finished at %+v", got)
			}
			old := sideOf(t, p, s.old.at)
			err = old.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				_, err := tx.Exec(ctx, "INSERT INTO accounts (id, created_at) VALUES (?, 1)", drive.NewID[drive.AccountID]())
				return err
			})
			if err == nil {
				t.Fatal("the old side takes writes")
			}
		})
	}
}

func sideOf(t testing.TB, p *process, at string) *Side {
	t.Helper()
	if p.m.opt.Here == at {
		return &p.m.home
	}
	return p.m.otherSide()
}

// changeAll changes, inserts and deletes rows of each account, swaps the names of two nodes, and
// deletes dependent rows.
func changeAll(t testing.TB, db *sqldb.DB, accounts []drive.AccountID, n int) {
	t.Helper()
	for i, id := range accounts {
		must(t, db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return changeRows(ctx, tx, id, n, i) }))
	}
}

func changeRows(ctx context.Context, tx *sqldb.Tx, id drive.AccountID, n, i int) error {
	upload := drive.NewID[drive.UploadID]()
	for _, s := range []struct {
		query string
		args  []any
	}{
		{"UPDATE ledgers SET finished = finished + 1, version = version + 1 WHERE account_id = ?", []any{id}},
		{"INSERT INTO outbox (event_id, topic, `key`, event, created_at) VALUES (?, 't', ?, '{}', 1)", []any{upload.String(), id.String()}},
		{"DELETE FROM outbox WHERE `key` = ? AND event_id <> ?", []any{id.String(), upload.String()}},
		{"INSERT INTO tombstones (account_id, seq, node_id, deleted_at) VALUES (?, ?, ?, 1)", []any{id, n, drive.NewID[drive.NodeID]()}},
		{"DELETE FROM uploads WHERE account_id = ?", []any{id}},
		{
			"INSERT INTO uploads (id, account_id, user_id, parent_id, name, conflict, size, part_size, mtime, mime, fingerprint, digests, state, gen, reserved, " +
				"held, challenge, created_at, active_at) VALUES (?, ?, ?, ?, 'n', 'fail', NULL, 1, 1, '', '', '{}', 'active', 1, 0, 0, '', 1, 1)",
			[]any{upload, id, id.String(), id.String()},
		},
		{"INSERT INTO upload_heads (upload_id, kind, protocol, metadata, partials) VALUES (?, 0, 1, ?, '')", []any{upload, []byte{0, 1, 0xff}}},
		{"UPDATE users SET slot = ? WHERE account_id = ?", []any{fmtSlot(n + i), id}},
	} {
		if _, err := tx.Exec(ctx, s.query, s.args...); err != nil {
			return err
		}
	}
	return nil
}

// numbered inserts and deletes a shared object with a number, and returns the number.
func numbered(t testing.TB, db *sqldb.DB) (n int64) {
	t.Helper()
	node, subject := drive.NewID[drive.NodeID](), drive.NewID[drive.ShareID]()
	for _, query := range []string{"INSERT INTO share_numbers (node_id, subject) VALUES (?, ?)", "DELETE FROM share_numbers WHERE node_id = ? AND subject = ?"} {
		must(t, db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			if _, err := tx.Exec(ctx, query, node, subject); err != nil || n != 0 {
				return err
			}
			return tx.QueryRow(ctx, "SELECT number FROM share_numbers WHERE node_id = ?", node).Scan(&n)
		}))
	}
	return n
}

func fmtSlot(n int) string {
	return "slot " + drive.NewID[drive.UserID]().String()[:1] + string(rune('a'+n%26)) + drive.NewID[drive.UserID]().String()
}
