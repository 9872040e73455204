package nextcloud_test

import (
	"regexp"
	"strings"
	"testing"

	"smartdrive/internal/domain/access"
)

// Older versions are listed without the current one, fetched, and brought back as a new version;
// whoever may only read cannot bring one back, and whoever sees nothing of the file gets 404.
func TestVersions(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.person(t, "bob")
	s.person(t, "eve")
	s.do(t, "MKCOL "+home+"team").want(t, 201)
	for i, text := range []string{"first", "second", "third"} {
		s.do(t, "PUT "+home+"team/f", "", text).want(t, map[bool]int{true: 201, false: 204}[i == 0])
	}
	const fileid = `<d:propfind xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"><d:prop><oc:fileid/></d:prop></d:propfind>`
	number := s.do(t, "PROPFIND "+home+"team/f", "Depth: 0", "", fileid).between(t, `<fileid xmlns="http://owncloud.org/ns">`, "<")
	all := func(who string) []string {
		body := s.do(t, "PROPFIND /remote.php/dav/versions/"+who+"/versions/"+number, "Depth: 1", as(who)).want(t, 207).body
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
		if got := s.do(t, "GET "+anns[i]).want(t, 200); got.body != want || got.header.Get("ETag") == "" {
			t.Errorf("version %d is %q: %v", i, got.body, got.header)
		}
	}
	s.do(t, "MOVE "+anns[1], "Destination: "+home+"team/g").want(t, 403)
	s.do(t, "MOVE "+anns[1], "Destination: https://drive.example.org/remote.php/dav/versions/ann/restore/target").want(t, 201)
	if got := s.read(t, "team/f"); got != "first" {
		t.Errorf("%q", got)
	}
	if now := all("ann"); len(now) != 3 {
		t.Errorf("%q", now)
	}
	s.CheckLedger(t, s.who)
	s.do(t, "PROPFIND /remote.php/dav/versions/eve/versions/"+number, "Depth: 1", as("eve")).want(t, 404)
	s.do(t, "GET "+strings.Replace(anns[0], "/ann/", "/eve/", 1), as("eve")).want(t, 404)
	s.do(t, "PROPFIND /remote.php/dav/versions/ann/versions/"+number, "Depth: 1", as("eve")).want(t, 404)
	s.grant(t, "team", access.Viewer, 0)
	bobs := all("bob")
	if len(bobs) != 3 {
		t.Fatalf("%q", bobs)
	}
	s.do(t, "GET "+bobs[2], as("bob")).want(t, 200).has(t, "first")
	s.do(t, "MOVE "+bobs[1], "Destination: /remote.php/dav/versions/bob/restore/target", as("bob")).want(t, 403)
	s.do(t, "PROPFIND /remote.php/dav/versions/ann/versions/99999", "Depth: 1").want(t, 404)
	s.do(t, "GET /remote.php/dav/versions/ann/versions/"+number+"/none").want(t, 404)
}
