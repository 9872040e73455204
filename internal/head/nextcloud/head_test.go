package nextcloud_test

import (
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/head/dav/davtest"
	"example.org/smartdrive/internal/usecase/files"
)

const home = "/remote.php/dav/files/ann/"

func TestWhatClientsAskFirst(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.Do(t, "GET /status.php").Want(t, 200).Has(t, `"installed":true`, `"productname":"SmartDrive"`)
	s.Do(t, "GET /index.php/204").Want(t, 204)
	s.Do(t, "GET /ocs/v1.php/cloud/capabilities?format=json").Want(t, 200).Has(t, `"statuscode":100`, `"chunking":"1.0"`)
	s.Do(t, "GET /ocs/v2.php/cloud/user?format=json").Want(t, 200).Has(t, `"statuscode":200`, `"id":"ann"`, fmt.Sprintf(`"quota":{"free":%d,`, drive.GiB))
	s.Do(t, "GET /ocs/v1.php/cloud/user").Want(t, 200).Has(t, "<id>ann</id>", "<statuscode>100</statuscode>")
	s.Do(t, "GET /ocs/v2.php/cloud/users/bob?format=json").Want(t, 404)
	s.Do(t, "GET /ocs/v1.php/apps/nothing?format=json").Want(t, 200).Has(t, `"statuscode":998`)
	s.Do(t, "GET /ocs/v2.php/apps/notifications/api/v2/notifications?format=json").Want(t, 200).Has(t, `"data":[]`)
	out := s.Do(t, "GET /ocs/v2.php/cloud/user?format=json", "Authorization: Basic Ym9iOng=").Want(t, 401)
	if !strings.HasPrefix(out.Header.Get("Www-Authenticate"), "Basic") {
		t.Errorf("%v", out.Header)
	}
	s.Do(t, "PROPFIND /remote.php/dav/files/bob/", "Depth: 0").Want(t, 404) // somebody else's
	s.Do(t, "PROPFIND //remote.php/dav/files/ANN", "Depth: 0").Want(t, 400) // nothing begins with two slashes
	s.Do(t, "PROPFIND /remote.php//dav/files/ANN", "Depth: 0").Want(t, 207)
	s.Do(t, "PROPFIND /remote.php/webdav/", "Depth: 0").Want(t, 207).Has(t, "<d:href>/remote.php/webdav/</d:href>")
	begun := s.Do(t, "POST /index.php/login/v2").Want(t, 200)
	s.Do(t, "POST /index.php/login/v2/poll", "Content-Type: application/x-www-form-urlencoded", "", "token="+begun.Between(t, `"token":"`, `"`)).Want(t, 404)
	if got := s.Do(t, "GET /index.php/login/flow").Want(t, 303).Header.Get("Location"); got != "https://drive.example.org/grant" {
		t.Errorf("%q", got)
	}
}

// A name with an ampersand in the path is escaped in the XML reply.
func TestANameWithAnAmpersand(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.CreateUser(t, "r&d")
	login := "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("r&d:x"))
	for _, address := range []string{"/remote.php/dav/files/r&d/", "/remote.php/dav/files/r%26d/"} {
		s.Do(t, "MKCOL "+address+"a%26b", login)
		got := s.Do(t, "PROPFIND "+address, "Depth: 1", login).Want(t, 207).Has(t, "<d:href>/remote.php/dav/files/r%26d/a%26b/</d:href>")
		if err := xml.Unmarshal([]byte(got.Body), new(struct{})); err != nil {
			t.Errorf("%v: %s", err, got.Body)
		}
	}
}

const ask = `<d:propfind xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns" xmlns:nc="http://nextcloud.org/ns"><d:prop>` +
	`<d:getetag/><oc:id/><oc:fileid/><oc:permissions/><oc:size/></d:prop></d:propfind>`

func (s *stack) find(t testing.TB, path string) davtest.Response {
	t.Helper()
	return s.Do(t, "PROPFIND "+path, "Depth: 0", "", ask).Want(t, 207)
}

