package rest_test

import (
	"net/http"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// Generated clients escape the slashes of a path parameter, so the path may be in the query.
func TestAFileIsStoredAtThePathOfTheQuery(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u := s.newUser(t, "ann", 0)
	made := u.send(t, "PUT", "/files?parents=true&path=%2Fa%20b%2Fc%26d.txt", []byte("hello")).json(t, http.StatusCreated)
	if made["path"] != "/a b/c&d.txt" {
		t.Errorf("the file is at %v", made["path"])
	}
	if got := u.get(t, "/nodes/"+made["id"].(string)+"/content"); string(got.body) != "hello" {
		t.Errorf("the file holds %q", got.body)
	}
	u.send(t, "PUT", "/files", []byte("x")).problem(t, drive.BadRequest, map[string]any{"field": "path"})
	u.send(t, "PUT", "/files?path=relative", []byte("x")).problem(t, drive.BadName, nil)
	u.send(t, "PUT", "/files?path=/", []byte("x")).problem(t, drive.BadName, nil)
}

// The ETag of a node is what If-Match of a change asks for.
func TestTheETagOfANodeIsForIfMatch(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u := s.newUser(t, "ann", 0)
	at := "/nodes/" + u.post(t, "/nodes", map[string]any{"type": "folder", "path": "/a"}).json(t, http.StatusCreated)["id"].(string)
	was := u.get(t, at).Header.Get("ETag")
	if was == "" {
		t.Fatal("a node has no ETag")
	}
	u.send(t, "PATCH", at, map[string]any{"name": "b"}, "If-Match", was).json(t, http.StatusOK)
	u.send(t, "PATCH", at, map[string]any{"name": "c"}, "If-Match", was).problem(t, drive.Precondition, nil)
	if now := u.get(t, at).Header.Get("ETag"); now == was {
		t.Errorf("the ETag is %s before and after a change", now)
	}
}
