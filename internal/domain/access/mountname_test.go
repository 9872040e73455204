package access_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// shared makes folders of the first person and gives bob, the third, a role at each.
func (w *world) shared(t *testing.T, n int) (nodes []drive.NodeID) {
	t.Helper()
	owner, bob := w.Rooms[0], drive.PrincipalID(w.people[2].User)
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		nodes = nil
		for i := range n {
			at := tree.Place{Parent: owner.Root, Name: drive.Name(fmt.Sprint("folder ", i)), Conflict: drive.ConflictFail}
			f, err := w.tree.CreateFolder(ctx, tx, owner.Account, at)
			if err != nil {
				return err
			}
			nodes = append(nodes, f.ID)
			if _, err := w.Set(ctx, tx, access.Grant{Node: f.ID, Account: owner.Account, Kind: access.User, Principal: bob, Role: access.Viewer}); err != nil {
				return err
			}
		}
		return nil
	})
	return nodes
}

// keep is KeepNames for bob.
func (w *world) keep(t *testing.T, names ...access.KeptName) (kept bool) {
	t.Helper()
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		kept, err = w.KeepNames(ctx, tx, w.people[2].User, names)
		return err
	})
	return kept
}

func (w *world) named(t *testing.T) map[drive.NodeID]string {
	t.Helper()
	names, err := w.Names(t.Context(), w.db, w.people[2].User)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// A name is kept once, from what was read, and stays whatever bob makes of the mount.
func TestANameIsKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 0)
	nodes := w.shared(t, 2)
	bob := w.people[2].User
	for range 2 { // the reply was lost
		if !w.keep(t, access.KeptName{Node: nodes[0], Name: "a"}, access.KeptName{Node: nodes[1], Name: "b"}, access.KeptName{Node: w.Rooms[1].Root, Name: "c"}) {
			t.Fatal("the first names are not kept")
		}
	}
	want := map[drive.NodeID]string{nodes[0]: "a", nodes[1]: "b"}
	if d := cmp.Diff(want, w.named(t)); d != "" {
		t.Error(d)
	}
	if w.keep(t, access.KeptName{Node: nodes[0], Name: "other"}) || w.keep(t, access.KeptName{Node: nodes[0], Was: "before", Name: "other"}) {
		t.Error("a name is kept in the place of one that was not read")
	}
	alias, none, hidden, seen := "mine", "", true, false
	for _, c := range []access.MountChange{{Alias: &alias}, {Hidden: &hidden}, {Alias: &none}, {Hidden: &seen}} {
		w.write(t, func(ctx context.Context, tx *sqldb.Tx) error { return w.SetMount(ctx, tx, bob, nodes[0], c) })
	}
	if d := cmp.Diff(want, w.named(t)); d != "" {
		t.Errorf("hidden, called otherwise, and back: %s", d)
	}
	if !w.keep(t, access.KeptName{Node: nodes[0], Was: "a"}, access.KeptName{Node: nodes[1], Was: "b", Name: "d"}) {
		t.Error("names do not change")
	}
	if d := cmp.Diff(map[drive.NodeID]string{nodes[1]: "d"}, w.named(t)); d != "" {
		t.Error(d)
	}
	var rows int
	if err := w.db.QueryRow(t.Context(), `SELECT COUNT(*) FROM mounts`).Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d rows, %v", rows, err)
	}
}

// Two requests that name the same mounts, or hide them, at once are both done.
func TestMountsAreMadeAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 0)
	hidden := true
	for _, node := range w.shared(t, 5) {
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				err := w.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
					if i%2 == 0 {
						return w.SetMount(ctx, tx, w.people[2].User, node, access.MountChange{Hidden: &hidden})
					}
					kept, err := w.KeepNames(ctx, tx, w.people[2].User, []access.KeptName{{Node: node, Name: "a"}})
					if err == nil && !kept {
						t.Error("the name that another one has kept is another one")
					}
					return err
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	if got := w.named(t); len(got) != 5 {
		t.Errorf("%d names", len(got))
	}
	if got := w.mounts(t, w.people[2], false); len(got) != 0 {
		t.Errorf("%d are not hidden", len(got))
	}
}
