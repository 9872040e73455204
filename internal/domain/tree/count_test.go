package tree_test

import (
	"testing"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// turned is a database that was asked what it is just before everything moved to the other engine.
type turned struct{ *sqldb.DB }

func (q turned) Dialect() sqldb.Dialect {
	if q.DB.Dialect() == sqldb.MySQL {
		return sqldb.SQLite
	}
	return sqldb.MySQL
}

// Outside of a transaction two statements may meet two engines: what is counted must not depend on
// what the first one was. (MySQL knows no LIMIT in a recursive statement: this fails there.)
func TestCountWhileTheEngineChanges(t *testing.T) {
	t.Parallel()
	g := plant(t, tree.Options{})
	for _, name := range []drive.Name{"a", "b", "c"} {
		g.put(t, g.root, name)
	}
	for limit, want := range map[int64]int64{2: 2, 100: 4, 1 << 40: 4} {
		if n, err := g.tree.Count(t.Context(), turned{g.db}, g.root, limit); err != nil || n != want {
			t.Errorf("counted %d up to %d, want %d: %v", n, limit, want, err)
		}
	}
}
