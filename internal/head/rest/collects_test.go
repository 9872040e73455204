package rest_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lukechampine.com/blake3"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// collectInto creates a file request and returns its token and its id.
func (u user) collectInto(t testing.TB, folder string, more map[string]any) (token, id string) {
	t.Helper()
	in := map[string]any{"folder": folder, "title": "Homework"}
	maps.Copy(in, more)
	made := u.post(t, "/collects", in).json(t, http.StatusCreated)
	return made["token"].(string), made["id"].(string)
}

// sender opens a collect link.
func (s *stack) sender(t testing.TB, link, name string) user {
	t.Helper()
	got := s.do(t, request{method: "POST", path: "/api/v1/public/collects/" + link + "/open", body: map[string]any{"sender": name}})
	return user{stack: s, name: name, token: got.json(t, http.StatusOK)["token"].(string)}
}

func (u user) folder(t testing.TB, path string) string {
	t.Helper()
	return u.post(t, "/nodes", map[string]any{"path": path, "type": "folder"}).json(t, http.StatusCreated)["id"].(string)
}

// sendFile sends a file as parts and returns the upload when it is done.
func (u user) sendFile(t testing.TB, name string, content []byte) map[string]any {
	t.Helper()
	up := u.post(t, "/uploads", map[string]any{"path": "/" + name, "size": len(content), "fingerprint": name}).json(t, http.StatusCreated)
	u.send(t, "PUT", "/uploads/"+up["id"].(string)+"/parts/0", content)
	return u.post(t, "/uploads/"+up["id"].(string)+"/complete", nil).json(t, http.StatusCreated)
}

// TestSenderAccessIsLimited tries every route of the API with a sender's token, and the ids of
// things that are not theirs.
func TestSenderAccessIsLimited(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u := s.newUser(t, "ann", 0)
	link, id := u.collectInto(t, u.folder(t, "/in"), nil)
	file := u.put(t, "/f", []byte("secret"))["id"].(string)
	share, _ := u.shareOf(t, file, nil)
	mine := u.post(t, "/uploads", map[string]any{"path": "/mine", "size": 5}).json(t, http.StatusCreated)["id"].(string)
	bob, eve := s.sender(t, link, "bob"), s.sender(t, link, "eve")
	bobs := bob.post(t, "/uploads", map[string]any{"path": "/b", "size": 5, "fingerprint": "f"}).json(t, http.StatusCreated)["id"].(string)
	allowed := map[string]bool{
		"POST /uploads": true, "GET /uploads": true, "GET /uploads/{id}": true, "PATCH /uploads/{id}": true, "DELETE /uploads/{id}": true,
		"GET /uploads/{id}/parts": true, "PUT /uploads/{id}/parts/{n}": true, "DELETE /uploads/{id}/parts/{n}": true,
		"POST /uploads/{id}/complete": true, "PUT /files/{path}": true, "PUT /files": true,
	}
	tried := 0
	for path, methods := range s.addresses(t) {
		path = strings.TrimPrefix(path, "/api/v1")
		if strings.HasPrefix(path, "/public/") || path == "/links" || path == "/export-links" || strings.HasPrefix(path, "/sign-on") { // for everybody
			continue
		}
		for _, method := range methods {
			tried++
			route := method + " " + path
			if route == "POST /sessions" { // for everybody
				continue
			}
			if !allowed[route] {
				for _, of := range []string{file, mine, bobs, id, u.id, "root"} {
					at := fill(path, "{id}", of, "{v}", of, "{key}", "park/"+of, "{token}", share.token)
					eve.send(t, method, at, "{}").problem(t, drive.Forbidden, nil)
				}
				continue
			}
			delete(allowed, route)
			if !strings.Contains(path, "{id}") {
				continue
			}
			for _, of := range []string{mine, bobs, file} {
				body := any("{}")
				if method == "GET" || method == "DELETE" {
					body = nil
				}
				if strings.HasSuffix(path, "{n}") && method == "PUT" {
					body = []byte("12345")
				}
				eve.send(t, method, fill(path, "{id}", of), body).problem(t, drive.NotFound, nil)
			}
		}
	}
	if len(allowed) > 0 || tried < 50 {
		t.Errorf("%d routes were tried, and not %v", tried, allowed)
	}
	if got := eve.get(t, "/uploads").items(t); len(got) != 0 {
		t.Errorf("eve sees %v", got)
	}
	if got := bob.get(t, "/uploads").items(t); len(got) != 1 || got[0]["id"] != bobs || got[0]["path"] != "/b" {
		t.Errorf("bob sees %v", got)
	}
	share.access = bob.token
	share.get(t, "/nodes/root").problem(t, drive.Unauthenticated, nil)
	user{stack: s, token: forge(bob.token, 4)}.get(t, "/uploads").problem(t, drive.Unauthenticated, map[string]any{"reason": "invalid"})
}

