package tree_test

import (
	"context"
	"fmt"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// BenchmarkFolderOf100k measures a large folder: a page by name from the middle, a page by time, by
// size and by type, and a new file under a name that is taken 100,000 times.
func BenchmarkFolderOf100k(b *testing.B) {
	g := newFixture(b, tree.Options{})
	for i := 0; i < 100_000; i += 1000 {
		g.write(b, func(ctx context.Context, tx *sqldb.Tx) error {
			for k := range 1000 {
				name := drive.Name(fmt.Sprintf("f (%d)", i+k+1))
				f, err := file(ctx, tx, tree.Place{Parent: g.root, Name: name}, drive.ByteSize(i*7919%1000))
				if err != nil {
					return err
				}
				if _, err := g.tree.PutFile(ctx, tx, g.account, f); err != nil {
					return err
				}
			}
			return nil
		})
	}
	first, err := g.tree.Children(b.Context(), g.db, g.root, tree.List{Limit: 1000})
	if err != nil {
		b.Fatal(err)
	}
	page := func(l tree.List) func(*testing.B) {
		return func(b *testing.B) {
			for b.Loop() {
				if _, err := g.tree.Children(b.Context(), g.db, g.root, l); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	b.Run("page by name", page(tree.List{Cursor: first.Next}))
	b.Run("page by time", page(tree.List{Sort: tree.SortMTime, Desc: true}))
	b.Run("page by time, folders first", page(tree.List{Sort: tree.SortMTime, Desc: true, FoldersFirst: true}))
	b.Run("page by size", page(tree.List{Sort: tree.SortSize}))
	b.Run("page by type", page(tree.List{Sort: tree.SortType}))
	b.Run("rename policy", func(b *testing.B) {
		for b.Loop() {
			if err := g.tree.CheckPlace(b.Context(), g.db, g.account, tree.Place{
				Parent: g.root, Name: "f (1)", Conflict: drive.ConflictRename,
			}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("put", func(b *testing.B) {
		g.write(b, func(ctx context.Context, tx *sqldb.Tx) error {
			for i := 0; b.Loop(); i++ {
				f, err := file(ctx, tx, tree.Place{Parent: g.root, Name: drive.Name(fmt.Sprint(b.N, "-", i))}, 1)
				if err != nil {
					return err
				}
				if _, err := g.tree.PutFile(ctx, tx, g.account, f); err != nil {
					return err
				}
			}
			return nil
		})
	})
	b.Run("measure", func(b *testing.B) {
		for b.Loop() {
			if _, err := g.tree.Extent(b.Context(), g.db, g.root); err != nil {
				b.Fatal(err)
			}
		}
	})
}
