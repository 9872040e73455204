package rest_test

import (
	"fmt"
	"net/http"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// TestLinksOfASpace: an editor creates links to items of a space. The links end with the role and
// show nothing that is hidden from their creator.
func TestLinksOfASpace(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob, eve := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0), s.newUser(t, "eve", 0)
	team := ann.space(t, "Team")
	root := team["root_id"]
	folder := ann.mkdir(t, "//Team/out").json(t, http.StatusCreated)["id"].(string)
	file := ann.send(t, "PUT", "/files/out/f.txt?space=Team", []byte("text")).json(t, http.StatusCreated)["id"].(string)
	dark := ann.mkdir(t, "//Team/out/dark").json(t, http.StatusCreated)["id"].(string)

	ann.give(t, root, "bob", "viewer")
	bob.post(t, "/shares", map[string]any{"node": folder}).problem(t, drive.Forbidden, map[string]any{"needs": "editor"})
	bob.post(t, "/collects", map[string]any{"folder": folder, "title": "x"}).problem(t, drive.Forbidden, map[string]any{"needs": "editor"})
	ann.give(t, root, "bob", "editor")
	hides := ann.give(t, dark, "bob", "none")
	bob.post(t, "/shares", map[string]any{"node": folder}).problem(t, drive.Forbidden, nil)
	ann.take(t, hides)

	visitor, made := bob.shareOf(t, folder, nil)
	visitor = visitor.open(t, "")
	link, id := bob.collectInto(t, folder, nil)
	sender := s.sender(t, link, "kid")
	content := func() response { return visitor.get(t, "/nodes/"+file+"/content") }
	if got := content(); string(got.body) != "text" {
		t.Fatal(got)
	}
	sender.sendFile(t, "sent.txt", []byte("12345"))
	if used := ann.get(t, "/spaces/"+team["id"].(string)).json(t, http.StatusOK)["usage"].(map[string]any)["used"]; used != 9.0 {
		t.Errorf("the space has %v bytes", used)
	}
	if used := bob.get(t, "/me").json(t, http.StatusOK)["usage"].(map[string]any)["used"]; used != 0.0 {
		t.Errorf("bob has %v bytes", used)
	}

	// Their creator and the managers of the folder see and change them.
	share, collect := "/shares/"+made["id"].(string), "/collects/"+id
	for _, u := range []user{ann, bob} {
		for _, at := range []string{share, collect} {
			u.get(t, at).json(t, http.StatusOK)
		}
		for _, list := range []string{"/shares?node=" + folder, "/collects?folder=" + folder} {
			if got := u.get(t, list).items(t); len(got) != 1 {
				t.Errorf("%s of %s has %v", list, u.name, got)
			}
		}
	}
	ann.give(t, root, "eve", "editor")
	for _, at := range []string{share, collect} {
		eve.get(t, at).problem(t, drive.NotFound, nil)
		eve.send(t, "DELETE", at, nil).problem(t, drive.NotFound, nil)
	}

	// Something below becomes hidden from bob, then his role ends: the links with it.
	hides = ann.give(t, dark, "bob", "none")
	content().problem(t, drive.Gone, map[string]any{"reason": "withdrawn"})
	ann.take(t, hides)
	if got := content(); string(got.body) != "text" {
		t.Fatal(got)
	}
	ann.take(t, ann.give(t, root, "bob", "editor"))
	content().problem(t, drive.Gone, map[string]any{"reason": "withdrawn"})
	s.do(t, request{method: "GET", path: "/api/v1/public/collects/" + link}).problem(t, drive.Gone, map[string]any{"reason": "withdrawn"})
	bob.get(t, share).problem(t, drive.NotFound, nil)
	for _, at := range []string{share, collect} {
		if r := ann.send(t, "DELETE", at, nil); r.StatusCode != http.StatusNoContent {
			t.Error(r)
		}
	}
}

