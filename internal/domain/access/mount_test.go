package access_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// mountsOf returns a user's mounts with their alias; "-" for a hidden one.
func (f *fixture) mountsOf(t testing.TB, who drive.Who, hidden bool) map[drive.NodeID]string {
	t.Helper()
	list := func(after drive.NodeID, limit int) []access.Mount {
		all, err := f.ListSharedWith(t.Context(), f.db, who.User, after, limit, hidden)
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	all := list(drive.NodeID{}, 1000)
	for i, after := 0, (drive.NodeID{}); i <= len(all); { // the pages contain the same, and each but the last is full
		size := 1 + i%3
		page := list(after, size)
		if want := all[i:min(len(all), i+size)]; !cmp.Equal(page, want, cmpopts.EquateEmpty()) {
			t.Fatalf("a page of %d after %v: %v", size, after, cmp.Diff(want, page))
		}
		if i += size; len(page) > 0 {
			after = page[len(page)-1].Node
		}
	}
	have := map[drive.NodeID]string{}
	for _, m := range all {
		if have[m.Node] = m.Alias; m.Hidden {
			have[m.Node] += "-"
		}
	}
	return have
}

// TestMountIsPrivateToReceiver renames and hides mounts in all possible orders and checks that only
// the receiver sees it.
func TestMountIsPrivateToReceiver(t *testing.T) {
	t.Parallel()
	w := newFixture(t, 4, 1)
	const bob, eve = 2, 3
	owner := w.Accounts[0]
	var folder, file drive.NodeID
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		for name, id := range map[drive.Name]*drive.NodeID{"folder": &folder, "other": &file} {
			n, err := w.tree.CreateFolder(ctx, tx, owner.Account, tree.Place{Parent: owner.Root, Name: name, Conflict: drive.ConflictFail})
			if *id = n.ID; err != nil {
				return err
			}
		}
		return w.AddMember(ctx, tx, w.Groups[0], w.people[eve].User)
	})
	give := func(node drive.NodeID, kind access.Kind, to drive.PrincipalID, life time.Duration) {
		t.Helper()
		g := access.Grant{Node: node, Account: owner.Account, Kind: kind, Principal: to, Role: access.Viewer}
		if life > 0 {
			g.Expires = drive.TimeOf(w.Now.Add(life))
		}
		w.write(t, func(ctx context.Context, tx *sqldb.Tx) error { _, err := w.Access.Grant(ctx, tx, g); return err })
	}
	give(folder, access.User, drive.PrincipalID(w.people[bob].User), 0)
	give(folder, access.Group, drive.PrincipalID(w.Groups[0]), 0)
	give(file, access.User, drive.PrincipalID(w.people[bob].User), time.Hour)
	set := func(who int, node drive.NodeID, c access.MountChange) error {
		return w.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return w.SetMount(ctx, tx, w.people[who].User, node, c) })
	}
	name, none, yes, no := "mine", "", true, false
	for range 2 { // retry after a lost reply
		for _, c := range []access.MountChange{{Alias: &name}, {Hidden: &yes}} {
			if err := set(bob, folder, c); err != nil {
				t.Fatal(err)
			}
		}
	}
	see := func(what string, got, want map[drive.NodeID]string) {
		t.Helper()
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", what, d)
		}
	}
	see("bob hides one", w.mountsOf(t, w.people[bob], false), map[drive.NodeID]string{file: ""})
	see("bob asks for it", w.mountsOf(t, w.people[bob], true), map[drive.NodeID]string{folder: "mine-", file: ""})
	see("eve", w.mountsOf(t, w.people[eve], false), map[drive.NodeID]string{folder: ""})

	for _, at := range []struct {
		who  int
		node drive.NodeID
	}{{eve, file}, {1, folder}, {bob, owner.Root}, {bob, w.Accounts[2].Root}, {bob, drive.NewID[drive.NodeID]()}} {
		if err := set(at.who, at.node, access.MountChange{Hidden: &yes}); !drive.IsKind(err, drive.NotFound) {
			t.Errorf("person %d hides %s: %v", at.who, at.node, err)
		}
	}
	for _, odd := range []string{"a/b", "..", "a\u202eb", string(make([]byte, 300))} {
		if err := set(bob, folder, access.MountChange{Alias: &odd}); !drive.IsKind(err, drive.BadRequest) {
			t.Errorf("%q as a name: %v", odd, err)
		}
	}

	// An expired grant removes the mount; a new grant makes it visible again.
	w.Now = w.Now.Add(2 * time.Hour)
	if err := set(bob, file, access.MountChange{Hidden: &yes}); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("bob hides what has ended: %v", err)
	}
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, _, err := w.Access.Revoke(ctx, tx, folder, drive.PrincipalID(w.people[bob].User))
		return err
	})
	see("bob has nothing", w.mountsOf(t, w.people[bob], true), map[drive.NodeID]string{})
	give(folder, access.User, drive.PrincipalID(w.people[bob].User), 0)
	see("bob has it again", w.mountsOf(t, w.people[bob], false), map[drive.NodeID]string{folder: ""})

	// Resetting a mount deletes its row, and so does deleting the node.
	rows := func() (n int) {
		t.Helper()
		if err := w.db.QueryRow(t.Context(), `SELECT COUNT(*) FROM mounts`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, c := range []access.MountChange{{Alias: &name, Hidden: &yes}, {Alias: &none}, {Hidden: &no}} {
		if err := set(bob, folder, c); err != nil {
			t.Fatal(err)
		}
	}
	if got := rows(); got != 0 {
		t.Errorf("%d rows of mounts that are as they were", got)
	}
	if err := set(bob, folder, access.MountChange{Alias: &name}); err != nil {
		t.Fatal(err)
	}
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM nodes WHERE id = ?`, folder)
		return err
	})
	if err := w.Purge(t.Context(), w.Now); err != nil {
		t.Fatal(err)
	}
	if got := rows(); got != 0 {
		t.Errorf("%d rows of mounts of a folder that is gone", got)
	}
}

// TestTrashingInvalidatesCachedRights: trashing a folder, or one above it, invalidates cached
// grants, which apply again after it is restored.
func TestTrashingInvalidatesCachedRights(t *testing.T) {
	t.Parallel()
	w := newFixture(t, 3, 0)
	owner, bob := w.Accounts[0], w.people[2]
	up := []drive.NodeID{owner.Root}
	for _, name := range []drive.Name{"shared", "sub", "deep", "leaf"} {
		w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			n, err := w.tree.CreateFolder(ctx, tx, owner.Account, tree.Place{Parent: up[len(up)-1], Name: name, Conflict: drive.ConflictFail})
			up = append(up, n.ID)
			return err
		})
	}
	shared, leaf := up[1], up[4]
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := w.Access.Grant(ctx, tx, access.Grant{Node: shared, Account: owner.Account, Kind: access.User, Principal: drive.PrincipalID(bob.User), Role: access.Editor})
		return err
	})
	for _, folder := range up[1:] {
		for range 2 { // the second time from the cache
			if _, err := w.Enter(t.Context(), w.db, bob, leaf, access.Read); err != nil {
				t.Fatal(err)
			}
		}
		w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := w.tree.Trash(ctx, tx, owner.Account, folder, 0)
			return err
		})
		for range 2 {
			if _, err := w.Enter(t.Context(), w.db, bob, leaf, access.Restore); !drive.IsKind(err, drive.NotFound) {
				t.Errorf("with %s in the trash: %v", folder, err)
			}
		}
		w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := w.tree.Restore(ctx, tx, owner.Account, folder, tree.Restore{})
			return err
		})
	}
}
