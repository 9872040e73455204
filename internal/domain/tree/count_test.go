package tree_test

import (
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// movedDB reports the dialect of the database that was used before a migration switched to another.
type movedDB struct{ *sqldb.DB }

func (q movedDB) Dialect() sqldb.Dialect {
	if q.DB.Dialect() == sqldb.MySQL {
		return sqldb.SQLite
	}
	return sqldb.MySQL
}

// TestCountDuringMigration: outside of a transaction two statements may reach different databases,
// so counting must not depend on the dialect seen first. (MySQL has no LIMIT in recursive
// statements and would fail.)
func TestCountDuringMigration(t *testing.T) {
	t.Parallel()
	g := newFixture(t, tree.Options{})
	for _, name := range []drive.Name{"a", "b", "c"} {
		g.put(t, g.root, name)
	}
	for limit, want := range map[int64]int64{2: 2, 100: 4, 1 << 40: 4} {
		if n, err := g.tree.Count(t.Context(), movedDB{g.db}, g.root, limit); err != nil || n != want {
			t.Errorf("counted %d up to %d, want %d: %v", n, limit, want, err)
		}
	}
}
