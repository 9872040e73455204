package files_test

import (
	"context"
	"fmt"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/files"
)

// TestEachChildListsRenamedChildOnce renames a child from behind the listed part to before it while
// the list is read. It must be listed once; a child that leaves the folder must not.
func TestEachChildListsRenamedChildOnce(t *testing.T) {
	t.Parallel()
	d := newFixture(t, files.Options{})
	const all = tree.MaxLimit + 10
	const atOnce = 50 // a transaction has 20 s, which a busy server needs for more
	for from := 0; from < all; from += atOnce {
		d.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			for i := from; i < min(from+atOnce, all); i++ {
				if _, err := d.tree.CreateFolder(ctx, tx, d.who.Account, tree.Place{Parent: d.root, Name: drive.Name(fmt.Sprintf("m%04d", i))}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	last := d.get(t, fmt.Sprintf("/m%04d", all-1))
	gone := d.get(t, fmt.Sprintf("/m%04d", all-2))
	seen, pages := map[drive.NodeID]string{}, 0
	err := d.EachChild(t.Context(), d.who, d.root, func(some []files.NodeView) error {
		for _, n := range some {
			if name, twice := seen[n.ID]; twice {
				t.Errorf("%s was listed as %s before", n.Name, name)
			}
			seen[n.ID] = n.Name
		}
		if pages++; pages > 1 {
			return nil
		}
		if _, err := d.Patch(t.Context(), d.who, last.ID, files.Patch{Name: "aaa"}); err != nil {
			return err
		}
		_, err := d.Patch(t.Context(), d.who, gone.ID, files.Patch{Parent: d.get(t, "/m0000").ID})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen[last.ID] != "aaa" || seen[gone.ID] != "" || len(seen) != all-1 || pages != 2 {
		t.Errorf("%d of %d in %d pages; the renamed one as %q, the one that left as %q", len(seen), all-1, pages, seen[last.ID], seen[gone.ID])
	}
}
