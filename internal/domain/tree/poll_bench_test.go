package tree_test

import (
	"context"
	"fmt"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// BenchmarkPollOfAMillion measures a polling client with a million nodes, 100 files in each of
// 10,000 folders, one of which changes before each poll:
//
//	go test ./internal/domain/tree -run XXX -bench PollOfAMillion -benchtime 50x
func BenchmarkPollOfAMillion(b *testing.B) {
	const folders, each = 10_000, 100
	g := newFixture(b, tree.Options{MaxNodes: 2_000_000})
	f, err := drive.ParsePath("/a/b/c/d")
	if err != nil {
		b.Fatal(err)
	}
	var deep tree.Node
	g.write(b, func(ctx context.Context, tx *sqldb.Tx) error {
		if deep, err = g.tree.EnsureFolders(ctx, tx, g.account, f); err != nil {
			return err
		}
		_, err := file(ctx, tx, tree.Place{}, 1)
		return err
	})
	numbers := fmt.Sprintf("WITH RECURSIVE i (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < %d)", folders)
	for _, query := range []string{
		numbers + ` INSERT INTO nodes (id, account_id, parent_id, name, name_fold, slot, type, mtime, rev, seq, created_at, updated_at)
			SELECT printf('01a00000-0000-7000-8000-%012x', n), ?1, ?2, 'd' || n, 'd' || n, 'd' || n, 'folder', 0, 1, n, 0, 0 FROM i`,
		numbers + fmt.Sprintf(`, k (m) AS (SELECT 1 UNION ALL SELECT m + 1 FROM k WHERE m < %d)
			INSERT INTO nodes (id, account_id, parent_id, name, name_fold, slot, type, version_id, mtime, rev, seq, created_at, updated_at)
			SELECT printf('01a00000-0000-7000-9%%03x-%%012x', m, n), ?1, printf('01a00000-0000-7000-8000-%%012x', n), 'f' || m, 'f' || m, 'f' || m, 'file',
			printf('01a00000-0000-7000-a%%03x-%%012x', m, n), 0, 1, n * 100 + m, 0, 0 FROM i, k WHERE ?2 <> ''`, each),
		`INSERT INTO versions (id, node_id, account_id, blob_id, size, mtime, mime, created_at, created_by)
			SELECT version_id, id, account_id, (SELECT id FROM blobs LIMIT 1), 100, 0, 'text/plain', 0, '' FROM nodes WHERE type = 'file' AND account_id = ?1 AND ?2 <> ''`,
		`UPDATE trees SET seq = 2000000, node_count = (SELECT COUNT(*) FROM nodes) WHERE account_id = ?1 AND ?2 <> ''`,
		`DELETE FROM folder_sums WHERE ?1 <> '' AND ?2 <> ''`,
	} {
		g.write(b, func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, query, g.account, g.root)
			return err
		})
	}
	b.Run("added up for the first time", func(b *testing.B) {
		for range b.N {
			g.write(b, func(ctx context.Context, tx *sqldb.Tx) error {
				_, err := tx.Exec(ctx, "DELETE FROM folder_sums")
				return err
			})
			g.computeSums(b, g.root)
		}
	})
	b.Run("poll after a change", func(b *testing.B) {
		for i := range b.N {
			b.StopTimer()
			g.put(b, deep.ID, drive.Name(fmt.Sprint("poll ", b.N, i)))
			b.StartTimer()
			if sums, err := tree.Sums(b.Context(), g.db, []drive.NodeID{g.root}); err != nil || !sums[g.root].Known {
				b.Fatal(sums, err)
			}
		}
	})
	b.Run("change", func(b *testing.B) {
		for i := range b.N {
			g.put(b, deep.ID, drive.Name(fmt.Sprint("change ", b.N, i)))
		}
	})
}
