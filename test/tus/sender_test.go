package tus

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
)

// sender opens a collect link into a folder and returns the drive as its sender sees it.
func (d *drive) sender(folder string, more map[string]any) *drive {
	d.t.Helper()
	var node struct{ ID string }
	d.api(http.MethodPost, "/nodes", map[string]any{"path": folder, "type": "folder"}, &node)
	in := map[string]any{"folder": node.ID, "title": "Homework"}
	maps.Copy(in, more)
	var link struct{ Token string }
	d.api(http.MethodPost, "/collects", in, &link)
	return d.opened(link.Token)
}

func (d *drive) opened(link string) *drive {
	var opened struct{ Token string }
	d.api(http.MethodPost, "/public/collects/"+link+"/open", map[string]string{"sender": "bob"}, &opened)
	u := *d
	u.token = opened.Token
	return &u
}

// Who sends by a collect link uploads by tus as by the API: into the link's folder, under a free
// name, within its limits, and sees nothing but their own uploads.
func TestSendersOfACollectLink(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	bob := d.sender("/in", map[string]any{"max_bytes": 3 * mib, "max_file": 2 * mib})
	data := noise(mib+5, 1)
	at := bob.create(with("Upload-Length", fmt.Sprint(len(data)), "Upload-Metadata", metadata("filename", "a.bin")))
	bob.patch(at, chunk(0), data[:1000], http.StatusNoContent, 1000)
	if got := bob.offset(at); got != "1000" {
		t.Errorf("offset %s", got)
	}
	bob.patch(at, chunk(1000), data[1000:], http.StatusNoContent, len(data))
	d.holds("/in/a.bin", data)
	if got := bob.offset(at); got != fmt.Sprint(len(data)) {
		t.Errorf("offset %s after the end", got)
	}
	bob.create(with("Upload-Length", "0", "Upload-Metadata", metadata("filename", "a.bin", "conflict", "replace")))
	d.holds("/in/a.bin", data)
	d.holds("/in/a%20(2).bin", nil)

	d.refusesSenders(bob, at)
	d.verifiesSenders(bob, data)
}

// refusesSenders tries what a sender may not do.
func (d *drive) refusesSenders(bob *drive, done string) {
	d.t.Helper()
	mine := d.create(with("Upload-Length", "5", "Upload-Metadata", metadata("filename", "mine")))
	partial := d.create(with("Upload-Length", "0", "Upload-Concat", "partial"))
	name := metadata("filename", "b")
	for _, c := range []struct {
		what, method, at string
		h                header
		status           int
	}{
		{"a file larger than the link takes", "POST", "/tus/", with("Upload-Length", fmt.Sprint(2*mib+1), "Upload-Metadata", name), 413},
		{"more than the link has room for", "POST", "/tus/", with("Upload-Length", fmt.Sprint(2*mib), "Upload-Metadata", name), 507},
		{"a length that is not known", "POST", "/tus/", with("Upload-Defer-Length", "1", "Upload-Metadata", name), 400},
		{"a folder", "POST", "/tus/", with("Upload-Length", "1", "Upload-Metadata", metadata("path", "/x/y")), 400},
		{"a partial upload", "POST", "/tus/", with("Upload-Length", "1", "Upload-Concat", "partial"), 400},
		{"a final upload", "POST", "/tus/", with("Upload-Concat", "final;"+partial), 400},
		{"the owner's upload", "HEAD", mine, with(), 404},
		{"the owner's upload", "DELETE", mine, with(), 404},
		{"the owner's upload", "PATCH", mine, chunk(0), 404},
		{"content", "GET", done, with(), 403},
		{"to delete what is done", "DELETE", done, with(), 403},
	} {
		if a := bob.ask(c.method, c.at, c.h, nil); a.status != c.status {
			d.t.Errorf("%s (%s): %s, want %d", c.what, c.method, a, c.status)
		}
	}
	eve := *bob
	eve.token = bob.token[:len(bob.token)-3] + "AAA"
	if a := eve.ask("POST", "/tus/", with("Upload-Length", "1", "Upload-Metadata", name), nil); a.status != http.StatusUnauthorized {
		d.t.Errorf("a token that nobody gave: %s", a)
	}
}

// verifiesSenders declares digests: a right one links nothing, though the account has the content,
// and a wrong one makes no file.
func (d *drive) verifiesSenders(bob *drive, had []byte) {
	d.t.Helper()
	right, wrong := sha256.Sum256(had), sha256.Sum256([]byte("other"))
	at := bob.create(with("Upload-Length", fmt.Sprint(len(had)), "Upload-Metadata", metadata("filename", "c", "sha256", hex.EncodeToString(right[:]))))
	if got := bob.offset(at); got != "0" {
		d.t.Errorf("what the account has is linked: offset %s", got)
	}
	bob.patch(at, chunk(0), had, http.StatusNoContent, len(had))
	d.holds("/in/c", had)
	bad := bob.create(with("Upload-Length", "5", "Upload-Metadata", metadata("filename", "d", "sha256", hex.EncodeToString(wrong[:]))))
	bob.patch(bad, chunk(0), []byte("hello"), http.StatusUnprocessableEntity, -1)
}

// A browser that is logged in uploads with its cookie; what another site's page makes it send is
// refused.
func TestCookieOfABrowser(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	login := d.ask("POST", "/api/v1/sessions", header{"Authorization": "", "Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"},
		strings.NewReader(fmt.Sprintf(`{"name":"admin","password":%q,"cookie":true}`, password)))
	cookie, _, _ := strings.Cut(login.header.Get("Set-Cookie"), ";")
	if login.status/100 != 2 || cookie == "" {
		t.Fatalf("login: %s, %v", login, login.header)
	}
	own := func(more ...string) header {
		return with(append([]string{"Authorization", "", "Cookie", cookie, "Sec-Fetch-Site", "same-origin", "Origin", d.url}, more...)...)
	}
	at := d.create(own("Upload-Length", "5", "Upload-Metadata", metadata("filename", "a")))
	for _, foreign := range []header{
		own("Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"),
		own("Sec-Fetch-Site", "", "Origin", "https://evil.example"),
		own("Sec-Fetch-Site", "same-site", "Origin", "https://sub.evil.example"),
	} {
		for _, c := range []struct{ method, at, override string }{
			{"POST", "/tus/", ""}, {"PATCH", at, ""}, {"DELETE", at, ""}, {"POST", at, "PATCH"}, {"POST", at, "DELETE"}, {"GET", at, "DELETE"},
		} {
			h := header{"Upload-Length": "5", "Upload-Offset": "0", "Content-Type": "application/offset+octet-stream", "X-HTTP-Method-Override": c.override}
			maps.Copy(h, foreign)
			if a := d.ask(c.method, c.at, h, strings.NewReader("hello")); a.status != http.StatusForbidden || !strings.Contains(a.body, "cross-origin") {
				t.Errorf("%s %s of %s: %s", c.method, c.override, foreign["Sec-Fetch-Site"], a)
			}
		}
	}
	if a := d.ask("PATCH", at, own("Upload-Offset", "0", "Content-Type", "application/offset+octet-stream"), strings.NewReader("hello")); a.status != http.StatusNoContent {
		t.Errorf("PATCH with the cookie: %s", a)
	}
	d.holds("/a", []byte("hello"))
}
