package rest_test

import (
	"net/http"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// tokenOf creates a token with scopes and returns its user and its id.
func (u user) tokenOf(t testing.TB, scopes ...string) (user, string) {
	t.Helper()
	made := u.post(t, "/tokens", map[string]any{"name": "robot", "scopes": scopes}).json(t, http.StatusCreated)
	return user{stack: u.stack, name: u.name, token: made["token"].(string)}, made["id"].(string)
}

// The token of a file request allows uploads, so a user who may only read does not see it.
func TestReaderDoesNotSeeWriteToken(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	link, id := u.collectInto(t, u.folder(t, "/in"), nil)
	reader, _ := u.tokenOf(t, "read")
	writer, _ := u.tokenOf(t, "read", "write")
	for _, path := range []string{"/collects", "/collects/" + id} {
		for who, want := range map[user]any{reader: nil, writer: link, u: link} {
			view := who.send(t, "GET", path, nil).json(t, http.StatusOK)
			if items, ok := view["items"].([]any); ok {
				view = items[0].(map[string]any)
			}
			if view["token"] != want || (view["url"] != nil) != (want != nil) {
				t.Errorf("%s shows the token %v with %v", path, view["token"], view["url"])
			}
		}
	}
}

// A signed link ends with the token that made it.
func TestALinkDoesNotOutliveItsToken(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u := s.newUser(t, "ann", 0)
	file := u.put(t, "/f", []byte("text"))["id"].(string)
	robot, id := u.tokenOf(t, "read", "write")
	link := func(by user) string {
		made := by.post(t, "/nodes/"+file+"/links", map[string]any{"expires_in": 60}).json(t, http.StatusCreated)
		return strings.TrimPrefix(made["url"].(string), "http://example.com")
	}
	mine, its := link(u), link(robot)
	for _, url := range []string{mine, its} {
		if got := s.do(t, request{method: "GET", path: url}); got.StatusCode != http.StatusOK {
			t.Errorf("a fresh link: %d", got.StatusCode)
		}
	}
	u.send(t, "DELETE", "/tokens/"+id, nil)
	s.do(t, request{method: "GET", path: its}).problem(t, drive.Gone, map[string]any{"reason": "link-void"})
	if got := s.do(t, request{method: "GET", path: mine}); got.StatusCode != http.StatusOK {
		t.Errorf("somebody else's link: %d", got.StatusCode)
	}
}
