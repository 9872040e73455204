package migrate

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// TestChecksumResumes is C4: a crashed comparison resumes after the last save point. It finds
// differences after the save point but not before it.
func TestChecksumResumes(t *testing.T) {
	t.Parallel()
	for _, pair := range pairs[:2] {
		t.Run(pair.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, pair.from(t), pair.to(t))
			p := s.mustStart(s.old)
			const files = 3 * verifyRows
			spreadBoth(t, p, files)
			must(t, p.m.Verify(t.Context()))
			at := dieComparing(t, p, "nodes")

			p = s.mustStart(s.old)
			defer p.stop(t)
			differ := func(n int) {
				exec(t, p.m.currentSnapshot().other, "UPDATE nodes SET rev = 77 WHERE id = ?", spreadID(n))
			}
			differ(0)
			differ(files - 1)
			work(t, p)
			c, err := p.m.lastChecksum(t.Context(), p.m.currentSnapshot())
			must(t, err)
			found, err := p.m.Mismatches(t.Context(), 10)
			must(t, err)
			rows := int64(len(dump(t, p.m, p.m.currentSnapshot().primary)))
			if c.state != "done" || c.rows != rows || len(found) != 1 || !strings.HasSuffix(found[0].Subject, spreadID(files-1)) {
				t.Errorf("it died after %d rows of nodes, and ended as %+v of %d rows with mismatches %+v", at, c, rows, found)
			}

			must(t, p.m.Verify(t.Context())) // a new comparison finds both
			work(t, p)
			if c, err = p.m.lastChecksum(t.Context(), p.m.currentSnapshot()); err != nil || c.rows != rows || c.unequal != 2 {
				t.Errorf("begun again it ended as %+v, %v", c, err)
			}
		})
	}
}

// dieComparing compares until part of a table is done, stops the process, and returns the number of
// compared rows.
func dieComparing(t *testing.T, p *process, table string) int64 {
	t.Helper()
	for range 2 * len(p.m.tables) { // each time at least a table, or part of one
		p.faults[placeOf(p)].Fail(sqldbtest.Commit, 2, nil) // one save point is written, the next one is not
		err := p.m.participant.leadOnce(t.Context())
		points, readErr := savePoints(t.Context(), p.m.currentSnapshot().other.DB, "check")
		must(t, readErr)
		switch at := points[table]; {
		case at.ended || err == nil:
			t.Fatalf("the comparison went on to its end: %+v, %v", at, err)
		case at.done > 0:
			for _, f := range p.faults {
				f.FailAll("", nil)
			}
			p.stop(t)
			for _, f := range p.faults {
				f.Clear()
			}
			return at.done
		}
	}
	t.Fatalf("the comparison has not come to %s", table)
	return 0
}

// spreadBoth takes a migration to phase 2 with many files that exist on both sides without being
// copied, to save time.
func spreadBoth(t *testing.T, p *process, files int) {
	t.Helper()
	account, parent := seed(t, p.db, 20)[0], drive.NewID[drive.NodeID]()
	spread(t, p.db, account, parent, files)
	report, err := p.m.Start(t.Context(), Request{ToDB: placeOf(p)})
	must(t, err)
	if !report.OK {
		t.Fatalf("the preflight refuses: %+v", report.Checks)
	}
	spread(t, p.m.currentSnapshot().other.Unchecked, account, parent, files)
	exec(t, p.m.currentSnapshot().other, "REPLACE INTO migration_progress (kind, tbl, last, done, total, ended, digest) VALUES ('fill', 'nodes', '', ?, ?, 1, '')", files, files)
	must(t, p.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { // so that the other nodes are applied
		// By a key range: scanning the whole table may exceed the transaction timeout.
		_, err := tx.Exec(ctx, "UPDATE nodes SET rev = 2 WHERE id >= ? AND type = 'folder'", spreadID(files))
		return err
	}))
	work(t, p)
	_, err = p.m.Advance(t.Context(), AnyPhase)
	must(t, err)
}

