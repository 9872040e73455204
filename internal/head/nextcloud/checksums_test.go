package nextcloud_test

import (
	"crypto/md5"
	"crypto/sha1"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

const askChecksums = `<d:propfind xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"><d:prop><oc:checksums/></d:prop></d:propfind>`

// Digests that a client declares with OC-Checksum are verified, and then belong to the content:
// they go with it where it is moved and copied, and come back with an older version.
func TestVerifiedChecksumsAreGivenBack(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	sum := func(text string) string { return fmt.Sprintf("SHA1:%x", sha1.Sum([]byte(text))) }
	has := func(path, want string) {
		t.Helper()
		a := s.Do(t, "PROPFIND "+home+path, "Depth: 0", "", askChecksums).Want(t, 207)
		if want == "" {
			a.Lacks(t, "oc:checksum>")
			return
		}
		a.Has(t, "<oc:checksums><oc:checksum>"+want+"</oc:checksum></oc:checksums>")
	}
	large := strings.Repeat("large", 2<<20)
	for path, text := range map[string]string{"small": "text", "large": large, "empty": ""} {
		s.Do(t, "PUT "+home+path, "OC-Checksum: "+sum(text), "", text).Want(t, 201)
		has(path, sum(text))
	}
	s.Do(t, "PUT "+home+"two", fmt.Sprintf("OC-Checksum: %s MD5:%x", sum("two"), md5.Sum([]byte("two"))), "", "two").Want(t, 201)
	has("two", fmt.Sprintf("%s MD5:%x", sum("two"), md5.Sum([]byte("two"))))

	s.Do(t, "COPY "+home+"small", "Destination: "+home+"copy").Want(t, 201)
	s.Do(t, "MOVE "+home+"small", "Destination: "+home+"moved").Want(t, 201)
	has("copy", sum("text"))
	has("moved", sum("text"))
	if a := s.Do(t, "PATCH "+home+"moved", "X-Recalculate-Hash: sha1").Want(t, 204); a.Exact("OC-Checksum") != sum("text") {
		t.Errorf("asked for its digest: %v", a.Header)
	}
	s.Do(t, "PATCH "+home+"moved", "X-Recalculate-Hash: md5").Want(t, 405)
	s.Do(t, "PATCH "+home+"moved").Want(t, 405)
	s.Do(t, "PATCH "+home+"none", "X-Recalculate-Hash: sha1").Want(t, 404)
	s.Do(t, "PUT "+home+"moved", "", "new").Want(t, 204) // nobody has said anything of it
	has("moved", "")
	number := s.Do(t, "PROPFIND "+home+"moved", "Depth: 0", "", `<d:propfind xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"><d:prop><oc:fileid/></d:prop></d:propfind>`).
		Between(t, "<oc:fileid>", "<")
	versions := "/remote.php/dav/versions/ann/versions/" + number
	older := regexp.MustCompile("<d:href>(" + versions + "/[^<]+)</d:href>").FindStringSubmatch(s.Do(t, "PROPFIND "+versions, "Depth: 1").Want(t, 207).Body)
	s.Do(t, "MOVE "+older[1], "Destination: /remote.php/dav/versions/ann/restore/target").Want(t, 201)
	has("moved", sum("text"))

	to := "Destination: " + home + "chunked"
	s.Do(t, "MKCOL "+staged+"c", to).Want(t, 201)
	s.Do(t, "PUT "+staged+"c/1", "", "one").Want(t, 201)
	s.Do(t, "MOVE "+staged+"c/.file", to, "OC-Checksum: "+sum("two")).Want(t, 422)
	s.Do(t, "MKCOL "+staged+"d", to).Want(t, 201)
	s.Do(t, "PUT "+staged+"d/1", "", "one").Want(t, 201)
	s.Do(t, "MOVE "+staged+"d/.file", to, "OC-Checksum: "+sum("one")).Want(t, 201)
	has("chunked", sum("one"))

	s.bulk(t, "ann", part("/many", "many", "OC-Checksum: "+sum("many")), part("/md5", "md5", fmt.Sprintf("X-File-MD5: %x", md5.Sum([]byte("md5")))), "--b--\r\n")
	has("many", sum("many"))
	has("md5", fmt.Sprintf("MD5:%x", md5.Sum([]byte("md5"))))
	s.CheckLedger(t, s.Who)
}

// Clients of Nextcloud set the time of a file in Unix seconds. What is no time is not kept beside
// it.
func TestTimesInUnixSeconds(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.Do(t, "PUT "+home+"f", "", "text").Want(t, 201)
	set := func(value string) string {
		return `<d:propertyupdate xmlns:d="DAV:"><d:set><d:prop><lastmodified xmlns="DAV:">` + value + `</lastmodified></d:prop></d:set></d:propertyupdate>`
	}
	for value, want := range map[string]string{"1000000001": "Sun, 09 Sep 2001 01:46:41 GMT", "-1": "Wed, 31 Dec 1969 23:59:59 GMT"} {
		s.Do(t, "PROPPATCH "+home+"f", "", set(value)).Want(t, 207).Has(t, "200 OK")
		s.Do(t, "PROPFIND "+home+"f", "Depth: 0").Want(t, 207).Has(t, want).Lacks(t, "<d:lastmodified")
	}
	for _, value := range []string{"yesterday", "", "1e99"} {
		s.Do(t, "PROPPATCH "+home+"f", "", set(value)).Want(t, 207).Has(t, "409 Conflict")
		s.Do(t, "PROPFIND "+home+"f", "Depth: 0").Want(t, 207).Lacks(t, "<d:lastmodified")
	}
}