func (s *stack) tag(t testing.TB, path string) string {
	t.Helper()
	return s.find(t, path).Between(t, "<d:getetag>", "</d:getetag>")
}

// N1: any change changes the tags of all folders above it and of the root, and of no other folder.
func TestTagsOfFoldersChangeWithAnythingBelow(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	for _, dir := range []string{"a", "a/b", "a/b/c", "x", "x/y"} {
		s.Do(t, "MKCOL "+home+dir).Want(t, 201)
	}
	s.Do(t, "PUT "+home+"a/b/c/f", "", "one").Want(t, 201)
	s.Do(t, "PUT "+home+"a/b/c/g", "", "two").Want(t, 201)
	tags := func() map[string]string {
		all := map[string]string{}
		for _, dir := range []string{"", "a", "a/b", "a/b/c", "x", "x/y"} {
			all[dir] = s.tag(t, home+dir)
		}
		return all
	}
	var trashed drive.NodeID
	deep, both := []string{"", "a", "a/b", "a/b/c"}, []string{"", "a", "a/b", "a/b/c", "x", "x/y"}
	was := tags()
	for _, step := range []struct {
		what    string
		do      func()
		changed []string
	}{
		{"nothing", func() {}, nil},
		{"a new file", func() { s.Do(t, "PUT "+home+"a/b/c/h", "", "three").Want(t, 201) }, deep},
		{"other content", func() { s.Do(t, "PUT "+home+"a/b/c/f", "", "another").Want(t, 204) }, deep},
		{"a time", func() { s.Do(t, "PUT "+home+"a/b/c/f", "X-OC-Mtime: 1000000000", "", "another").Want(t, 204) }, deep},
		{"a name", func() { s.Do(t, "MOVE "+home+"a/b/c/f", "Destination: "+home+"a/b/c/f2").Want(t, 201) }, deep},
		{"a move away", func() { s.Do(t, "MOVE "+home+"a/b/c/f2", "Destination: "+home+"x/y/f2").Want(t, 201) }, both},
		{"a folder moves away", func() { s.Do(t, "MOVE "+home+"a/b/c", "Destination: "+home+"x/c").Want(t, 201) }, []string{"", "a", "a/b", "x"}},
		{"and back", func() { s.Do(t, "MOVE "+home+"x/c", "Destination: "+home+"a/b/c").Want(t, 201) }, []string{"", "a", "a/b", "x"}},
		{"into the trash", func() { trashed = s.trash(t, "a/b/c/h") }, deep},
		{"out of it", func() { s.must(t)(s.Files.Restore(t.Context(), s.Who, trashed, drive.NodeID{}, "")) }, deep},
		{"for good", func() {
			_, err := s.Files.DeletePermanently(t.Context(), s.Who, trashed, tree.Expect{})
			s.must(t)(files.NodeView{}, err)
		}, deep},
	} {
		moved := step.what == "a folder moves away" // a/b/c is not there for a moment
		step.do()
		if moved {
			now := map[string]string{}
			for _, dir := range []string{"", "a", "a/b", "x", "x/y"} {
				now[dir] = s.tag(t, home+dir)
			}
			now["a/b/c"] = was["a/b/c"]
			check(t, step.what, was, now, step.changed)
			was = now
			continue
		}
		now := tags()
		if step.what == "and back" {
			now["a/b/c"] = was["a/b/c"] // the folder itself has moved: either is right
		}
		check(t, step.what, was, now, step.changed)
		was = tags()
	}
}

func check(t *testing.T, what string, was, now map[string]string, changed []string) {
	t.Helper()
	for dir := range now {
		if (was[dir] != now[dir]) != slices.Contains(changed, dir) {
			t.Errorf("%s: the tag of %q was %s and is %s", what, dir, was[dir], now[dir])
		}
	}
}

