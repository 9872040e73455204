package rest_test

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"lukechampine.com/blake3"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// transcript records a user's requests and responses, with names in place of random values.
type transcript struct {
	user
	t     *testing.T
	out   strings.Builder
	names map[string]string
}

func newTranscript(t *testing.T, u user) *transcript {
	return &transcript{user: u, t: t, names: map[string]string{}}
}

// compare holds the record against testdata; -update writes it.
func (tr *transcript) compare(name string) {
	tr.t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(file, []byte(tr.out.String()), 0o644); err != nil {
			tr.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		tr.t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(tr.out.String(), "\n")); diff != "" {
		tr.t.Errorf("%s differs (-want +got); go test ./internal/head/rest -run '^%s$' -update, and read the difference:\n%s", file, tr.t.Name(), diff)
	}
}

// say writes a heading.
func (tr *transcript) say(text string) { fmt.Fprintf(&tr.out, "# %s\n\n", text) }

// shownHeaders are the headers of an answer that are part of the contract.
var shownHeaders = []string{
	"Location", "ETag", "Last-Modified", "Content-Range", "Content-Disposition", "Repr-Digest", "Idempotent-Replayed", "Retry-After",
	"WWW-Authenticate", "Allow", "Content-Language",
}

// send sends and records; the answer's JSON is returned.
func (tr *transcript) send(method, path string, body any, header ...string) map[string]any {
	tr.t.Helper()
	fmt.Fprintf(&tr.out, "> %s /api/v1%s\n", method, tr.plain(path))
	for i := 0; i+1 < len(header); i += 2 {
		fmt.Fprintf(&tr.out, "> %s: %s\n", header[i], tr.plain(header[i+1]))
	}
	switch b := body.(type) {
	case nil:
	case []byte:
		fmt.Fprintf(&tr.out, "> (%d bytes)\n", len(b))
	default:
		fmt.Fprintf(&tr.out, "> %s\n", tr.plain(asJSON(tr.t, b)))
	}
	got := tr.user.send(tr.t, method, path, body, header...)
	fmt.Fprintf(&tr.out, "< %d %s\n", got.StatusCode, http.StatusText(got.StatusCode))
	for _, name := range shownHeaders {
		if v := got.Header.Get(name); v != "" {
			fmt.Fprintf(&tr.out, "< %s: %s\n", name, tr.plain(v))
		}
	}
	var doc map[string]any
	switch {
	case json.Unmarshal(got.body, &doc) == nil:
		pretty, err := json.MarshalIndent(doc, "< ", "  ")
		if err != nil {
			tr.t.Fatal(err)
		}
		fmt.Fprintf(&tr.out, "< %s\n", tr.plain(string(pretty)))
	case len(got.body) > 0:
		fmt.Fprintf(&tr.out, "< (%d bytes)\n", len(got.body))
	}
	tr.out.WriteString("\n")
	return doc
}