func TestSendersSendAndSeeOnlyWhatTheySent(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u := s.newUser(t, "ann", 0)
	folder := u.folder(t, "/in")
	link, id := u.collectInto(t, folder, map[string]any{"message": "by Friday", "max_file": 1 << 20})
	got := s.do(t, request{method: "GET", path: "/api/v1/public/collects/" + link}).json(t, http.StatusOK)
	if got["title"] != "Homework" || got["message"] != "by Friday" || got["owner"] != "ann" || got["max_file"] != float64(1<<20) || got["left"] != nil {
		t.Errorf("the link is %v", got)
	}
	bob, eve := s.sender(t, link, "bob"), s.sender(t, link, "")
	secret := []byte("what ann has already: " + strings.Repeat("x", 70_000))
	u.put(t, "/elsewhere", secret)
	sum := blake3.Sum256(secret)
	claim := map[string]any{"blake3": hex.EncodeToString(sum[:])}

	one := bob.sendFile(t, "a.txt", []byte("one"))
	two := eve.sendFile(t, "a.txt", []byte("two"))
	for _, up := range []map[string]any{one, two} {
		node := up["node"].(map[string]any)
		if up["path"] != "/a.txt" || node["name"] != "a.txt" || node["path"] != "/a.txt" || node["parent_id"] != nil {
			t.Errorf("a sender sees %v", up)
		}
	}
	names := map[string]string{}
	for _, n := range u.get(t, "/nodes/"+folder+"/children").items(t) {
		names[n["name"].(string)] = string(u.get(t, "/nodes/"+n["id"].(string)+"/content").body)
	}
	if names["a.txt"] != "one" || names["a (2).txt"] != "two" {
		t.Errorf("the folder has %v", names)
	}

	// Another sender's upload is not found, and a digest claim reveals nothing.
	begin := map[string]any{"path": "/big", "size": len(secret), "fingerprint": "same", "digests": claim}
	up := bob.post(t, "/uploads", begin).json(t, http.StatusCreated)
	if up["challenge"] != nil || up["state"] != "active" {
		t.Errorf("a claim is answered: %v", up)
	}
	if again := bob.post(t, "/uploads", begin).json(t, http.StatusOK); again["id"] != up["id"] {
		t.Errorf("the sender's own upload is not found: %v", again)
	}
	if others := eve.post(t, "/uploads", begin).json(t, http.StatusCreated); others["id"] == up["id"] {
		t.Error("another sender's upload is found")
	}
	at := "/uploads/" + up["id"].(string)
	if got := bob.send(t, "PATCH", at, map[string]any{"digests": claim}).json(t, http.StatusOK); got["challenge"] != nil || got["state"] != "active" {
		t.Errorf("a later claim is answered: %v", got)
	}
	bob.send(t, "PATCH", at, map[string]any{"name": "other"}).problem(t, drive.Forbidden, nil)
	wrong := append([]byte("X"), secret[1:]...)
	bob.send(t, "PUT", at+"/parts/0", wrong)
	bob.post(t, at+"/complete", nil).problem(t, drive.DigestMismatch, nil) // what was declared at begin is verified
	bob.send(t, "DELETE", at+"/parts/0", nil)
	bob.send(t, "PUT", at+"/parts/0", secret)
	bob.post(t, at+"/complete", map[string]any{"parent": "root", "name": "moved", "conflict": "replace"}).json(t, http.StatusCreated)
	u.get(t, "/nodes?path=/moved").problem(t, drive.NotFound, nil)
	u.get(t, "/nodes?path=/in/big").json(t, http.StatusOK)

	put := bob.send(t, "PUT", "/files/a.txt", []byte("three"), "Repr-Digest", reprOf([]byte("three"))).json(t, http.StatusCreated)
	if put["name"] != "a.txt" || put["path"] != "/a.txt" || put["size"] != 5.0 {
		t.Errorf("PUT shows %v", put)
	}
	if got := string(u.get(t, "/nodes/"+put["id"].(string)+"/content").body); got != "three" {
		t.Errorf("PUT has stored %q", got)
	}
	bob.send(t, "PUT", "/files/z", []byte("four"), "Repr-Digest", reprOf([]byte("five"))).problem(t, drive.DigestMismatch, nil)
	bob.send(t, "PUT", "/files/sub/a.txt", []byte("x")).problem(t, drive.BadRequest, map[string]any{"field": "path"})
	bob.post(t, "/uploads", map[string]any{"path": "/x", "size": nil}).problem(t, drive.BadRequest, map[string]any{"field": "size"})
	bob.post(t, "/uploads", map[string]any{"parent": "root", "name": "x", "size": 1}).problem(t, drive.BadRequest, map[string]any{"field": "parent"})
	bob.post(t, "/uploads", map[string]any{"path": "/x", "size": 1<<20 + 1}).problem(t, drive.TooLarge, map[string]any{"limit": 1 << 20})

	files := u.get(t, "/collects/"+id+"/files").items(t)
	if len(files) != 5 || files[len(files)-1]["sender"] != "bob" || files[len(files)-1]["state"] != "done" || files[len(files)-1]["node_id"] == nil {
		t.Errorf("the owner sees %v", files)
	}
	view := u.get(t, "/collects/"+id).json(t, http.StatusOK)
	if view["files"] != 4.0 || view["received"] != float64(3+3+5+len(secret)) || view["arriving"] != float64(len(secret)) {
		t.Errorf("the owner sees %v", view)
	}
}

func reprOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}

func TestABudgetHoldsForAllSenders(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u := s.newUser(t, "ann", 1<<20)
	link, id := u.collectInto(t, u.folder(t, "/in"), map[string]any{"max_bytes": 1000})
	var begun atomic.Int32
	var all sync.WaitGroup
	ups := make(chan string, callers)
	for i := range callers {
		bob := s.sender(t, link, "bob")
		all.Go(func() {
			got := bob.post(t, "/uploads", map[string]any{"path": fmt.Sprint("/f", i), "size": 100})
			if got.StatusCode == http.StatusCreated {
				begun.Add(1)
				ups <- got.json(t, http.StatusCreated)["id"].(string)
				return
			}
			got.problem(t, drive.Quota, map[string]any{"needed": 100})
		})
	}
	all.Wait()
	if begun.Load() != 10 {
		t.Errorf("%d uploads of 100 bytes were begun, want 10", begun.Load())
	}
	if got := u.get(t, "/collects/"+id).json(t, http.StatusOK); got["left"] != 0.0 || got["state"] != "full" || got["arriving"] != 1000.0 {
		t.Errorf("full, it is %v", got)
	}
	u.send(t, "DELETE", "/uploads/"+<-ups, nil) // the owner may, too
	bob := s.sender(t, link, "bob")
	bob.sendFile(t, "last", pattern(100))
	bob.post(t, "/uploads", map[string]any{"path": "/more", "size": 1}).problem(t, drive.Quota, map[string]any{"available": 0})
	u.send(t, "PATCH", "/collects/"+id, map[string]any{"max_bytes": nil}).json(t, http.StatusOK)
	doc := bob.post(t, "/uploads", map[string]any{"path": "/huge", "size": 1 << 30}).problem(t, drive.Quota, nil)
	if doc["available"] != nil {
		t.Errorf("the account's room is told: %v", doc)
	}
}

