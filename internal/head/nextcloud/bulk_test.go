package nextcloud_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/head/dav/davtest"
	"example.org/smartdrive/internal/usecase/batch"
	"example.org/smartdrive/internal/usecase/space"
	"example.org/smartdrive/internal/usecase/upload"
)

const bulk = "POST /remote.php/dav/bulk"

var related = http.Header{"Content-Type": {"multipart/related; boundary=b"}}

// part is a part of a request of many files.
func part(path, content string, header ...string) string {
	all := append([]string{"X-File-Path: " + path, fmt.Sprint("Content-Length: ", len(content))}, header...)
	return "--b\r\n" + strings.Join(all, "\r\n") + "\r\n\r\n" + content + "\r\n"
}

// result is the reply for one file.
type result struct {
	Error                              bool
	Message, ETag, FileID, Permissions string
}

// bulk sends parts, and returns the status and the results by path.
func (s *stack) bulk(t *testing.T, who string, parts ...string) (int, map[string]result) {
	t.Helper()
	h := related.Clone()
	name, value, _ := strings.Cut(davtest.AuthHeader(who), ": ")
	h.Set(name, value)
	a := s.Send(t, bulk, h, strings.NewReader(strings.Join(parts, "")))
	results := map[string]result{}
	if err := json.Unmarshal([]byte(a.Body), &results); err != nil {
		t.Fatalf("%d %s: %v", a.Status, a.Body, err)
	}
	return a.Status, results
}

// Each file of a request is stored or refused by itself, wherever it goes.
func TestManyFilesInOneRequest(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	bob := s.CreateUser(t, "bob")
	admin := s.Who
	admin.Admin = true
	if _, err := s.Spaces.Create(t.Context(), admin, space.NewSpace{Name: "Design"}, nil); err != nil {
		t.Fatal(err)
	}
	s.Do(t, "MKCOL "+home+"team").Want(t, 201)
	s.Do(t, "MKCOL "+home+"folder").Want(t, 201)
	s.grant(t, "team", access.Editor, 0)
	s.Do(t, "PUT "+home+"old", "", "before").Want(t, 201)
	tag := s.find(t, home+"old").Between(t, "<d:getetag>&quot;", "&quot;")
	large := strings.Repeat("x", int(upload.MaxUnsyncedSize)+1)
	status, got := s.bulk(t, "ann",
		part("/a", "one", "OC-Checksum: SHA1:fe05bcdcdc4928012781a5f1a2a77cbb5398e106"),
		part("/Spaces/Design/b", "two"),
		part("/large", large),
		part("/old", "after", `If-Match: "`+tag+`"`),
		part("/new", "after", `If-Match: "`+tag+`"`),
		part("/folder", "no file"),
		part("/none/c", "three"),
		part("/c", "three", "OC-Checksum: SHA1:fe05bcdcdc4928012781a5f1a2a77cbb5398e106"),
		part("/Spaces/Design/d", "four", "X-File-MD5: 00000000000000000000000000000000"),
		part("/empty", "", "X-File-MD5: 00000000000000000000000000000000"),
		part("/../up", "five"),
		part("/Spaces", "six"),
		part("", "seven"),
		part("/last", "eight", "Content-Type: text/plain"),
		"--b--\r\n")
	if status != http.StatusOK {
		t.Errorf("status %d", status)
	}
	for path, content := range map[string]string{"/a": "one", "/large": large, "/old": "after", "/last": "eight"} {
		r, have, listed := got[path], s.read(t, path[1:]), s.find(t, home+path[1:])
		if listed.Has(t, ">"+r.FileID+"<", ">"+r.Permissions+"<", "&quot;"+r.ETag+"&quot;"); have != content || r.Error || r.ETag == "" || r.FileID == "" || r.Permissions == "" {
			t.Errorf("%s has %.20q, and the client is told %+v", path, have, r)
		}
	}
	if r := got["/Spaces/Design/b"]; r.Error || r.ETag == "" || r.FileID == "" {
		t.Errorf("in a space: %+v", r)
	}
	s.Do(t, "GET "+home+"Spaces/Design/b").Want(t, 200).Has(t, "two")
	for path, says := range map[string]string{
		"/new": "condition", "/folder": "", "/none/c": "folder", "/c": "digest", "/Spaces/Design/d": "digest", "/empty": "digest", "/../up": "", "/Spaces": "", "": "",
	} {
		if r, told := got[path]; !told || !r.Error || r.Message == "" || !strings.Contains(strings.ToLower(r.Message), says) {
			t.Errorf("%q: %+v", path, r)
		}
	}
	if len(got) != 14 {
		t.Errorf("%d results: %v", len(got), got)
	}
	for _, none := range []string{"new", "none", "c", "empty", "Spaces/Design/d", "up"} {
		s.Do(t, "PROPFIND "+home+none, "Depth: 0").Want(t, 404)
	}
	// Another user uploads into a shared folder, and into a folder without write permission.
	_, got = s.bulk(t, "bob", part("/Shared with me/team/x", "of bob"), "--b--")
	if r := got["/Shared with me/team/x"]; r.Error || s.read(t, "team/x") != "of bob" {
		t.Errorf("%+v", r)
	}
	s.grant(t, "team", access.Viewer, 0)
	if _, got = s.bulk(t, "bob", part("/Shared with me/team/y", "of bob"), "--b--"); !got["/Shared with me/team/y"].Error {
		t.Errorf("%+v", got)
	}
	s.CheckLedger(t, s.Who)
	s.CheckLedger(t, bob)
}