var (
	uuids  = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`)
	random = regexp.MustCompile(`(sd_|pre_|token=|"nonce": "|"answer":"|"next_cursor": "eyJ)[0-9A-Za-z_-]+`)
)

// plain replaces the values that differ in every run.
func (tr *transcript) plain(s string) string {
	s = regexp.MustCompile(`"request_id": "[^"]*"`).ReplaceAllString(s, `"request_id": "..."`)
	s = random.ReplaceAllString(s, "$1...")
	s = regexp.MustCompile(`"shard": "\d+/`).ReplaceAllString(s, `"shard": "0/`) // follows from a random id
	return uuids.ReplaceAllStringFunc(s, func(id string) string {
		if _, known := tr.names[id]; !known {
			tr.names[id] = fmt.Sprintf("<id %d>", len(tr.names)+1)
		}
		return tr.names[id]
	})
}

func TestTranscriptOfAnUpload(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	tr := newTranscript(t, s.newUser(t, "ann", 64*drive.MiB))
	data := pattern(2*partSize + 1000)
	tr.say("A file in parts, sent again where it is needed")
	up := tr.send("POST", "/uploads", map[string]any{"path": "/docs/a.pdf", "size": len(data), "parents": true, "fingerprint": "ino 7"}, "Idempotency-Key", "one")
	id := up["id"].(string)
	tr.send("POST", "/uploads", map[string]any{"path": "/docs/a.pdf", "size": len(data), "parents": true, "fingerprint": "ino 7"}, "Idempotency-Key", "one")
	at := "/uploads/" + id
	tr.send("PUT", at+"/parts/2", data[2*partSize:], "Content-Digest", "crc32c=:AAAAAA==:")
	tr.send("PUT", at+"/parts/2", data[2*partSize:])
	tr.send("PUT", at+"/parts/0", data[:partSize])
	tr.send("GET", at+"/parts?limit=1", nil)
	tr.say("Another client finds it by its fingerprint")
	tr.send("POST", "/uploads", map[string]any{"path": "/docs/a.pdf", "size": len(data), "fingerprint": "ino 7"})
	tr.send("POST", at+"/complete", nil)
	tr.say("It goes quiet and is parked")
	s.AdvanceAndFire(t, 31*time.Second)
	tr.send("GET", at, nil)
	tr.send("PUT", at+"/parts/1", data[partSize:2*partSize])
	tr.send("GET", "/uploads", nil)
	tr.send("POST", at+"/complete", map[string]any{"name": "b.pdf"})
	tr.send("POST", at+"/complete", nil)
	tr.send("GET", at, nil)
	tr.send("PUT", at+"/parts/1", data[partSize:2*partSize])
	tr.send("GET", "/me", nil)
	tr.compare("upload")
}

func TestTranscriptOfAnUploadThatIsGivenUp(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	tr := newTranscript(t, s.newUser(t, "ann", 100*drive.MiB))
	tr.say("Of unknown length")
	up := tr.send("POST", "/uploads", map[string]any{"parent": "root", "name": "log", "size": nil})
	at := "/uploads/" + up["id"].(string)
	tr.send("PUT", at+"/parts/0", []byte("line\n"))
	tr.send("PATCH", at, map[string]any{"name": "log.txt"})
	tr.send("DELETE", at, nil)
	tr.send("GET", at, nil)
	tr.send("DELETE", at, nil)
	tr.say("More than there is room for, and a name that is taken")
	tr.send("POST", "/uploads", map[string]any{"path": "/x", "size": 200 << 20})
	tr.send("PUT", "/files/x", []byte("x"))
	tr.send("POST", "/uploads", map[string]any{"path": "/x", "size": 1})
	tr.send("GET", "/me", nil)
	tr.compare("given-up")
}

func TestTranscriptOfAnInstantUpload(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{Upload: upload.Options{PartSize: 8 * drive.MiB}})
	ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	data := pattern(int(3 * drive.MiB))
	ann.put(t, "/movie", data)
	sum := blake3.Sum256(data)
	claim := map[string]any{"path": "/film", "size": len(data), "digests": map[string]any{"blake3": hex.EncodeToString(sum[:])}}
	tr := newTranscript(t, bob)
	tr.say("The content is somebody else's: a proof is needed")
	up := tr.send("POST", "/uploads", claim)
	answer := map[string]any{"alg": "hmac-sha256", "answer": proof(t, up["challenge"], data)}
	at := "/uploads/" + up["id"].(string)
	tr.send("POST", at+"/proof", answer)
	tr.say("A lost answer is asked for again")
	tr.send("POST", at+"/proof", answer)
	tr.say("Own content needs none")
	claim["path"] = "/film again"
	tr.send("POST", "/uploads", claim)
	tr.say("A wrong answer: the upload goes on, and there is no second chance that day")
	cat := user{stack: s, token: s.newUser(t, "cat", 0).token}
	tr.user = cat
	up = tr.send("POST", "/uploads", map[string]any{"path": "/film", "size": len(data)})
	at = "/uploads/" + up["id"].(string)
	tr.send("PATCH", at, map[string]any{"digests": claim["digests"]})
	tr.send("POST", at+"/proof", map[string]any{"alg": "blake3", "answer": strings.Repeat("0", 64)})
	tr.send("PATCH", at, map[string]any{"digests": claim["digests"]})
	tr.compare("instant")
}

