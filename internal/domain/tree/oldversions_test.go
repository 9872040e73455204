package tree_test

import (
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
)

// replace adds a version to a file.
func (f *fixture) replace(t tb, n tree.Node) (tree.Node, int, error) {
	t.Helper()
	placed, err := f.tryPut(t, tree.Place{Parent: n.Parent, Name: n.Name, Conflict: drive.ConflictReplace, Base: n.Version}, 0)
	return placed.Node, len(placed.Dropped), err
}

func (f *fixture) oldVersions(t tb) (counted, there int) {
	t.Helper()
	err := f.db.QueryRow(t.Context(), `SELECT COALESCE((SELECT n FROM old_versions WHERE account_id = ?), 0),
		(SELECT COUNT(*) FROM versions WHERE account_id = ?) - (SELECT COUNT(*) FROM nodes WHERE account_id = ? AND type = 'file')`,
		f.account, f.account, f.account).Scan(&counted, &there)
	if err != nil {
		t.Fatal(err)
	}
	return counted, there
}

// TestOldVersionsAreLimited (N3): however often files are replaced, the account stays within its
// limit of old versions. Unprotected versions of the same file are dropped first.
func TestOldVersionsAreLimited(t *testing.T) {
	t.Parallel()
	g := newFixture(t, tree.Options{MaxOldVersions: 10, KeepVersions: 3})
	n := g.put(t, g.root, "log")
	dropped := 0
	for range 30 {
		var gone int
		var err error
		if n, gone, err = g.replace(t, n); err != nil {
			t.Fatal(err)
		}
		dropped += gone
		if counted, there := g.oldVersions(t); counted != there || there > 10 {
			t.Fatalf("%d old versions are counted, there are %d", counted, there)
		}
	}
	if _, there := g.oldVersions(t); dropped+there != 30 {
		t.Errorf("%d dropped, %d there", dropped, there)
	}
	// With only protected versions a replace is refused; permanent deletion makes room.
	var refused error
	var last tree.Node
	for i := 0; refused == nil && i < 20; i++ {
		last = g.put(t, g.root, drive.Name("f"+string(rune('a'+i))))
		for v := 0; v < 2 && refused == nil; v++ {
			last, _, refused = g.replace(t, last)
		}
	}
	if !drive.IsKind(refused, drive.TooLarge) {
		t.Fatalf("got %v, want too-large", refused)
	}
	if counted, there := g.oldVersions(t); counted != there || there != 10 {
		t.Errorf("%d old versions are counted, there are %d", counted, there)
	}
}