// Clients that cannot send an empty file so are not told that they may.
func TestBulkUploadCapability(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	for agent, told := range map[string]bool{
		"": false, "curl/8": false, "Mozilla/5.0 (Android) Nextcloud-android/3.30.0": false, "mirall/": false, "mirall/x": false, "mirall/3": false,
		"Mozilla/5.0 (Linux) mirall/3.7.3git (nextcloudcmd, debian)": false, "Mozilla/5.0 (Windows) mirall/3.9.50git (Nextcloud)": false,
		"Mozilla/5.0 (Windows) mirall/3.10.0stable-Win64 (build 1)": true, "Mozilla/5.0 (Macintosh) mirall/3.16.4 (build 1)": true, "mirall/33.0.0": true, "mirall/4.0.0": true,
	} {
		got := s.Do(t, "GET /ocs/v2.php/cloud/capabilities?format=json", "User-Agent: "+agent).Want(t, 200)
		if strings.Contains(got.Body, `"bulkupload":"1.0"`) != told {
			t.Errorf("%q: told %v", agent, !told)
		}
	}
}

// Bulk upload respects locks of other users.
func TestBulkUploadObeysLocks(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.CreateUser(t, "bob")
	s.Do(t, "MKCOL "+home+"team").Want(t, 201)
	s.Do(t, "PUT "+home+"team/f", "", "before").Want(t, 201)
	s.grant(t, "team", access.Editor, 0)
	const exclusive = `<D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>`
	s.Do(t, "LOCK "+shared+"/team/f", davtest.AuthHeader("bob"), "Depth: 0", "", exclusive).Want(t, 200)
	_, got := s.bulk(t, "ann", part("/team/f", "after"), part("/team/g", "new"), "--b--")
	if !got["/team/f"].Error || got["/team/g"].Error || s.read(t, "team/f") != "before" {
		t.Errorf("%+v", got)
	}
}

// A malformed bulk upload is refused. An interrupted one keeps the complete files, and its reply
// lists only those.
func TestInterruptedBulkUpload(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	for what, c := range map[string]struct {
		status int
		header http.Header
	}{
		"another type":     {415, http.Header{"Content-Type": {"multipart/form-data; boundary=b"}}},
		"without boundary": {415, http.Header{"Content-Type": {"multipart/related"}}},
		"compressed":       {415, http.Header{"Content-Type": related["Content-Type"], "Content-Encoding": {"gzip"}}},
		"without login":    {401, http.Header{"Content-Type": related["Content-Type"], "Authorization": {"Basic bm9ib2R5Og=="}}},
	} {
		if got := s.Send(t, bulk, c.header.Clone(), strings.NewReader("--b--")); got.Status != c.status {
			t.Errorf("%s: %d %s", what, got.Status, got.Body)
		}
	}
	s.Do(t, "GET /remote.php/dav/bulk").Want(t, 405)
	s.Do(t, "POST /remote.php/dav/bulk/x", "Content-Type: multipart/related; boundary=b").Want(t, 404)
	many := make([]string, 0, batch.MaxItems+1)
	for i := range batch.MaxItems + 1 {
		many = append(many, part(fmt.Sprint("/none/", i), "x"))
	}
	for what, c := range map[string]struct {
		status int
		rest   []string
	}{
		"the end is missing":  {400, nil},
		"cut in the bytes":    {400, []string{strings.TrimSuffix(part("/cut", "123456"), "6\r\n")}},
		"another boundary":    {400, []string{"--c\r\n", part("/x", "x")}},
		"no length":           {400, []string{"--b\r\nX-File-Path: /x\r\n\r\nx\r\n--b--"}},
		"more than its bytes": {400, []string{strings.Replace(part("/x", "xyz"), "Content-Length: 3", "Content-Length: 2", 1)}},
		"a long header":       {400, []string{part("/x", "x", "X: "+strings.Repeat("x", 20_000)), "--b--"}},
		"no header":           {400, []string{"--b\r\nnothing\r\n\r\n"}},
		"too many":            {413, append(many, "--b--")},
	} {
		name := "/" + strings.ReplaceAll(what, " ", "-")
		status, got := s.bulk(t, "ann", append([]string{part(name, "kept")}, c.rest...)...)
		if status != c.status || got[name].Error || s.read(t, name[1:]) != "kept" {
			t.Errorf("%s: %d %+v", what, status, got)
		}
		if r, told := got["/cut"]; told {
			t.Errorf("%s: the client is told %+v", what, r)
		}
	}
	s.Do(t, "PROPFIND "+home+"cut", "Depth: 0").Want(t, 404)
	s.CheckLedger(t, s.Who)
}

// The same request again, as after a lost reply, leaves the same files, and one entry of each.
func TestRepeatedBulkUpload(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	parts := []string{part("/a", "one"), part("/b", "two"), "--b--"}
	_, first := s.bulk(t, "ann", parts...)
	_, again := s.bulk(t, "ann", parts...)
	for path, r := range first {
		if again[path] != r {
			t.Errorf("%s was %+v and is %+v", path, r, again[path])
		}
	}
	kids, err := s.Tree.ChildIDs(t.Context(), s.DB, s.node(t, ""))
	if err != nil || len(kids) != 2 {
		t.Errorf("%d files (%v)", len(kids), err)
	}
	s.CheckLedger(t, s.Who)
}
