package files_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/domain/tree/treetest"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/usecase/files"
)

// TestTotals: the totals of a folder cover its visible descendants and are current after each
// change.
func TestTotals(t *testing.T) {
	t.Parallel()
	d := newFixture(t, files.Options{})

	d.put(t, "/a/one", "12345")
	d.put(t, "/a/b/two", "123")
	d.put(t, "/a/b/c/three", "")
	d.put(t, "/beside", "1234567890")
	wants := func(what, at string, want tree.Sum) {
		t.Helper()
		for range 2 { // the second call reads stored sums
			got, err := d.FolderSum(t.Context(), d.who, d.get(t, at).ID)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%s: %v (-want +got)\n%s", what, err, diff)
			}
		}
	}
	wants("a folder", "/a", tree.Sum{Files: 3, Folders: 2, Size: 8})
	wants("the root", "/", tree.Sum{Files: 4, Folders: 3, Size: 18})
	d.put(t, "/a/one", "1234567") // the version before does not count
	wants("after another version", "/a", tree.Sum{Files: 3, Folders: 2, Size: 10})
	if _, err := d.Trash(t.Context(), d.who, d.get(t, "/a/b").ID, tree.Expect{}); err != nil {
		t.Fatal(err)
	}
	wants("after a part has gone to the trash", "/a", tree.Sum{Files: 1, Size: 7})
	if _, err := d.FolderSum(t.Context(), d.who, d.get(t, "/beside").ID); !drive.IsKind(err, drive.BadRequest) {
		t.Errorf("a file: %v", err)
	}
	if _, err := d.FolderSum(t.Context(), drive.Who{Account: drive.NewID[drive.AccountID]()}, d.get(t, "/a").ID); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("somebody else's: %v", err)
	}
}

// TestTotalsOnAFullDisk: folders without stored sums are readable while the database refuses
// writes, with the same marks as later.
func TestTotalsOnAFullDisk(t *testing.T) {
	t.Parallel()
	var faults sqldbtest.Faults
	db := sqldbtest.OpenWith(t, sqldb.Options{Connector: faults.Connector})
	d := newFixtureAt(t, db, treetest.Store(t), files.Options{})
	d.put(t, "/a/b/one", "12345")
	d.put(t, "/a/two", "123")
	d.dropSums(t)
	id := d.get(t, "/a").ID
	tags := files.NewFolderTags(d.Files)
	look := func(what string) map[drive.NodeID]tree.ChangeTag {
		t.Helper()
		sum, err := d.FolderSum(t.Context(), d.who, id)
		if want := (tree.Sum{Files: 2, Folders: 1, Size: 8}); err != nil || sum != want {
			t.Errorf("%s: %+v, %v, want %+v", what, sum, err, want)
		}
		marks, err := tags.Folders(t.Context(), []drive.NodeID{d.root, id})
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
		return marks
	}
	faults.FailAll(sqldbtest.Commit, drive.Fail(drive.DiskFull))
	full := look("on a full disk")
	faults.Clear()
	if diff := cmp.Diff(full, look("with room again")); diff != "" {
		t.Errorf("the marks are others once there is room (-full +room)\n%s", diff)
	}
}

// TestTotalsWhileTheAccountChanges: a folder is summed although its account changes between each
// read and its transaction.
func TestTotalsWhileTheAccountChanges(t *testing.T) {
	t.Parallel()
	d := newFixture(t, files.Options{})
	d.put(t, "/a/one", "12345")
	d.put(t, "/b/0", "")
	d.dropSums(t)
	gate := sqldbtest.NewGate(d.db)
	id, n := d.get(t, "/a").ID, int64(0)
	var change func()
	change = func() {
		n++
		d.put(t, "/b/"+strconv.FormatInt(n, 10), "")
		gate.Intercept(0, change)
	}
	gate.Intercept(0, change)
	sum, err := d.FolderSum(t.Context(), d.who, id)
	gate.Open()
	if want := (tree.Sum{Files: 1, Size: 5}); err != nil || sum != want || n < 3 {
		t.Errorf("after %d changes: %+v, %v, want %+v", n, sum, err, want)
	}
}

// dropSums deletes all stored sums, as before they existed.
func (f *fixture) dropSums(t *testing.T) {
	t.Helper()
	f.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM folder_sums")
		return err
	})
}