func (s *stack) must(t testing.TB) func(files.NodeView, error) files.NodeView {
	t.Helper()
	return func(n files.NodeView, err error) files.NodeView {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
}

func (s *stack) trash(t *testing.T, path string) drive.NodeID {
	t.Helper()
	at, err := drive.ParsePath("/" + path)
	if err != nil {
		t.Fatal(err)
	}
	n := s.must(t)(s.Files.GetByPath(t.Context(), s.Who, drive.Address{Path: at}))
	s.Do(t, "DELETE "+home+path).Want(t, 204)
	return n.ID
}

// After a restore every folder has another tag, so that clients list everything, and the changed
// fingerprint tells them to keep their newer files.
func TestRestoreChangesFingerprint(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.Do(t, "MKCOL "+home+"a").Want(t, 201)
	fingerprint := func(path string) davtest.Response {
		const ask = `<d:propfind xmlns:d="DAV:"><d:prop><x:data-fingerprint xmlns:x="http://owncloud.org/ns"/></d:prop></d:propfind>`
		return s.Do(t, "PROPFIND "+path, "Depth: 0", "", ask).Want(t, 207)
	}
	top, folder := s.tag(t, home), s.tag(t, home+"a")
	fingerprint(home).Has(t, `<oc:data-fingerprint/>`, "200 OK")
	s.fingerprint = "RESTORED"
	s.restart(t)
	for _, kept := range []string{"", "a", "Spaces"} { // clients may keep a part of the drive
		fingerprint(home+kept).Has(t, "RESTORED</")
	}
	if s.tag(t, home) == top || s.tag(t, home+"a") == folder {
		t.Errorf("tags stay: %s, %s", top, folder)
	}
}

// N2: a node keeps its number when it is moved or gets new content, and the number is never reused.
func TestNodeNumbersAreNeverReused(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	number := func(path string) string {
		return s.find(t, home+path).Between(t, `<oc:fileid>`, "<")
	}
	made := s.Do(t, "PUT "+home+"f", "", "one").Want(t, 201)
	first := number("f")
	if want := fmt.Sprintf("%08s", first) + "sdtest"; made.Exact("OC-FileId") != want || made.Exact("OC-ETag") != made.Header.Get("ETag") {
		t.Errorf("%v, want %s", made.Header, want)
	}
	s.Do(t, "PUT "+home+"f", "", "two").Want(t, 204)
	s.Do(t, "MOVE "+home+"f", "Destination: "+home+"g").Want(t, 201)
	if got := number("g"); got != first {
		t.Errorf("it was %s and is %s", first, got)
	}
	id := s.trash(t, "g")
	s.Do(t, "DELETE /remote.php/dav/trashbin/ann/trash/g.d"+id.String()).Want(t, 204)
	s.Do(t, "PUT "+home+"g", "", "three").Want(t, 201)
	if got := number("g"); got == first {
		t.Error("a number was given twice")
	}
}

func TestTheTrash(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	const bin = "/remote.php/dav/trashbin/ann/"
	s.Do(t, "MKCOL "+home+"d").Want(t, 201)
	s.Do(t, "PUT "+home+"d/a%26b", "", "one").Want(t, 201)
	live := s.must(t)(s.Files.GetByPath(t.Context(), s.Who, drive.Address{Path: drive.Path{"d"}}))
	id := s.trash(t, "d/a&b")
	s.Do(t, "PROPFIND "+bin+"trash", "Depth: 1").Want(t, 207).Has(t, "a&amp;b", "<nc:trashbin-original-location>d/a&amp;b<", ".d"+id.String())
	s.Do(t, "DELETE "+bin+"trash/d.d"+live.ID.String()).Want(t, 404) // it is not in the trash
	s.Do(t, "MOVE "+bin+"trash/a.d"+id.String(), "Destination: "+home+"elsewhere").Want(t, 403)
	s.Do(t, "MOVE "+bin+"trash/a.d"+id.String(), "Destination: "+bin+"restore/a").Want(t, 201)
	s.Do(t, "GET "+home+"d/a%26b").Want(t, 200).Has(t, "one")
	s.trash(t, "d/a&b")
	s.Do(t, "DELETE "+bin+"trash").Want(t, 204)
	if got := s.Do(t, "PROPFIND "+bin+"trash", "Depth: 1").Want(t, 207); strings.Contains(got.Body, "a&amp;b") {
		t.Errorf("%s", got.Body)
	}
	s.Do(t, "PROPFIND "+home+"d", "Depth: 0").Want(t, 207)
}

func TestPermissions(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.Do(t, "MKCOL "+home+"d").Want(t, 201)
	s.Do(t, "PUT "+home+"d/f", "", "12345").Want(t, 201)
	for path, want := range map[string]string{"": "GCK", "d": "GDNVCK", "d/f": "GDNVW"} {
		if got := s.find(t, home+path).Between(t, `<oc:permissions>`, "<"); got != want {
			t.Errorf("%q: %s, want %s", path, got, want)
		}
	}
	if got := s.find(t, home).Between(t, `<oc:size>`, "<"); got != "5" {
		t.Errorf("the size of all is %s", got)
	}
	s.Do(t, "GET /index.php/core/preview?fileId=99999&x=64").Want(t, http.StatusNotFound)
	s.Do(t, "GET /index.php/core/preview?file=d/f&x=64").Want(t, http.StatusNotFound) // no picture
}

// The iOS client and several libraries search for sabre/dav's namespace prefixes instead of parsing
// namespaces. With other prefixes they would show empty listings.
func TestPrefixesAreThoseOfSabre(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.Do(t, "PUT "+home+"f", "", "x").Want(t, 201)
	const ask = `<d:propfind xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns" xmlns:nc="http://nextcloud.org/ns" xmlns:a="urn:a" xmlns:b="urn:b"><d:prop>` +
		`<d:resourcetype/><oc:fileid/><nc:has-preview/><a:p/><b:p/><a:q/><p/></d:prop></d:propfind>`
	s.Do(t, "PROPFIND "+home, "Depth: 1", "", ask).Want(t, 207).Has(t,
		`<d:multistatus xmlns:d="DAV:" xmlns:s="http://sabredav.org/ns" xmlns:oc="http://owncloud.org/ns" xmlns:nc="http://nextcloud.org/ns">`,
		"<d:response><d:href>"+home+"f</d:href><d:propstat><d:prop><d:resourcetype/><oc:fileid>", "<d:resourcetype><d:collection/></d:resourcetype>",
		"<nc:has-preview>false</nc:has-preview></d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat>",
		`<x1:p xmlns:x1="urn:a"/><x2:p xmlns:x2="urn:b"/><x1:q xmlns:x1="urn:a"/><p xmlns=""/></d:prop>`)
	s.Do(t, "PROPPATCH "+home+"f", "", `<d:propertyupdate xmlns:d="DAV:"><d:set><d:prop><d:getetag>x</d:getetag></d:prop></d:set></d:propertyupdate>`).
		Want(t, 207).Has(t, "<d:error><d:cannot-modify-protected-property/></d:error>")
	s.Do(t, "PROPFIND "+home+"missing", "Depth: 0", "", ask).Want(t, 404).Has(t, `<d:error xmlns:d="DAV:" xmlns:s="http://sabredav.org/ns"><s:exception>`, "</d:error>")
	s.Do(t, "LOCK "+home+"f", "", `<d:lockinfo xmlns:d="DAV:"><d:lockscope><d:exclusive/></d:lockscope><d:locktype><d:write/></d:locktype><d:owner><x:D xmlns:x="urn:x"/></d:owner></d:lockinfo>`).
		Want(t, 200).Has(t, `<d:prop xmlns:d="DAV:"><d:lockdiscovery><d:activelock>`, `<d:owner><D xmlns="urn:x"/></d:owner>`)
}
