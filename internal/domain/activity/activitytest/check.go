// Package activitytest checks the invariants of the activity log in tests of other packages.
package activitytest

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// T is the subset of *testing.T that Check needs.
type T interface {
	Helper()
	Errorf(format string, args ...any)
}

// Check fails the test unless each change of the account's tree, except the creation of its root,
// has exactly one row (E1), in order (E2), with the changed node. The log must have been attached
// to the tree from the beginning.
func Check(t T, db *sqldb.DB, account drive.AccountID) {
	t.Helper()
	for _, what := range Broken(context.Background(), db, account) {
		t.Errorf("activity: %s", what)
	}
}

// Broken returns the violations that Check reports. It uses its own queries, so that it does not
// depend on the code it checks, and starts over if the tree changes meanwhile.
func Broken(ctx context.Context, db *sqldb.DB, account drive.AccountID) (wrong []string) {
	last := func() (seq int64, err error) {
		err = db.QueryRow(ctx, "SELECT seq FROM trees WHERE account_id = ?", account).Scan(&seq)
		return seq, err
	}
	seq, err := last()
	for before := int64(-1); err == nil && before != seq; {
		before, wrong = seq, brokenAt(ctx, db, account, seq)
		seq, err = last()
	}
	if drive.IsKind(err, drive.NotFound) { // purged meanwhile
		return nil
	}
	if err != nil {
		return []string{fmt.Sprintf("read the tree: %v", err)}
	}
	return wrong
}

// brokenAt returns the violations in the log of a tree. last is the tree's last change number
// (trees.seq).
func brokenAt(ctx context.Context, db *sqldb.DB, account drive.AccountID, last int64) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	type row struct {
		seq  int64
		node string
		verb string
	}
	rows, err := db.Query(ctx, "SELECT seq, node_id, verb FROM activity WHERE account_id = ? AND seq > 0 ORDER BY id", account)
	all, err := sqldb.Scan(rows, err, func(r *row, scan func(...any) error) error { return scan(&r.seq, &r.node, &r.verb) })
	if err != nil {
		say("read the rows: %v", err)
		return wrong
	}
	of := map[int64]row{}
	for i, r := range all {
		if want := int64(i) + 2; r.seq != want { // seq 1 is the root's
			say("row %d is of change %d (%s), want %d", i, r.seq, r.verb, want)
			return wrong
		}
		of[r.seq] = r
	}
	if int64(len(all)) != last-1 {
		say("%d rows tell of %d changes", len(all), last-1)
	}
	for what, query := range map[string]string{
		"node":      "SELECT seq, id FROM nodes WHERE account_id = ? AND seq > 1",
		"tombstone": "SELECT seq, node_id FROM tombstones WHERE account_id = ?",
	} {
		rows, err := db.Query(ctx, query, account)
		at, err := sqldb.Scan(rows, err, func(r *row, scan func(...any) error) error { return scan(&r.seq, &r.node) })
		if err != nil {
			say("read the %ss: %v", what, err)
		}
		for _, r := range at {
			if told := of[r.seq]; told.node != r.node || what == "tombstone" && told.verb != "node.deleted" && told.verb != "node.left" {
				say("%s %s changed at %d, which is told as %s of node %q", what, r.node, r.seq, told.verb, told.node)
			}
		}
	}
	return wrong
}
