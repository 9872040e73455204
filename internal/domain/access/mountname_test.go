package access_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// shareFolders creates folders of the first user and gives bob, the third, a role at each.
func (f *fixture) shareFolders(t *testing.T, n int) (nodes []drive.NodeID) {
	t.Helper()
	owner, bob := f.Accounts[0], drive.PrincipalID(f.people[2].User)
	f.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		nodes = nil
		for i := range n {
			at := tree.Place{Parent: owner.Root, Name: drive.Name(fmt.Sprint("folder ", i)), Conflict: drive.ConflictFail}
			folder, err := f.tree.CreateFolder(ctx, tx, owner.Account, at)
			if err != nil {
				return err
			}
			nodes = append(nodes, folder.ID)
			if _, err := f.Access.Grant(ctx, tx, access.Grant{Node: folder.ID, Account: owner.Account, Kind: access.User, Principal: bob, Role: access.Viewer}); err != nil {
				return err
			}
		}
		return nil
	})
	return nodes
}

// storeNames is StoreMountNames for bob.
func (f *fixture) storeNames(t *testing.T, names ...access.MountName) (kept bool) {
	t.Helper()
	f.write(t, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		kept, err = f.StoreMountNames(ctx, tx, f.people[2].User, names)
		return err
	})
	return kept
}

func (f *fixture) storedNames(t *testing.T) map[drive.NodeID]string {
	t.Helper()
	names, err := f.MountNames(t.Context(), f.db, f.people[2].User)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestMountNameIsStored: a name is stored by a compare-and-set and stays whatever bob changes about
// the mount.
func TestMountNameIsStored(t *testing.T) {
	t.Parallel()
	w := newFixture(t, 3, 0)
	nodes := w.shareFolders(t, 2)
	bob := w.people[2].User
	for range 2 { // retry after a lost reply
		if !w.storeNames(t, access.MountName{Node: nodes[0], Name: "a"}, access.MountName{Node: nodes[1], Name: "b"}, access.MountName{Node: w.Accounts[1].Root, Name: "c"}) {
			t.Fatal("the first names are not kept")
		}
	}
	want := map[drive.NodeID]string{nodes[0]: "a", nodes[1]: "b"}
	if d := cmp.Diff(want, w.storedNames(t)); d != "" {
		t.Error(d)
	}
	if w.storeNames(t, access.MountName{Node: nodes[0], Name: "other"}) || w.storeNames(t, access.MountName{Node: nodes[0], OldName: "before", Name: "other"}) {
		t.Error("a name is kept in the place of one that was not read")
	}
	alias, none, hidden, seen := "mine", "", true, false
	for _, c := range []access.MountChange{{Alias: &alias}, {Hidden: &hidden}, {Alias: &none}, {Hidden: &seen}} {
		w.write(t, func(ctx context.Context, tx *sqldb.Tx) error { return w.SetMount(ctx, tx, bob, nodes[0], c) })
	}
	if d := cmp.Diff(want, w.storedNames(t)); d != "" {
		t.Errorf("hidden, called otherwise, and back: %s", d)
	}
	if !w.storeNames(t, access.MountName{Node: nodes[0], OldName: "a"}, access.MountName{Node: nodes[1], OldName: "b", Name: "d"}) {
		t.Error("names do not change")
	}
	if d := cmp.Diff(map[drive.NodeID]string{nodes[1]: "d"}, w.storedNames(t)); d != "" {
		t.Error(d)
	}
	var rows int
	if err := w.db.QueryRow(t.Context(), `SELECT COUNT(*) FROM mounts`).Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d rows, %v", rows, err)
	}
}

// TestConcurrentMountInserts: two concurrent requests that name or hide the same mounts both
// succeed.
func TestConcurrentMountInserts(t *testing.T) {
	t.Parallel()
	w := newFixture(t, 3, 0)
	hidden := true
	for _, node := range w.shareFolders(t, 5) {
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				err := w.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
					if i%2 == 0 {
						return w.SetMount(ctx, tx, w.people[2].User, node, access.MountChange{Hidden: &hidden})
					}
					kept, err := w.StoreMountNames(ctx, tx, w.people[2].User, []access.MountName{{Node: node, Name: "a"}})
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
	if got := w.storedNames(t); len(got) != 5 {
		t.Errorf("%d names", len(got))
	}
	if got := w.mountsOf(t, w.people[2], false); len(got) != 0 {
		t.Errorf("%d are not hidden", len(got))
	}
}