// TestSenderUploadResumesAfterReopening: a collect link of a space is closed while its maker
// may not make it. Housekeeping in that time ends nothing that a sender has begun, although the
// maker is a guest there, like the guests whose own uploads it ends.
func TestSenderUploadResumesAfterReopening(t *testing.T) {
	t.Parallel()
	for what, change := range map[string][2]func(t *testing.T, ann user, team map[string]any){
		"the role": {
			func(t *testing.T, ann user, team map[string]any) { ann.give(t, team["root_id"], "bob", "viewer") },
			func(t *testing.T, ann user, team map[string]any) { ann.give(t, team["root_id"], "bob", "editor") },
		},
		"the space": {
			func(t *testing.T, ann user, team map[string]any) { ann.archive(t, team, "archived") },
			func(t *testing.T, ann user, team map[string]any) { ann.archive(t, team, "active") },
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := newStack(t, uploadtest.Options{})
			ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
			team := ann.space(t, "Team")
			folder := ann.mkdir(t, "//Team/in").json(t, http.StatusCreated)["id"].(string)
			ann.give(t, team["root_id"], "bob", "editor")
			link, _ := bob.collectInto(t, folder, nil)
			kid := s.sender(t, link, "kid")
			begun := kid.post(t, "/uploads", map[string]any{"path": "/f", "size": 5, "fingerprint": "f"}).json(t, http.StatusCreated)["id"].(string)
			own := bob.post(t, "/uploads", map[string]any{"parent": folder, "name": "g", "size": 5}).json(t, http.StatusCreated)["id"].(string)
			change[0](t, ann, team)
			kid.post(t, "/uploads", map[string]any{"path": "/h", "size": 5}).problem(t, drive.Gone, map[string]any{"reason": "withdrawn"})
			if err := upload.ReclaimAllRevoked(t.Context(), s.Sessions); err != nil {
				t.Fatal(err)
			}
			change[1](t, ann, team)
			kid.send(t, "PUT", "/uploads/"+begun+"/parts/0", []byte("12345"))
			kid.post(t, "/uploads/"+begun+"/complete", nil).json(t, http.StatusCreated)
			bob.get(t, "/uploads/"+own).problem(t, drive.Gone, map[string]any{"reason": "revoked"})
		})
	}
}

// TestAGuestsUploadOutlivesTheTrash: while the folder of a guest's upload is in the trash, the
// guest cannot send and housekeeping does not end the upload. After a restore it continues.
func TestAGuestsUploadOutlivesTheTrash(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	folder := ann.mkdir(t, "/in").json(t, http.StatusCreated)["id"].(string)
	ann.give(t, folder, "bob", "editor")
	begun := bob.post(t, "/uploads", map[string]any{"parent": folder, "name": "f", "size": 5}).json(t, http.StatusCreated)["id"].(string)
	bob.send(t, "PUT", "/uploads/"+begun+"/parts/0", []byte("12345"))
	ann.send(t, "DELETE", "/nodes/"+folder, nil)
	bob.post(t, "/uploads/"+begun+"/complete", nil).problem(t, drive.NotFound, nil)
	if err := upload.ReclaimAllRevoked(t.Context(), s.Sessions); err != nil {
		t.Fatal(err)
	}
	ann.post(t, "/nodes/"+folder+"/restore", nil).json(t, http.StatusOK)
	bob.post(t, "/uploads/"+begun+"/complete", nil).json(t, http.StatusCreated)
	ended := bob.post(t, "/uploads", map[string]any{"parent": folder, "name": "g", "size": 5}).json(t, http.StatusCreated)["id"].(string)
	ann.give(t, folder, "bob", "viewer")
	if err := upload.ReclaimAllRevoked(t.Context(), s.Sessions); err != nil {
		t.Fatal(err)
	}
	ann.give(t, folder, "bob", "editor")
	bob.get(t, "/uploads/"+ended).problem(t, drive.Gone, map[string]any{"reason": "revoked"})
}

// archive sets a space to archived or active.
func (u user) archive(t *testing.T, space map[string]any, state string) {
	t.Helper()
	u.admin(t).send(t, "PATCH", "/admin/spaces/"+space["id"].(string), map[string]any{"state": state}).json(t, http.StatusOK)
}

// TestTotalsOfASpace: totals are shown to members who see the whole folder.
func TestTotalsOfASpace(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	root := ann.space(t, "Team")["root_id"]
	dark := ann.mkdir(t, "//Team/dark").json(t, http.StatusCreated)["id"].(string)
	ann.send(t, "PUT", "/files/dark/f.txt?space=Team", []byte("12345")).json(t, http.StatusCreated)
	ann.give(t, root, "bob", "viewer")
	total := fmt.Sprintf("/nodes/%v/totals", root)
	if got := bob.get(t, total).json(t, http.StatusOK)["size"]; got != 5.0 {
		t.Errorf("bob sees %v bytes", got)
	}
	ann.give(t, dark, "bob", "none")
	bob.get(t, total).problem(t, drive.Forbidden, nil)
	if got := ann.get(t, total).json(t, http.StatusOK)["size"]; got != 5.0 {
		t.Errorf("ann sees %v bytes", got)
	}
}