func TestCollectLinksEnd(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u, boss := s.newUser(t, "ann", 0), s.admin(t)
	folder := u.folder(t, "/in")
	link, id := u.collectInto(t, folder, map[string]any{"expires_in": 3600})
	bob := s.sender(t, link, "bob")
	up := bob.post(t, "/uploads", map[string]any{"path": "/f", "size": 4}).json(t, http.StatusCreated)["id"].(string)
	refused := func(reason string) {
		t.Helper()
		s.Clock.Advance(5 * time.Second)
		bob.send(t, "PUT", "/uploads/"+up+"/parts/0", []byte("text")).problem(t, drive.Gone, map[string]any{"reason": reason})
		s.do(t, request{method: "GET", path: "/api/v1/public/collects/" + link}).problem(t, drive.Gone, map[string]any{"reason": reason})
	}
	u.send(t, "DELETE", "/nodes/"+folder, nil)
	refused("withdrawn")
	u.post(t, "/nodes/"+folder+"/restore", "{}").json(t, http.StatusOK)
	boss.send(t, "PATCH", "/admin/users/"+u.id, map[string]any{"state": "disabled"}).json(t, http.StatusOK)
	refused("withdrawn")
	boss.send(t, "PATCH", "/admin/users/"+u.id, map[string]any{"state": "active"}).json(t, http.StatusOK)
	s.Clock.Advance(5 * time.Second)
	if got := bob.send(t, "PUT", "/uploads/"+up+"/parts/0", []byte("text")); got.StatusCode != http.StatusNoContent {
		t.Fatalf("open again: %s", got)
	}
	other, kept := u.collectInto(t, folder, nil)
	eve := s.sender(t, other, "eve")
	theirs := eve.post(t, "/uploads", map[string]any{"path": "/g", "size": 4}).json(t, http.StatusCreated)["id"].(string)
	u.send(t, "DELETE", "/collects/"+kept, nil)
	eve.send(t, "PUT", "/uploads/"+theirs+"/parts/0", []byte("text")).problem(t, drive.Gone, map[string]any{"reason": "withdrawn"})
	u.get(t, "/uploads/"+theirs).problem(t, drive.Gone, map[string]any{"reason": "cancelled"})
	s.do(t, request{method: "GET", path: "/api/v1/public/collects/" + other}).problem(t, drive.NotFound, nil)
	s.Clock.Advance(time.Hour)
	bob.get(t, "/uploads").problem(t, drive.Unauthenticated, map[string]any{"reason": "expired"})
	if got := u.get(t, "/collects/"+id).json(t, http.StatusOK); got["state"] != "expired" {
		t.Errorf("the owner sees %v", got)
	}
}

// turning is a body before whose first byte something happens.
type turning struct {
	io.Reader
	do func()
}

func (b *turning) Read(p []byte) (int, error) {
	if b.do != nil {
		b.do()
		b.do = nil
	}
	return b.Reader.Read(p)
}

// A link that is closed during an upload is closed for that upload: no part is acknowledged, and no
// file is created.
func TestLinkClosedDuringUpload(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"a part", "a file"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := newStack(t, uploadtest.Options{})
			u := s.newUser(t, "ann", 0)
			folder := u.folder(t, "/in")
			link, _ := u.collectInto(t, folder, nil)
			bob := s.sender(t, link, "bob")
			up := bob.post(t, "/uploads", map[string]any{"path": "/f", "size": 4}).json(t, http.StatusCreated)["id"].(string)
			in := request{method: "PUT", path: "/api/v1/uploads/" + up + "/parts/0", token: bob.token, length: 4}
			if way == "a file" {
				in.path = "/api/v1/files/f"
			}
			in.body = &turning{Reader: strings.NewReader("text"), do: func() {
				u.send(t, "DELETE", "/nodes/"+folder, nil)
				s.Clock.Advance(5 * time.Second)
			}}
			s.do(t, in).problem(t, drive.Gone, map[string]any{"reason": "withdrawn"})
			u.post(t, "/nodes/"+folder+"/restore", "{}").json(t, http.StatusOK)
			if got := u.get(t, "/nodes/"+folder+"/children").items(t); len(got) != 0 {
				t.Errorf("the folder has %v", got)
			}
			// An interrupted upload continues when the link is open again.
			s.Clock.Advance(5 * time.Second)
			bob.send(t, "PUT", "/uploads/"+up+"/parts/0", []byte("text"))
			bob.post(t, "/uploads/"+up+"/complete", nil).json(t, http.StatusCreated)
		})
	}
}

// TestSendersHaveSeparateKeys repeats a creation under the owner's key: the answer must not be the
// owner's.
func TestSendersHaveSeparateKeys(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u := s.newUser(t, "ann", 0)
	link, _ := u.collectInto(t, "root", nil)
	bob := s.sender(t, link, "bob")
	in := map[string]any{"path": "/f", "size": 4}
	mine := u.post(t, "/uploads", in, "Idempotency-Key", "k").json(t, http.StatusCreated)
	theirs := bob.post(t, "/uploads", in, "Idempotency-Key", "k").json(t, http.StatusCreated)
	again := bob.post(t, "/uploads", in, "Idempotency-Key", "k")
	if theirs["id"] == mine["id"] || again.json(t, http.StatusCreated)["id"] != theirs["id"] || again.Header.Get("Idempotent-Replayed") == "" {
		t.Errorf("mine %v, theirs %v, again %s", mine["id"], theirs["id"], again)
	}
}