func proof(t *testing.T, challenge any, data []byte) string {
	t.Helper()
	var c digest.Challenge
	if err := json.Unmarshal([]byte(asJSON(t, challenge)), &c); err != nil {
		t.Fatal(err)
	}
	answer, err := digest.Answer(t.Context(), bytes.NewReader(data), c, digest.ProofHMAC)
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(answer)
}

func TestTranscriptOfWholeFiles(t *testing.T) {
	t.Parallel()
	tr := newTranscript(t, newStack(t, uploadtest.Options{}).newUser(t, "ann", 0))
	tr.say("New, replaced, and not replaced")
	first := tr.send("PUT", "/files/a/hello%20w%C3%B6rld.txt?parents=true", []byte("one"), "X-Mtime", "1600000000000", "If-None-Match", "*")
	etag := `"b3-` + first["digests"].(map[string]any)["blake3"].(string) + `"`
	tr.send("PUT", "/files/a/hello%20w%C3%B6rld.txt", []byte("one"), "If-None-Match", "*")
	tr.send("PUT", "/files/a/hello%20w%C3%B6rld.txt", []byte("two"), "If-Match", etag)
	tr.send("PUT", "/files/a/hello%20w%C3%B6rld.txt", []byte("three"), "If-Match", `"b3-0", `+etag)
	tr.send("PUT", "/files/a/hello%20w%C3%B6rld.txt?conflict=fail", []byte("three"))
	tr.send("PUT", "/files/a/hello%20w%C3%B6rld.txt?conflict=rename", []byte("three"), "Content-Type", "text/markdown")
	tr.send("PUT", "/files/a", []byte("over a folder"))
	at := "/nodes/" + first["id"].(string)
	tr.send("GET", at+"/content", nil)
	tr.send("GET", at+"/content", nil, "Range", "bytes=1-", "If-Range", etag)
	tr.send("GET", at+"/content?inline=1", nil, "Range", "bytes=1-")
	tr.send("GET", at+"/content", nil, "Range", "bytes=9-")
	tr.send("GET", at+"/versions", nil)
	tr.send("POST", at+"/links", map[string]any{"expires_in": 3600})
	tr.compare("files")
}

func TestTranscriptOfNodes(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	tr := newTranscript(t, s.newUser(t, "ann", 0))
	tr.say("Folders, moves, copies")
	a := tr.send("POST", "/nodes", map[string]any{"path": "/a/b", "type": "folder", "parents": true})["id"].(string)
	tr.send("POST", "/nodes", map[string]any{"parent": "root", "name": "a", "type": "folder"})
	tr.send("POST", "/nodes", map[string]any{"parent": "root", "name": "a", "type": "folder", "conflict": "rename"})
	s.Clock.Advance(time.Second)
	f := tr.put(t, "/f", []byte("x"))["id"].(string)
	tr.send("PATCH", "/nodes/"+f, map[string]any{"parent": a, "name": "g", "mtime": "2001-02-03T04:05:06.789+01:00"}, "If-Match", `"1"`)
	tr.send("PATCH", "/nodes/"+f, map[string]any{"name": "h"}, "If-Match", `"1"`)
	tr.send("POST", "/nodes/"+f+"/copy", map[string]any{"parent": "root"})
	tr.send("PATCH", "/nodes/"+a, map[string]any{"parent": a})
	tr.send("GET", "/nodes/root/children?sort=mtime&order=desc&limit=2", nil)
	tr.say("The trash")
	tr.send("DELETE", "/nodes/"+a, nil)
	tr.send("DELETE", "/nodes/"+a, nil)
	tr.send("GET", "/nodes/"+f, nil)
	tr.send("GET", "/nodes?path=/a/b/g", nil)
	tr.send("GET", "/trash", nil)
	tr.send("POST", "/nodes/"+a+"/restore", nil)
	tr.send("DELETE", "/nodes/"+f+"?permanent=true", nil)
	tr.send("DELETE", "/nodes/"+f+"?permanent=true", nil)
	tr.send("DELETE", "/nodes/root", nil)
	tr.send("DELETE", "/trash", nil)
	tr.send("GET", "/changes?after=3&limit=3", nil)
	tr.compare("nodes")
}

