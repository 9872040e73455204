package rest_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// TestAdminChosenPasswordMustBeChanged: a login with such a password can only set a new one.
func TestAdminChosenPasswordMustBeChanged(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	root := s.admin(t)
	made := root.post(t, "/admin/users", map[string]any{"name": "ann", "password": password, "must_change_password": true}).json(t, http.StatusCreated)
	if made["must_change_password"] != true || made["last_login_at"] != nil {
		t.Errorf("made %v", made)
	}
	in := root.post(t, "/sessions", map[string]any{"name": "ann", "password": password}).json(t, http.StatusCreated)
	if in["must_change_password"] != true {
		t.Errorf("logged in: %v", in)
	}
	ann := user{stack: s, token: in["token"].(string)}
	if me := ann.get(t, "/me").json(t, http.StatusOK)["user"].(map[string]any); me["must_change_password"] != true {
		t.Errorf("me: %v", me)
	}
	for _, path := range []string{"/nodes/root", "/sessions", "/uploads", "/admin/users"} {
		ann.get(t, path).problem(t, drive.Forbidden, map[string]any{"reason": "new-password"})
	}
	ann.send(t, "PUT", "/files/a.txt", []byte("a")).problem(t, drive.Forbidden, map[string]any{"reason": "new-password"})
	ann.post(t, "/tokens", map[string]any{"name": "t", "scopes": []string{"read"}}).problem(t, drive.Forbidden, map[string]any{"reason": "new-password"})
	change := func(current, next string) response {
		return ann.send(t, "PUT", "/me/password", map[string]any{"current": current, "password": next})
	}
	change(password, password).problem(t, drive.BadRequest, map[string]any{"field": "password"})
	change("not the password", "another horse").problem(t, drive.Forbidden, map[string]any{"reason": "password"})
	if r := change(password, "another horse"); r.StatusCode != http.StatusNoContent {
		t.Fatal(r)
	}
	// The same login then works without limits.
	ann.get(t, "/nodes/root").json(t, http.StatusOK)
	if me := ann.get(t, "/me").json(t, http.StatusOK)["user"].(map[string]any); me["must_change_password"] != nil {
		t.Errorf("me: %v", me)
	}
	listed := root.get(t, "/admin/users?name=ann").items(t)[0]
	if listed["must_change_password"] != false || listed["last_login_at"] == nil {
		t.Errorf("listed %v", listed)
	}

	// What a token does is not a login.
	seen := listed["last_login_at"]
	s.Clock.Advance(2 * time.Hour)
	token := ann.post(t, "/tokens", map[string]any{"name": "t", "scopes": []string{"read"}}).json(t, http.StatusCreated)["token"]
	user{stack: s, token: token.(string)}.get(t, "/nodes/root").json(t, http.StatusOK)
	if now := root.get(t, "/admin/users?name=ann").items(t)[0]["last_login_at"]; now != seen {
		t.Errorf("a token was used: the last login was %v, is %v", seen, now)
	}

	// An administrator sets one again: the login ends, and the next one is asked.
	one := fmt.Sprintf("/admin/users/%v", made["id"])
	root.send(t, "PATCH", one, map[string]any{"must_change_password": true}).problem(t, drive.BadRequest, map[string]any{"field": "password"})
	root.send(t, "PATCH", one, map[string]any{"password": "given by mail", "must_change_password": true}).json(t, http.StatusOK)
	ann.get(t, "/me").problem(t, drive.Unauthenticated, nil)
	in = root.post(t, "/sessions", map[string]any{"name": "ann", "password": "given by mail"}).json(t, http.StatusCreated)
	if in["must_change_password"] != true {
		t.Errorf("logged in again: %v", in)
	}
	// Without the flag no change is required.
	root.send(t, "PATCH", one, map[string]any{"password": "given on paper"}).json(t, http.StatusOK)
	in = root.post(t, "/sessions", map[string]any{"name": "ann", "password": "given on paper"}).json(t, http.StatusCreated)
	if in["must_change_password"] != nil {
		t.Errorf("logged in at last: %v", in)
	}
}
