package tree_test

import (
	"testing"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
)

// replace puts the next version of a file.
func (g *garden) replace(t tb, n tree.Node) (tree.Node, int, error) {
	t.Helper()
	placed, err := g.tryPut(t, tree.Place{Parent: n.Parent, Name: n.Name, Conflict: drive.ConflictReplace, Base: n.Version}, 0)
	return placed.Node, len(placed.Dropped), err
}

func (g *garden) oldVersions(t tb) (counted, there int) {
	t.Helper()
	err := g.db.QueryRow(t.Context(), `SELECT COALESCE((SELECT n FROM old_versions WHERE account_id = ?), 0),
		(SELECT COUNT(*) FROM versions WHERE account_id = ?) - (SELECT COUNT(*) FROM nodes WHERE account_id = ? AND type = 'file')`,
		g.account, g.account, g.account).Scan(&counted, &there)
	if err != nil {
		t.Fatal(err)
	}
	return counted, there
}

// N3: however often a file is replaced, the account has no more old versions than it may have.
// Those of the same file make room, as far as they are not among the last, which are always kept.
func TestOldVersionsHaveABudget(t *testing.T) {
	t.Parallel()
	g := plant(t, tree.Options{MaxOldVersions: 10, KeepVersions: 3})
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
	// Many files, each with no more than is always kept: then it is refused, and deleting for good
	// makes room.
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