// spread inserts many files with few statements. A secondary accepts it.
func spread(t *testing.T, db *sqldb.DB, account drive.AccountID, parent drive.NodeID, files int) {
	t.Helper()
	write := func(query string, args ...any) {
		t.Helper()
		must(t, db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			if err := setApplying(ctx, tx, 1); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, query, args...); err != nil {
				return err
			}
			return setApplying(ctx, tx, 0)
		}))
	}
	write("INSERT INTO nodes (id, account_id, parent_id, name, name_fold, slot, type, mtime, rev, seq, created_at, updated_at) "+
		"VALUES (?, ?, NULL, '', '', '', 'folder', 1, 1, 0, 1, 1)", parent, account)
	digits := "(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 " +
		"UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"
	text, name := "printf('"+spreadPattern+"', n)", "printf('a file of some name %d.pdf', n)"
	if db.Dialect() == sqldb.MySQL {
		text, name = "CONCAT('"+strings.TrimSuffix(spreadPattern, "%012d")+"', LPAD(n, 12, '0'))", "CONCAT('a file of some name ', n, '.pdf')"
	}
	const together = 100_000 // five digits
	for first := 0; first < files; first += together {
		write("INSERT INTO nodes (id, account_id, parent_id, name, name_fold, slot, type, mtime, rev, seq, created_at, updated_at) "+
			"SELECT "+text+", ?, ?, "+name+", "+name+", "+name+", 'file', 1700000000000, 1, n, 1700000000000, 1700000000000 "+
			"FROM (SELECT ? + a.d + 10 * b.d + 100 * c.d + 1000 * d.d + 10000 * e.d AS n FROM "+
			digits+" a, "+digits+" b, "+digits+" c, "+digits+" d, "+digits+" e) numbers WHERE n < ?", account, parent, first, files)
	}
}

// spreadPattern is the pattern of the ids of spread, which sort before current ids.
const spreadPattern = "01000000-0000-7000-8000-%012d"

func spreadID(n int) string { return fmt.Sprintf(spreadPattern, n) }

// A process crashes while it empties the other side. Only the same rollback can continue, other
// steps say so, and then a new migration can start.
func TestInterruptedRollbackResumes(t *testing.T) {
	t.Parallel()
	for _, pair := range pairs[:2] {
		t.Run(pair.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, pair.from(t), pair.to(t))
			p := s.mustStart(s.old)
			seed(t, p.db, 3)
			climb(t, p, Fill)
			before := dump(t, p.m, p.m.currentSnapshot().primary)
			p.faults[placeOf(p)].Fail(sqldbtest.Commit, 2, nil) // the first commit retires the other side
			if _, err := p.m.Rollback(t.Context(), Fill); err == nil {
				t.Fatal("nothing failed")
			}
			p.stop(t)

			p = s.mustStart(s.old)
			defer p.stop(t)
			work(t, p)
			if _, err := p.m.Advance(t.Context(), Freeze); err == nil || !strings.Contains(err.Error(), "go back again") {
				t.Errorf("forward: %v", err)
			}
			_, err := p.m.Rollback(t.Context(), Freeze)
			must(t, err)
			if v := p.m.currentSnapshot(); v != nil {
				t.Fatalf("there is still %+v", v)
			}
			climb(t, p, DualWrite)
			v := p.m.currentSnapshot()
			for what, side := range map[string]*Side{"old": v.primary, "new": v.other} {
				if diff := cmp.Diff(before, dump(t, p.m, side)); diff != "" {
					t.Errorf("the %s side (-before +now):\n%s", what, diff)
				}
			}
		})
	}
}

// A process that has acknowledged an epoch also acknowledges the same epoch of the next migration.
func TestStartAfterRollback(t *testing.T) {
	t.Parallel()
	s := newSite(t, onSQLite(t), onSQLite(t))
	p := s.mustStart(s.old)
	defer p.stop(t)
	seed(t, p.db, 3)
	climb(t, p, Fill)
	_, err := p.m.Rollback(t.Context(), Fill)
	must(t, err)
	climb(t, p, DualWrite)
}
