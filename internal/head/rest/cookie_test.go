package rest_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/rest"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// tab is a browser tab with a page of the server. Its requests have the cookie and the page's
// origin.
type tab struct {
	*stack
	cookie *http.Cookie
	header map[string]string // beside the cookie
}

const home = "http://example.com" // what httptest calls the server

func (s *stack) browse(t *testing.T, name string, header ...string) tab {
	t.Helper()
	in := request{method: "POST", path: "/api/v1/sessions", body: map[string]any{"name": name, "password": password, "cookie": true}, header: map[string]string{"Origin": home}}
	for i := 0; i+1 < len(header); i += 2 {
		in.header[header[i]] = header[i+1]
	}
	got := s.do(t, in)
	doc := got.json(t, http.StatusCreated)
	if doc["token"] != nil || strings.Contains(string(got.body), "sd_") || doc["expires_at"] == nil {
		t.Errorf("the page can read %s", got)
	}
	if user := doc["user"].(map[string]any); user["name"] != name {
		t.Errorf("the user is %v", user)
	}
	set := got.Cookies()
	if len(set) != 1 {
		t.Fatalf("the cookies are %v", set)
	}
	return tab{stack: s, cookie: set[0], header: in.header}
}

func (b tab) send(t *testing.T, method, path string, body any, header ...string) response {
	t.Helper()
	in := request{method: method, path: "/api/v1" + path, body: body, header: map[string]string{}}
	maps.Copy(in.header, b.header)
	in.header["Cookie"] = b.cookie.Name + "=" + b.cookie.Value
	for i := 0; i+1 < len(header); i += 2 {
		in.header[header[i]] = header[i+1]
	}
	return b.do(t, in)
}

func TestBrowserLoginSetsCookie(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	s.newUser(t, "ann", 0)
	b := s.browse(t, "ann")
	c := b.cookie
	if !c.HttpOnly || c.Secure || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.MaxAge <= 0 {
		t.Errorf("the cookie is %v", c)
	}
	if me := b.send(t, "GET", "/me", nil).json(t, http.StatusOK); me["user"].(map[string]any)["name"] != "ann" {
		t.Errorf("the cookie is %v's", me)
	}
	b.send(t, "POST", "/nodes", map[string]any{"path": "/a", "type": "folder"}).json(t, http.StatusCreated)
	if got := b.send(t, "GET", "/me", nil, "Authorization", "Bearer sd_wrong"); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("a wrong token with a good cookie is %s", got)
	}
	out := b.send(t, "DELETE", "/sessions/current", nil)
	if set := out.Cookies(); out.StatusCode != http.StatusNoContent || len(set) != 1 || set[0].MaxAge >= 0 || set[0].Value != "" || set[0].Path != "/" {
		t.Errorf("logging out is %s, the cookies %v", out, set)
	}
	b.send(t, "GET", "/me", nil).problem(t, drive.Unauthenticated, nil)
}

// TestPageRefusesCookieOfOtherUser logs another user in in a second tab of the browser.
func TestPageRefusesCookieOfOtherUser(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	b := s.browse(t, "ann")
	b.cookie = s.browse(t, "bob").cookie
	for _, r := range []struct {
		method, path string
		body         any
	}{
		{"POST", "/nodes", map[string]any{"path": "/a", "type": "folder"}},
		{"PUT", "/files/a.txt", "of ann"},
		{"POST", "/uploads", map[string]any{"path": "/b.txt", "size": 5}},
		{"GET", "/nodes/root/children", nil},
	} {
		b.send(t, r.method, r.path, r.body, "X-Smartdrive-User", ann.id).problem(t, drive.Unauthenticated, nil)
	}
	if got := b.send(t, "GET", "/nodes/root/children", nil, "X-Smartdrive-User", bob.id).json(t, http.StatusOK); len(got["items"].([]any)) > 0 {
		t.Errorf("bob has got %v", got)
	}
	b.send(t, "PUT", "/files/a.txt", "of bob", "X-Smartdrive-User", bob.id).json(t, http.StatusCreated)
	b.send(t, "GET", "/me", nil, "X-User", "bob@idp.example").json(t, http.StatusOK) // as oauth2-proxy has nginx set it
}

