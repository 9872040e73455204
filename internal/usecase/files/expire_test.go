package files_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// makeSpace turns the account into a space with its own retention periods, in days.
func (f *fixture) makeSpace(t *testing.T, trash, versions int) {
	t.Helper()
	a := access.New(access.Options{DB: f.db})
	f.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := a.CreateSpace(ctx, tx, access.Space{ID: f.who.Account, Root: f.root, Name: "Space " + f.who.Account.String()[28:], By: f.who.User}); err != nil {
			return err
		}
		_, err := a.ChangeSpace(ctx, tx, f.who.Account, access.SpaceChange{Settings: access.SettingsChange{TrashDays: &trash, VersionDays: &versions}})
		return err
	})
}

// TestSpaceHasOwnRetentionPeriods: a space keeps trash and old versions shorter or longer than the
// server (a day and 30 days); other accounts are not affected.
func TestSpaceHasOwnRetentionPeriods(t *testing.T) {
	t.Parallel()
	plain := newFixture(t, small)
	long, short := newFixtureAt(t, plain.db, plain.store, small), newFixtureAt(t, plain.db, plain.store, small)
	long.makeSpace(t, 10, 60)
	short.makeSpace(t, 0, 2)
	all := []*fixture{plain, long, short}
	for _, d := range all {
		if _, err := d.Trash(t.Context(), d.who, d.put(t, "/gone", "x").ID, tree.Expect{}); err != nil {
			t.Fatal(err)
		}
		for v := range 4 { // two are protected by KeepVersions
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
		want [][2]int // trash and versions per account: plain, long, short
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
	// Replacing a file only drops versions older than the space's period.
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
		d.checkInvariants(t)
	}
}
