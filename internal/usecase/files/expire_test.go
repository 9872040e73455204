package files_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// keeps makes the account of a desk a space that keeps its trash and its old versions for days of
// its own.
func (d *desk) keeps(t *testing.T, trash, versions int) {
	t.Helper()
	a := access.New(access.Options{DB: d.db})
	d.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := a.CreateSpace(ctx, tx, access.Space{ID: d.who.Account, Root: d.root, Name: "Space " + d.who.Account.String()[28:], By: d.who.User}); err != nil {
			return err
		}
		_, err := a.ChangeSpace(ctx, tx, d.who.Account, access.SpaceChange{Settings: access.SettingsChange{TrashDays: &trash, VersionDays: &versions}})
		return err
	})
}

// A space keeps its trash and its old versions for days of its own, fewer or more than the server
// does (a day, and 30 days); its neighbours do not notice.
func TestASpaceKeepsThingsForDaysOfItsOwn(t *testing.T) {
	t.Parallel()
	plain := sit(t, small)
	long, short := sitAt(t, plain.db, plain.store, small), sitAt(t, plain.db, plain.store, small)
	long.keeps(t, 10, 60)
	short.keeps(t, 0, 2)
	all := []*desk{plain, long, short}
	for _, d := range all {
		if _, err := d.Trash(t.Context(), d.who, d.put(t, "/gone", "x").ID, tree.Expect{}); err != nil {
			t.Fatal(err)
		}
		for v := range 4 { // of which two are among the last
			d.put(t, "/f", fmt.Sprint("version ", v))
		}
	}
	left := func() (have [][2]int) {
		for _, d := range all {
			var n [2]int
			for i, query := range []string{
				"SELECT COUNT(*) FROM nodes WHERE account_id = ? AND trashed_at > 0", "SELECT COUNT(*) FROM versions v JOIN nodes n ON n.id = v.node_id WHERE n.account_id = ? AND n.name = 'f'",
			} {
				if err := d.db.QueryRow(t.Context(), query, d.who.Account).Scan(&n[i]); err != nil {
					t.Fatal(err)
				}
			}
			have = append(have, n)
		}
		return have
	}
	day := 0
	for _, step := range []struct {
		day  int
		want [][2]int // trash, and versions of the file: of plain, long, short
	}{
		{0, [][2]int{{1, 4}, {1, 4}, {1, 4}}},
		{3, [][2]int{{0, 4}, {1, 4}, {0, 2}}},
		{11, [][2]int{{0, 4}, {0, 4}, {0, 2}}},
		{31, [][2]int{{0, 2}, {0, 4}, {0, 2}}},
		{61, [][2]int{{0, 2}, {0, 2}, {0, 2}}},
	} {
		for _, d := range all {
			d.now = d.now.Add(time.Duration(step.day-day) * 24 * time.Hour)
		}
		day = step.day
		for range 2 {
			if _, err := plain.expiry.Purge(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff(step.want, left()); diff != "" {
			t.Errorf("on day %d (-want +got):\n%s", day, diff)
		}
	}
	// A replace drops what is older than the space keeps, and nothing else.
	long.put(t, "/g", "first")
	for v := range 2 {
		long.put(t, "/g", fmt.Sprint("version ", v))
	}
	long.now = long.now.Add(40 * 24 * time.Hour)
	long.put(t, "/g", "last")
	var versions int
	err := long.db.QueryRow(t.Context(), "SELECT COUNT(*) FROM versions v JOIN nodes n ON n.id = v.node_id WHERE n.account_id = ? AND n.name = 'g'", long.who.Account).Scan(&versions)
	if err != nil || versions != 4 {
		t.Errorf("after 40 of 60 days the file has %d versions, %v", versions, err)
	}
	for _, d := range all {
		d.balance(t)
	}
}
