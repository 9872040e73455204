package rest_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"example.org/smartdrive/client"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// TestTheClientSharesByName goes through the public client's part about spaces, groups and roles.
func TestTheClientSharesByName(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	ctx := t.Context()
	root, her, his := s.connect(t, s.admin(t)), s.connect(t, ann), s.connect(t, bob)
	admins, hers, his2 := client.NewSharing(root), client.NewSharing(her), client.NewSharing(his)
	found := must[[]client.Principal](t)(admins.FindPrincipals(ctx, "an"))
	if len(found) != 1 || found[0].Name != "ann" {
		t.Fatalf("found %v", found)
	}
	team := must[client.Space](t)(admins.CreateSpace(ctx, client.NewSpace{Name: "Design", Manager: found[0].ID}))
	group := must[client.Group](t)(admins.CreateGroup(ctx, "Staff"))
	me := must[client.Me](t)(his.Me(ctx))
	if err := admins.AddMember(ctx, group.ID, me.User.ID); err != nil {
		t.Fatal(err)
	}
	for p, err := range admins.AllMembers(ctx, group.ID) {
		if err != nil || p.Name != "bob" {
			t.Errorf("%v, %v", p, err)
		}
	}
	g := must[client.Grant](t)(hers.Grant(ctx, team.RootID, client.NewGrant{Kind: "group", Principal: "staff", Role: "editor"}))
	folder, made, err := his.MakeFolder(ctx, "//design/Plans")
	if err != nil || !made || folder.Path != "//Design/Plans" {
		t.Fatalf("%v, %v, %v", folder, made, err)
	}
	if _, made, err := his.MakeFolder(ctx, "//Design"); err != nil || made {
		t.Errorf("the top of a space is made: %v, %v", made, err)
	}
	n := must[client.Node](t)(his.PutFile(ctx, client.PutFile{
		Path: "//Design/Plans/a b.txt", Size: 5, Body: func() (io.Reader, error) { return bytes.NewReader([]byte("hello")), nil },
	}))
	if n.Path != "//Design/Plans/a b.txt" {
		t.Errorf("the file is at %s", n.Path)
	}
	if err := his.DeleteNode(ctx, n.ID, false); err != nil {
		t.Fatal(err)
	}
	for n, err := range hers.AllTrash(ctx, "Design") {
		if err != nil || n.Name != "a b.txt" {
			t.Errorf("%v, %v", n, err)
		}
	}
	if err := hers.EmptyTrash(ctx, "Design"); err != nil {
		t.Error(err)
	}
	access := must[client.Access](t)(his2.Access(ctx, folder.ID))
	if access.Role != "editor" || len(access.Grants) != 2 || access.Grants[0].Level != 1 {
		t.Errorf("access %+v", access)
	}
	if all := must[[]client.Space](t)(his2.Spaces(ctx)); len(all) != 1 || all[0].Role != "editor" {
		t.Errorf("spaces %+v", all)
	}
	must[client.Space](t)(hers.ChangeSpace(ctx, team.ID, client.SpaceChange{Name: "Studio"}))
	own, _, err := her.MakeFolder(ctx, "/Own")
	if err != nil {
		t.Fatal(err)
	}
	must[client.Grant](t)(hers.Grant(ctx, own.ID, client.NewGrant{Kind: "user", Principal: "bob", Role: "viewer", ExpiresIn: 3600}))
	for _, list := range []func() (string, error){
		func() (name string, err error) {
			for it, failed := range his2.AllSharedWithMe(ctx) {
				name, err = it.Node.Name, failed
			}
			return name, err
		},
		func() (name string, err error) {
			for it, failed := range hers.AllSharedByMe(ctx) {
				name, err = it.Node.Name, failed
			}
			return name, err
		},
	} {
		if name, err := list(); err != nil || name != "Own" {
			t.Errorf("shared %q, %v", name, err)
		}
	}
	if err := hers.Ungrant(ctx, team.RootID, g.PrincipalID); err != nil {
		t.Fatal(err)
	}
	if _, err := his.NodeAt(ctx, "//Studio/Plans"); !client.IsCode(err, client.CodeNotFound) {
		t.Errorf("after the role is gone: %v", err)
	}
	must[client.Space](t)(admins.AdminChangeSpace(ctx, team.ID, client.SpaceChange{State: "archived"}))
	for _, end := range []error{admins.RemoveMember(ctx, group.ID, me.User.ID), admins.DeleteGroup(ctx, group.ID), admins.DeleteSpace(ctx, team.ID)} {
		if end != nil {
			t.Error(end)
		}
	}
	if got := ann.look(t, "//Studio"); got != http.StatusNotFound {
		t.Errorf("deleted: %d", got)
	}
}
