package access_test

import (
	"testing"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/lock"
	"smartdrive/internal/domain/tree"
)

// Others choose how much is shared with somebody: more than a statement takes parameters is still
// answered.
func TestMoreThanAStatementTakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 0)
	some := w.shared(t, 3)
	ids := make([]drive.NodeID, 70_000) // SQLite takes 32,766, MySQL 65,535
	copy(ids, some[:1])
	copy(ids[len(ids)/2:], some[1:2])
	copy(ids[len(ids)-1:], some[2:])
	rights, err := w.RightsOf(t.Context(), w.db, w.people[2], ids)
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := tree.ByID(t.Context(), w.tree, w.db, ids...)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range some {
		if !rights[id].Rights.Has(access.See) || nodes[id].ID != id {
			t.Errorf("%s of many: %v, %v", id, rights[id], nodes[id])
		}
	}
	if _, err := lock.On(t.Context(), w.db, drive.TimeOf(w.Now), ids); err != nil {
		t.Error(err)
	}
}