func TestTranscriptOfPeople(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	tr := newTranscript(t, s.admin(t))
	tr.say("An administrator makes a user")
	bob := tr.send("POST", "/admin/users", map[string]any{"name": "bob", "password": password, "total": 1 << 20}, "Idempotency-Key", "bob")
	at := "/admin/users/" + bob["id"].(string)
	tr.send("POST", "/admin/users", map[string]any{"name": "Bob", "password": password})
	tr.send("GET", "/admin/users?limit=1", nil)
	tr.send("GET", "/admin/users?name=BOB", nil)
	tr.send("PATCH", at, map[string]any{"total": nil})
	tr.say("The user logs in and makes a token")
	admin := tr.user
	tr.user = user{stack: s}
	tr.send("GET", "/me", nil)
	tr.send("POST", "/sessions", map[string]any{"name": "bob", "password": "no"})
	tr.token = tr.send("POST", "/sessions", map[string]any{"name": "bob", "password": password})["token"].(string)
	tr.send("POST", "/tokens", map[string]any{"name": "backup", "scopes": []string{"write", "read"}, "expires_in": 86400})
	tr.send("GET", "/tokens", nil)
	tr.send("GET", "/sessions", nil)
	tr.send("GET", "/admin/users", nil)
	up := tr.send("POST", "/uploads", map[string]any{"path": "/x", "size": 10})
	tr.user = admin
	tr.send("GET", at+"/ledger", nil)
	tr.send("GET", "/admin/uploads?account="+bob["account_id"].(string), nil)
	tr.send("GET", "/admin/timers/park/"+up["id"].(string), nil)
	tr.send("POST", "/admin/uploads/reset", map[string]any{"account_id": bob["account_id"]})
	tr.send("GET", "/admin/findings", nil)
	tr.send("GET", "/admin/dead-letters", nil)
	tr.send("DELETE", at, nil)
	tr.send("GET", at+"/ledger", nil)
	tr.send("DELETE", "/sessions/current", nil)
	tr.send("GET", "/me", nil)
	tr.compare("people")
}

// TestMD5AloneNeverLinks: an MD5, which can be forged, gives no access to content without all
// bytes.
func TestMD5AloneNeverLinks(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	data := pattern(partSize)
	sum := md5.Sum(data)
	claim := map[string]any{"path": "/f", "size": len(data), "digests": map[string]any{"md5": hex.EncodeToString(sum[:])}}
	id := ann.post(t, "/uploads", claim).json(t, http.StatusCreated)["id"].(string)
	ann.sendParts(t, id, data)
	ann.post(t, "/uploads/"+id+"/complete", nil).json(t, http.StatusCreated)
	again := maps.Clone(claim)
	again["path"] = "/g"
	for _, u := range []user{ann, bob} {
		up := u.post(t, "/uploads", again).json(t, http.StatusCreated)
		if up["state"] != "active" {
			t.Errorf("%s was given the content: %v", u.name, up)
		}
		if c, ok := up["challenge"].(map[string]any); ok && asJSON(t, c["ranges"]) != fmt.Sprintf("[[0,%d]]", len(data)) {
			t.Errorf("%s is asked for %v", u.name, c["ranges"])
		}
	}
}
