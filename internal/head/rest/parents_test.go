package rest_test

import (
	"net/http"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// An invisible destination folder gets the same 404 as a missing one, on every route, whether or
// not it ever existed. A visible node that cannot hold children is 409.
func TestInvisibleFolderIsNotFound(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	hidden := ann.mkdir(t, "/hidden").json(t, http.StatusCreated)["id"].(string)
	team := ann.space(t, "Design")
	ann.give(t, team["root_id"], "bob", "editor")
	secret := ann.mkdir(t, "//Design/Secret").json(t, http.StatusCreated)["id"].(string)
	ann.give(t, secret, "bob", "none")
	file := bob.put(t, "/mine/f.txt", []byte("x"))["id"].(string)
	old := bob.put(t, "/mine/old.txt", []byte("x"))["id"].(string)
	trashed := bob.mkdir(t, "/gone").json(t, http.StatusCreated)["id"].(string)
	upload := bob.post(t, "/uploads", map[string]any{"path": "/mine/u", "size": 0}).json(t, http.StatusCreated)["id"].(string)
	for _, id := range []string{old, trashed} {
		bob.send(t, "DELETE", "/nodes/"+id, nil)
	}
	missing := drive.NewID[drive.NodeID]().String()
	want := said(bob.get(t, "/nodes/"+missing), missing)

	for name, to := range map[string]func(folder string) response{
		"POST /nodes": func(id string) response {
			return bob.post(t, "/nodes", map[string]any{"type": "folder", "parent": id, "name": "n"})
		},
		"PATCH /nodes/{id}":        func(id string) response { return bob.send(t, "PATCH", "/nodes/"+file, map[string]any{"parent": id}) },
		"POST /nodes/{id}/copy":    func(id string) response { return bob.post(t, "/nodes/"+file+"/copy", map[string]any{"parent": id}) },
		"POST /nodes/{id}/restore": func(id string) response { return bob.post(t, "/nodes/"+old+"/restore", map[string]any{"parent": id}) },
		"POST /uploads": func(id string) response {
			return bob.post(t, "/uploads", map[string]any{"parent": id, "name": "n", "size": 1})
		},
		"PATCH /uploads/{id}": func(id string) response {
			return bob.send(t, "PATCH", "/uploads/"+upload, map[string]any{"parent": id})
		},
		"POST .../complete": func(id string) response {
			return bob.post(t, "/uploads/"+upload+"/complete", map[string]any{"parent": id})
		},
		"POST /operations": func(id string) response {
			return bob.post(t, "/operations", map[string]any{"kind": "move", "nodes": []string{file}, "parent": id})
		},
		"POST /collects": func(id string) response {
			return bob.post(t, "/collects", map[string]any{"folder": id, "title": "t", "expires_in": 60})
		},
		"GET /nodes/{id}/children": func(id string) response { return bob.get(t, "/nodes/"+id+"/children") },
	} {
		for what, id := range map[string]string{"of somebody else": hidden, "from which one is shut out": secret, "that never was": missing} {
			if got := said(to(id), id); got != want {
				t.Errorf("%s, to a folder %s:\n%s\nwant\n%s", name, what, got, want)
			}
		}
		if name != "POST /collects" && name != "GET /nodes/{id}/children" {
			to(trashed).problem(t, drive.ParentGone, nil)
		}
	}
}
