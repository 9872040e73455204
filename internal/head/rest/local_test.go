package rest_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"example.org/smartdrive/internal/usecase/admin"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// TestTheLocalSocketNeedsNoToken sends the requests of the admin commands, with the idempotency key
// that the client library always sends.
func TestTheLocalSocketNeedsNoToken(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	mux := http.NewServeMux()
	s.api.Local(admin.Local()).Register(mux)
	do := func(method, path, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), method, "/api/v1"+path, strings.NewReader(body))
		r.RemoteAddr = "@"
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", "k1")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		return w
	}
	if got := do("POST", "/admin/users", `{"name":"ann","password":"correct horse"}`); got.Code != http.StatusCreated {
		t.Fatalf("make a user: %d %s", got.Code, got.Body)
	}
	if again := do("POST", "/admin/users", `{"name":"ann","password":"correct horse"}`); again.Code != http.StatusCreated {
		t.Errorf("again: %d %s", again.Code, again.Body)
	}
	s.login(t, "ann")
	if got := do("GET", "/admin/users", ""); got.Code != http.StatusOK || !strings.Contains(got.Body.String(), `"ann"`) {
		t.Errorf("list them: %d %s", got.Code, got.Body)
	}
}
