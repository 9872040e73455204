package rest_test

import (
	"net/http"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

func TestPreferencesAreKeptAsTheyCame(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u, other := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	if got := u.get(t, "/me/preferences"); string(got.body) != "{}" {
		t.Errorf("at first they are %s", got)
	}
	for _, value := range []string{`{"language":"zh-CN","view":{"sort":"name","n":1e400}}`, `{"theme":"dark","name":"你好"}`, `{}`, `{"theme":"dark"}`} {
		if got := u.send(t, "PUT", "/me/preferences", value); got.StatusCode != http.StatusNoContent {
			t.Fatalf("%s: %s", value, got)
		}
		if got := u.get(t, "/me/preferences"); string(got.body) != value || got.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s came back as %s", value, got)
		}
	}
	for value, kind := range map[string]drive.Kind{
		`[1]`: drive.BadRequest, `{"a":1`: drive.BadRequest, `{"a":1,"a":2}`: drive.BadRequest, `null`: drive.BadRequest, ``: drive.BadRequest,
		`{"a":"` + strings.Repeat("x", 16<<10) + `"}`: drive.TooLarge,
	} {
		u.send(t, "PUT", "/me/preferences", value).problem(t, kind, nil)
	}
	if got := u.get(t, "/me/preferences"); string(got.body) != `{"theme":"dark"}` {
		t.Errorf("what was refused changed them to %s", got)
	}
	if got := other.get(t, "/me/preferences"); string(got.body) != "{}" {
		t.Errorf("another user's are %s", got)
	}
}
