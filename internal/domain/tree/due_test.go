package tree_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// countWithoutDue counts deletable items without a due entry: trashed nodes, tombstones and
// versions. The trees of these tests keep two versions.
func (f *fixture) countWithoutDue(t tb) (n [3]int) {
	t.Helper()
	const due = " AND NOT EXISTS (SELECT 1 FROM due d WHERE d.kind = '%s' AND d.id = x.%s AND d.since <= x.%s)"
	for i, query := range []string{
		"SELECT COUNT(*) FROM nodes x WHERE account_id = ? AND trashed_at > 0 AND operation_id IS NULL" + fmt.Sprintf(due, "trash", "account_id", "trashed_at"),
		"SELECT COUNT(*) FROM tombstones x WHERE account_id = ?" + fmt.Sprintf(due, "tombstones", "account_id", "deleted_at"),
		`SELECT COUNT(*) FROM versions x WHERE account_id = ? AND id <> (SELECT version_id FROM nodes WHERE id = x.node_id)
			AND (SELECT COUNT(*) FROM versions later WHERE later.node_id = x.node_id AND later.id > x.id) >= 2` + fmt.Sprintf(due, "versions", "node_id", "created_at"),
	} {
		if err := f.db.QueryRow(t.Context(), query, f.account).Scan(&n[i]); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func (f *fixture) due(t tb, kind tree.DueKind, before time.Time) []tree.Due {
	t.Helper()
	due, err := f.tree.ListDue(t.Context(), f.db, tree.Overdue{Kind: kind, Before: drive.TimeOf(before)}, tree.Due{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	return due
}

// TestDue: items are due from the time they begin to wait until they are deleted.
func TestDue(t *testing.T) {
	t.Parallel()
	g := newFixture(t, tree.Options{KeepVersions: 2})
	a, b := g.put(t, g.root, "a"), g.put(t, g.root, "b")
	begun := g.now
	for _, n := range []tree.Node{a, b} {
		if _, err := g.trash(t, n.ID); err != nil {
			t.Fatal(err)
		}
		g.now = g.now.Add(time.Hour)
	}
	due := g.due(t, tree.DueTrash, g.now)
	if len(due) != 1 || due[0].Account != g.account || due[0].Since != drive.TimeOf(begun) {
		t.Fatalf("due: %+v", due)
	}
	if early := g.due(t, tree.DueTrash, begun); len(early) != 0 {
		t.Errorf("due before its time: %+v", early)
	}
	settle := func() []tree.Due {
		g.write(t, func(ctx context.Context, tx *sqldb.Tx) error { return g.tree.RefreshDue(ctx, tx, due[0]) })
		return g.due(t, tree.DueTrash, g.now)
	}
	if _, err := g.restore(t, a.ID, tree.Restore{}); err != nil {
		t.Fatal(err)
	}
	if left := settle(); len(left) != 1 || left[0].Since != drive.TimeOf(begun.Add(time.Hour)) {
		t.Fatalf("after the older one came back: %+v", left)
	}
	if _, err := g.restore(t, b.ID, tree.Restore{}); err != nil {
		t.Fatal(err)
	}
	if left := settle(); len(left) != 0 {
		t.Errorf("with an empty trash: %+v", left)
	}
	for range 3 {
		a, _, _ = g.replace(t, a)
	}
	if due := g.due(t, tree.DueVersions, g.now.Add(time.Hour)); len(due) != 1 || due[0].ID != a.ID.String() {
		t.Errorf("versions due: %+v", due)
	}
}

// TestDueInPages: pages of due entries with equal times neither end early nor repeat.
func TestDueInPages(t *testing.T) {
	t.Parallel()
	g := newFixture(t, tree.Options{})
	g.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		for range 25 {
			if _, err := tx.Exec(ctx, "INSERT INTO due (kind, id, account_id, since) VALUES ('trash', ?, ?, 5)", drive.NewID[drive.AccountID](), g.account); err != nil {
				return err
			}
		}
		return nil
	})
	seen := map[string]bool{}
	for last, more := (tree.Due{}), true; more; {
		page, err := g.tree.ListDue(t.Context(), g.db, tree.Overdue{Kind: tree.DueTrash, Before: 6}, last, 7)
		if err != nil {
			t.Fatal(err)
		}
		for _, last = range page {
			if seen[last.ID] {
				t.Fatalf("%v a second time", last)
			}
			seen[last.ID] = true
		}
		more = len(page) > 0
	}
	if len(seen) != 25 {
		t.Errorf("%d of 25", len(seen))
	}
}

// TestSurvey: the survey finds items without due entries, step by step and concurrently, also after
// KeepVersions is reduced, and is not repeated for a month.
func TestSurvey(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	var gardens []*fixture
	for range 3 {
		g := newFixtureIn(t, db, tree.Options{KeepVersions: 10})
		n := g.put(t, g.root, "log")
		for range 4 {
			n, _, _ = g.replace(t, n)
		}
		gone := g.put(t, g.root, "gone")
		if _, err := g.purge(t, gone.ID, 10); err != nil {
			t.Fatal(err)
		}
		if _, err := g.trash(t, g.put(t, g.root, "old").ID); err != nil {
			t.Fatal(err)
		}
		gardens = append(gardens, g)
	}
	forget := func() {
		gardens[0].write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, "DELETE FROM due")
			return err
		})
	}
	unnoted := func() (sum int) {
		for _, g := range gardens {
			for _, n := range g.countWithoutDue(t) {
				sum += n
			}
		}
		return sum
	}
	survey := func(keep int) {
		with := tree.New(tree.Options{KeepVersions: keep, Now: func() time.Time { return gardens[0].now }})
		for more := true; more; {
			var err error
			if more, err = with.Survey(t.Context(), db); err != nil {
				t.Fatal(err)
			}
		}
	}
	forget()
	survey(10)
	if n := unnoted(); n != 9 { // three files with three unprotected versions each
		t.Errorf("%d are not due after a survey for ten versions, want 9", n)
	}
	survey(2)
	if n := unnoted(); n != 0 {
		t.Errorf("%d are not due after a survey for two versions", n)
	}
	forget()
	survey(2)
	if unnoted() == 0 {
		t.Error("a survey that is over was made again")
	}
	gardens[0].now = gardens[0].now.AddDate(0, 0, 31)
	survey(2)
	if n := unnoted(); n != 0 {
		t.Errorf("%d are not due a month later", n)
	}
}