func TestTheCookieIsForTheAddressOfTheServer(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{}, func(o *rest.Options) { o.BaseURL = "https://nas.example/drive/" })
	s.newUser(t, "ann", 0)
	b := s.browse(t, "ann", "Origin", "https://nas.example") // a proxy in front, which sends another Host
	if !b.cookie.Secure || b.cookie.Path != "/drive" {
		t.Errorf("the cookie is %v", b.cookie)
	}
	b.send(t, "POST", "/nodes", map[string]any{"path": "/a", "type": "folder"}).json(t, http.StatusCreated)
	inHouse := s.browse(t, "ann", "Origin", home) // http, by the address in the house
	if inHouse.cookie.Secure {
		t.Error("a browser without TLS would not keep the cookie")
	}
}

// TestOtherSitesCannotUseTheCookie sends every request that changes something from a page of
// another origin.
func TestOtherSitesCannotUseTheCookie(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	s.newUser(t, "ann", 0)
	b := s.browse(t, "ann")
	foreign := map[string]map[string]string{
		"another site":                {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
		"another port":                {"Origin": home + ":8080", "Sec-Fetch-Site": "same-site"},
		"another port, no Sec-Fetch":  {"Origin": home + ":8080"},
		"a sandboxed page":            {"Origin": "null"},
		"a sandboxed page, Sec-Fetch": {"Origin": "null", "Sec-Fetch-Site": "cross-site"},
	}
	n := 0
	for path, methods := range s.addresses(t) {
		path = strings.TrimPrefix(path, "/api/v1")
		for _, method := range methods {
			at := fill(path, "{id}", "x", "{v}", "x", "{key}", "park/x")
			if method == http.MethodGet || s.do(t, request{method: method, path: "/api/v1" + at}).StatusCode != http.StatusUnauthorized {
				continue // it changes nothing, or asks for no login
			}
			n++
			for name, header := range foreign {
				b.header = header
				if got := b.send(t, method, at, "{}"); got.StatusCode != http.StatusForbidden {
					t.Errorf("%s: %s %s is %s", name, method, path, got)
				} else {
					got.problem(t, drive.CrossOrigin, nil)
				}
			}
		}
	}
	if n < 25 {
		t.Errorf("only %d routes were tried", n)
	}
	for name, header := range foreign {
		b.header = header
		b.send(t, "POST", "/sessions", map[string]any{"name": "ann", "password": password, "cookie": true}).problem(t, drive.CrossOrigin, nil)
		if got := b.send(t, "GET", "/me", nil); got.StatusCode != http.StatusOK {
			t.Errorf("%s: reading, which the browser keeps from the page, is %s", name, got)
		}
	}
	b.header = map[string]string{"Origin": "https://app.example", "Sec-Fetch-Site": "cross-site"}
	token := s.login(t, "ann").token
	b.send(t, "POST", "/nodes", map[string]any{"path": "/a", "type": "folder"}, "Authorization", "Bearer "+token).json(t, http.StatusCreated)
	b.header = map[string]string{"Origin": home, "Sec-Fetch-Site": "same-origin"}
	b.send(t, "POST", "/nodes", map[string]any{"path": "/b", "type": "folder"}).json(t, http.StatusCreated)
}

// A browser caches typed Basic credentials and adds them to requests of any site's page.
func TestAnotherSiteUsesNoPasswordThatABrowserKeeps(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	s.newUser(t, "ann", 0)
	for _, c := range []struct {
		method  string
		changes bool
		header  map[string]string
		refused bool
	}{
		{"POST", true, map[string]string{"Sec-Fetch-Site": "cross-site"}, true},
		{"POST", true, map[string]string{"Origin": "https://elsewhere.example.org"}, true},
		{"GET", true, map[string]string{"Sec-Fetch-Site": "cross-site"}, true},
		{"GET", false, map[string]string{"Sec-Fetch-Site": "cross-site"}, false},
		{"POST", true, map[string]string{"Origin": home}, false},
		{"POST", true, nil, false}, // a program
		{"POST", true, map[string]string{"Origin": "capacitor://localhost", "OCS-APIRequest": "true"}, false},
		{"PUT", true, map[string]string{"Origin": "https://elsewhere.example.org"}, false}, // no browser sends it without asking
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, "/ocs/v2.php/x", nil)
		r.SetBasicAuth("ann", password)
		for name, value := range c.header {
			r.Header.Set(name, value)
		}
		_, release, err := s.api.AuthenticateBasic(r, drive.HeadNextcloud, c.changes)
		if err == nil {
			release()
		}
		if drive.IsKind(err, drive.CrossOrigin) != c.refused || err != nil && !c.refused {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
