package files_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/testkit/depth"
	"smartdrive/internal/usecase/files"
)

// A folder's totals are those of what can be seen below it, after each change at once, and nobody
// else's.
func TestTotals(t *testing.T) {
	t.Parallel()
	d := sit(t, files.Options{})
	totals := files.NewTotals(d.Files)
	d.put(t, "/a/one", "12345")
	d.put(t, "/a/b/two", "123")
	d.put(t, "/a/b/c/three", "")
	d.put(t, "/beside", "1234567890")
	wants := func(what, at string, want tree.Sum) {
		t.Helper()
		for range 2 { // counted, and as it is kept
			got, err := totals.Of(t.Context(), d.who, d.get(t, at).ID)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%s: %v (-want +got)\n%s", what, err, diff)
			}
		}
	}
	wants("a folder", "/a", tree.Sum{Files: 3, Folders: 2, Size: 8})
	wants("the root", "/", tree.Sum{Files: 4, Folders: 3, Size: 18})
	d.put(t, "/a/one", "1234567") // the version before does not count
	wants("after another version", "/a", tree.Sum{Files: 3, Folders: 2, Size: 10})
	if _, err := d.Trash(t.Context(), d.who, d.get(t, "/a/b").ID, 0); err != nil {
		t.Fatal(err)
	}
	wants("after a part has gone to the trash", "/a", tree.Sum{Files: 1, Size: 7})
	if _, err := totals.Of(t.Context(), d.who, d.get(t, "/beside").ID); !drive.IsKind(err, drive.BadRequest) {
		t.Errorf("a file: %v", err)
	}
	if _, err := totals.Of(t.Context(), drive.Who{Account: drive.NewID[drive.AccountID]()}, d.get(t, "/a").ID); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("somebody else's: %v", err)
	}
}

// A folder is looked at up to a limit, wherever that comes to lie.
func TestTotalsHaveALimit(t *testing.T) {
	t.Parallel()
	d := sit(t, files.Options{})
	many := depth.Pick(6, 12, 12)
	for i := range many {
		d.put(t, "/a/"+string(rune('a'+i%3))+"/"+string(rune('a'+i)), "1")
	}
	all := many + 3
	for limit := 1; limit <= all+1; limit++ {
		got, err := tree.SumBelow(t.Context(), d.db, d.get(t, "/a").ID, limit)
		if err != nil || got.More != (limit < all) || int(got.Files+got.Folders) != min(limit, all) || int64(got.Size) != got.Files {
			t.Errorf("up to %d of %d: %+v, %v", limit, all, got, err)
		}
	}
}
