package nextcloud_test

import (
	"regexp"
	"strings"
	"testing"

	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/head/dav/davtest"
)

// Older versions are listed without the current one, downloaded, and restored as a new version. A
// reader cannot restore one, and a user without access gets 404.
func TestVersions(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.CreateUser(t, "bob")
	s.CreateUser(t, "eve")
	s.Do(t, "MKCOL "+home+"team").Want(t, 201)
	for i, text := range []string{"first", "second", "third"} {
		s.Do(t, "PUT "+home+"team/f", "", text).Want(t, map[bool]int{true: 201, false: 204}[i == 0])
	}
	const fileid = `<d:propfind xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"><d:prop><oc:fileid/></d:prop></d:propfind>`
	number := s.Do(t, "PROPFIND "+home+"team/f", "Depth: 0", "", fileid).Between(t, `<oc:fileid>`, "<")
	all := func(who string) []string {
		body := s.Do(t, "PROPFIND /remote.php/dav/versions/"+who+"/versions/"+number, "Depth: 1", davtest.AuthHeader(who)).Want(t, 207).Body
		var found []string
		for _, m := range regexp.MustCompile("<d:href>([^<]+[^/<])</d:href>").FindAllStringSubmatch(body, -1) {
			found = append(found, m[1])
		}
		return found
	}
	anns := all("ann")
	if len(anns) != 2 {
		t.Fatalf("%q", anns)
	}
	for i, want := range []string{"second", "first"} {
		if got := s.Do(t, "GET "+anns[i]).Want(t, 200); got.Body != want || got.Header.Get("ETag") == "" {
			t.Errorf("version %d is %q: %v", i, got.Body, got.Header)
		}
	}
	s.Do(t, "MOVE "+anns[1], "Destination: "+home+"team/g").Want(t, 403)
	s.Do(t, "MOVE "+anns[1], "Destination: https://elsewhere.example.org/remote.php/dav/versions/ann/restore/target").Want(t, 502)
	s.Do(t, "MOVE "+anns[1], "Destination: https://drive.example.org/remote.php/dav/versions/ann/restore/target").Want(t, 201)
	if got := s.read(t, "team/f"); got != "first" {
		t.Errorf("%q", got)
	}
	if now := all("ann"); len(now) != 3 {
		t.Errorf("%q", now)
	}
	s.CheckLedger(t, s.Who)
	s.Do(t, "PROPFIND /remote.php/dav/versions/eve/versions/"+number, "Depth: 1", davtest.AuthHeader("eve")).Want(t, 404)
	s.Do(t, "GET "+strings.Replace(anns[0], "/ann/", "/eve/", 1), davtest.AuthHeader("eve")).Want(t, 404)
	s.Do(t, "PROPFIND /remote.php/dav/versions/ann/versions/"+number, "Depth: 1", davtest.AuthHeader("eve")).Want(t, 404)
	s.grant(t, "team", access.Viewer, 0)
	bobs := all("bob")
	if len(bobs) != 3 {
		t.Fatalf("%q", bobs)
	}
	s.Do(t, "GET "+bobs[2], davtest.AuthHeader("bob")).Want(t, 200).Has(t, "first")
	s.Do(t, "MOVE "+bobs[1], "Destination: /remote.php/dav/versions/bob/restore/target", davtest.AuthHeader("bob")).Want(t, 403)
	s.Do(t, "PROPFIND /remote.php/dav/versions/ann/versions/99999", "Depth: 1").Want(t, 404)
	s.Do(t, "GET /remote.php/dav/versions/ann/versions/"+number+"/none").Want(t, 404)
}
