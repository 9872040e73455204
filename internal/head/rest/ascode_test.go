package rest_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/rest"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// Stored content is not served to a page as script, style or worker, whatever its type.
// Sec-Fetch-Dest tells the purpose of a request.
func TestContentIsNotServedAsScript(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann := s.newUser(t, "ann", 0)
	made := s.do(t, request{method: "PUT", path: "/api/v1/files/evil.js", token: ann.token, body: []byte("alert(1)"), header: map[string]string{"Content-Type": "text/javascript"}})
	id := made.json(t, http.StatusCreated)["id"].(string)
	path := "/api/v1/nodes/" + id + "/content"
	for _, dest := range []string{"script", "style", "worker", "sharedworker", "serviceworker", "audioworklet", "paintworklet", "xslt", "manifest"} {
		got := s.do(t, request{method: "GET", path: path, token: ann.token, header: map[string]string{"Sec-Fetch-Dest": dest}})
		got.problem(t, drive.BadRequest, nil)
	}
	for _, dest := range []string{"", "document", "empty", "image", "audio", "video", "iframe"} {
		got := s.do(t, request{method: "GET", path: path, token: ann.token, header: map[string]string{"Sec-Fetch-Dest": dest}})
		if got.StatusCode != http.StatusOK || string(got.body) != "alert(1)" {
			t.Errorf("%q: %s", dest, got)
		}
	}
}

// A name that turns text around keeps its characters, and is saved without them.
func TestBidiControlsAreRemovedFromFilename(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann := s.newUser(t, "ann", 0)
	const name = "photo\u202egpj.exe"
	doc := s.do(t, request{method: "PUT", path: "/api/v1/files/" + url.PathEscape(name), token: ann.token, body: []byte("x")}).json(t, http.StatusCreated)
	if doc["name"] != name {
		t.Errorf("it is called %q", doc["name"])
	}
	got := s.do(t, request{method: "GET", path: "/api/v1/nodes/" + doc["id"].(string) + "/content", token: ann.token})
	if h := got.Header.Get("Content-Disposition"); h != `attachment; filename="photo_gpj.exe"; filename*=UTF-8''photo_gpj.exe` {
		t.Errorf("it is saved as %s", h)
	}
}

// Over TLS the cookie has a name prefix that keeps other sites from setting it; one without it is
// ignored.
func TestTheCookieHasAPrefixOverTLS(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]string{"https://nas.example": "__Host-smartdrive_session", "https://nas.example/drive": "__Secure-smartdrive_session"} {
		s := newStack(t, uploadtest.Options{}, func(o *rest.Options) { o.BaseURL = base })
		s.newUser(t, "ann", 0)
		b := s.browse(t, "ann", "Origin", "https://nas.example")
		if b.cookie.Name != want || !b.cookie.Secure || b.cookie.Domain != "" {
			t.Errorf("%s: the cookie is %v", base, b.cookie)
		}
		if strings.HasPrefix(want, "__Host-") && b.cookie.Path != "/" {
			t.Errorf("browsers do not take %v", b.cookie)
		}
		if me := b.send(t, "GET", "/me", nil).json(t, http.StatusOK); me["user"].(map[string]any)["name"] != "ann" {
			t.Errorf("the cookie is %v's", me)
		}
		plain := b
		plain.cookie = &http.Cookie{Name: "smartdrive_session", Value: b.cookie.Value}
		plain.overTLS(t, "/api/v1/me").problem(t, drive.Unauthenticated, nil)
		if got := b.overTLS(t, "/api/v1/me"); got.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", base, got)
		}
	}
}

// overTLS sends a GET as server.Server hands it on when it came over TLS.
func (b tab) overTLS(t *testing.T, path string) response {
	t.Helper()
	return b.do(t, request{method: "GET", path: "https://nas.example" + path, header: map[string]string{"Cookie": b.cookie.Name + "=" + b.cookie.Value}})
}
