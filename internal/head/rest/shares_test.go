package rest_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// visitor is a client without a token that has a share's link.
type visitor struct {
	*stack
	token, access string
}

func (v visitor) send(t testing.TB, method, path string, body any, header ...string) response {
	t.Helper()
	in := request{method: method, path: "/api/v1/public/shares/" + v.token + path, body: body, header: map[string]string{}}
	if v.access != "" {
		in.header["Authorization"] = "Share " + v.access
	}
	for i := 0; i+1 < len(header); i += 2 {
		in.header[header[i]] = header[i+1]
	}
	return v.do(t, in)
}

func (v visitor) get(t testing.TB, path string, header ...string) response {
	t.Helper()
	return v.send(t, "GET", path, nil, header...)
}

// open lets the visitor in.
func (v visitor) open(t testing.TB, code string) visitor {
	t.Helper()
	v.access = v.send(t, "POST", "/open", map[string]any{"code": code}).json(t, http.StatusOK)["access"].(string)
	return v
}

func (u user) shareOf(t testing.TB, node string, more map[string]any) (visitor, map[string]any) {
	t.Helper()
	in := map[string]any{"node": node}
	maps.Copy(in, more)
	made := u.post(t, "/shares", in).json(t, http.StatusCreated)
	return visitor{stack: u.stack, token: made["token"].(string)}, made
}

func TestShareShowsOnlyItsSubtree(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	inside, outside := u.put(t, "/top/pub/sub/a.txt", []byte("first")), u.put(t, "/top/secret", []byte("x"))
	pub := u.get(t, "/nodes?path=/top/pub").json(t, http.StatusOK)["id"].(string)
	v, _ := u.shareOf(t, pub, nil)
	if got := v.get(t, "").json(t, http.StatusOK); got["name"] != "pub" || got["needs_code"] != false || got["owner"] != "ann" || got["type"] != "folder" {
		t.Errorf("the share is %v", got)
	}
	v.get(t, "/nodes/root").problem(t, drive.Unauthenticated, map[string]any{"reason": "missing"})
	v = v.open(t, "")
	if got := v.get(t, "/nodes/root").json(t, http.StatusOK); got["id"] != pub || got["parent_id"] != nil || got["path"] != "/" {
		t.Errorf("the node is %v", got)
	}
	sub := v.get(t, "/nodes/root/children").items(t)[0]
	a := v.get(t, "/nodes/"+sub["id"].(string)+"/children").items(t)[0]
	if a["path"] != "/sub/a.txt" || a["parent_id"] != sub["id"] || a["id"] != inside["id"] || a["size"] != 5.0 {
		t.Errorf("the file is %v", a)
	}
	content := "/nodes/" + inside["id"].(string) + "/content"
	if got := v.get(t, content); string(got.body) != "first" {
		t.Errorf("it reads %s", got)
	}
	u.put(t, "/top/pub/sub/a.txt", []byte("second"))
	if got := v.get(t, content); string(got.body) != "second" {
		t.Errorf("after a replace it reads %s", got)
	}
	top := u.get(t, "/nodes?path=/top").json(t, http.StatusOK)["id"].(string)
	root := u.get(t, "/nodes/root").json(t, http.StatusOK)["id"].(string)
	for _, id := range []any{outside["id"], top, root, "x"} {
		for _, what := range []string{"", "/children", "/content"} {
			v.get(t, fmt.Sprint("/nodes/", id, what)).problem(t, drive.NotFound, nil)
		}
	}
	u.send(t, "PATCH", "/nodes/"+sub["id"].(string), map[string]any{"parent": top}).json(t, http.StatusOK)
	v.get(t, content).problem(t, drive.NotFound, nil)
	u.send(t, "PATCH", "/nodes/"+sub["id"].(string), map[string]any{"parent": pub}).json(t, http.StatusOK)
	v.get(t, content+"?access="+v.access, "Authorization", "") // the query works as the header does
	u.send(t, "DELETE", "/nodes/"+top, nil)
	for _, what := range []string{"", "/nodes/root", content} {
		v.get(t, what).problem(t, drive.Gone, map[string]any{"reason": "withdrawn"})
	}
	u.post(t, "/nodes/"+top+"/restore", "{}").json(t, http.StatusOK)
	v.get(t, content).Header.Get("ETag")
	if got := v.get(t, content); string(got.body) != "second" {
		t.Errorf("after the trash it reads %s", got)
	}
}

func TestCodesOfSharesCannotBeGuessed(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u := s.newUser(t, "ann", 0)
	v, made := u.shareOf(t, u.put(t, "/f", []byte("text"))["id"].(string), map[string]any{"code": "auto"})
	code := made["code"].(string)
	if got := v.get(t, "").json(t, http.StatusOK); got["needs_code"] != true || got["name"] != nil || got["owner"] != nil {
		t.Errorf("without the code it shows %v", got)
	}
	in := v.open(t, " "+code)
	if got := in.get(t, "").json(t, http.StatusOK); got["needs_code"] != false || got["name"] != "f" {
		t.Errorf("with an access it shows %v", got)
	}
	for range 10 {
		v.send(t, "POST", "/open", map[string]any{"code": "wrong"}).problem(t, drive.WrongCode, nil)
	}
	v.send(t, "POST", "/open", map[string]any{"code": code}).problem(t, drive.Rate, nil)
	in.get(t, "/nodes/root").json(t, http.StatusOK)
	s.Clock.Advance(15 * time.Minute)
	v.open(t, code)

	id := made["id"].(string)
	u.send(t, "PATCH", "/shares/"+id, map[string]any{"code": "Abcd1234"}).json(t, http.StatusOK)
	in.get(t, "/nodes/root").problem(t, drive.Unauthenticated, map[string]any{"reason": "invalid"})
	v = v.open(t, "abcd1234")
	other, _ := u.shareOf(t, made["node"].(map[string]any)["id"].(string), nil)
	other.access = v.access
	other.get(t, "/nodes/root").problem(t, drive.Unauthenticated, map[string]any{"reason": "invalid"})
	if got := u.send(t, "PATCH", "/shares/"+id, map[string]any{"code": nil}).json(t, http.StatusOK); got["code"] != nil {
		t.Errorf("without a code it is %v", got)
	}
	v.open(t, "")
	s.Clock.Advance(61 * time.Minute)
	v.get(t, "/nodes/root").problem(t, drive.Unauthenticated, map[string]any{"reason": "invalid"})
	v = v.open(t, "")
	s.Clock.Advance(61 * time.Minute)
	v.get(t, "/nodes/root").problem(t, drive.Unauthenticated, map[string]any{"reason": "expired"})
}

func TestDownloadsAreCountedOnceAndNeverBeyondTheLimit(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	file := u.put(t, "/f", pattern(1000))["id"].(string)
	v, made := u.shareOf(t, file, map[string]any{"max_downloads": 3})
	one, two := v.open(t, ""), v.open(t, "")
	const content = "/nodes/root/content"
	count := func(want float64, state string) {
		t.Helper()
		got := u.get(t, "/shares/"+made["id"].(string)).json(t, http.StatusOK)
		if got["downloads"] != want || got["state"] != state {
			t.Fatalf("%v downloads, %v; want %v, %s", got["downloads"], got["state"], want, state)
		}
	}
	first := one.get(t, content, "Range", "bytes=0-9")
	if first.StatusCode != http.StatusPartialContent {
		t.Fatalf("the first range: %s", first)
	}
	count(1, "open")
	tag := first.Header.Get("ETag")
	for _, header := range [][]string{{"Range", "bytes=10-19"}, {"Range", "bytes=20-", "If-Range", tag}} {
		if got := one.get(t, content, header...); got.StatusCode != http.StatusPartialContent {
			t.Errorf("%v: %d", header, got.StatusCode)
		}
	}
	one.send(t, "HEAD", content, nil)
	if got := one.get(t, content, "If-None-Match", tag); got.StatusCode != http.StatusNotModified {
		t.Errorf("not modified: %d", got.StatusCode)
	}
	one.get(t, content, "Range", "bytes=5000-").problem(t, drive.Range, nil)
	count(1, "open")
	two.get(t, content, "Range", "bytes=990-") // it has begun nothing: this is a download of its own
	count(2, "open")
	if got := one.get(t, content, "Range", "bytes=20-", "If-Range", `"other"`); got.StatusCode != http.StatusOK { // all of it
		t.Errorf("another file: %d", got.StatusCode)
	}
	count(3, "used-up")
	if got := two.get(t, content, "Range", "bytes=0-989"); got.StatusCode != http.StatusPartialContent { // the rest of what it has begun
		t.Errorf("the first piece after a later one: %s", got)
	}
	count(3, "used-up")
	two.get(t, content).problem(t, drive.Gone, map[string]any{"reason": "used-up"})
	v.get(t, "").problem(t, drive.Gone, map[string]any{"reason": "used-up"})
	v.send(t, "POST", "/open", nil).problem(t, drive.Gone, map[string]any{"reason": "used-up"})
	if got := one.get(t, content, "Range", "bytes=500-"); got.StatusCode != http.StatusPartialContent {
		t.Errorf("what was begun cannot be ended: %s", got)
	}
	count(3, "used-up")

	u.send(t, "PATCH", "/shares/"+made["id"].(string), map[string]any{"max_downloads": 10}).json(t, http.StatusOK)
	var given atomic.Int32
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range 3 {
				switch got := one.get(t, content); got.StatusCode {
				case http.StatusOK:
					given.Add(1)
				case http.StatusGone:
				default:
					t.Errorf("a download: %s", got)
				}
			}
		})
	}
	all.Wait()
	if given.Load() != 7 {
		t.Errorf("%d of %d got it, want 7", given.Load(), 3*callers)
	}
	count(10, "used-up")
}

// A player that first looks whether ranges are understood begins one download, not two, also where
// there is only one.
func TestAProbeIsNoDownload(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	const content = "/nodes/root/content"
	v, _ := u.shareOf(t, u.put(t, "/film", pattern(1000))["id"].(string), map[string]any{"max_downloads": 1})
	one := v.open(t, "")
	for _, header := range []string{"bytes=0-0", "bytes=0-1", "bytes=0-", "bytes=500-"} {
		if got := one.get(t, content, "Range", header); got.StatusCode != http.StatusPartialContent {
			t.Errorf("%s: %s", header, got)
		}
	}
	for _, header := range []string{"bytes=0-", "bytes=0-2"} {
		one.get(t, content, "Range", header).problem(t, drive.Gone, map[string]any{"reason": "used-up"})
	}
	v, _ = u.shareOf(t, u.put(t, "/tiny", pattern(2))["id"].(string), map[string]any{"max_downloads": 1})
	one = v.open(t, "")
	one.get(t, content, "Range", "bytes=0-1") // all of it
	one.get(t, content, "Range", "bytes=0-1").problem(t, drive.Gone, map[string]any{"reason": "used-up"})
}

func TestSharesEnd(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u, boss := s.newUser(t, "ann", 0), s.admin(t)
	file := u.put(t, "/f", []byte("text"))["id"].(string)
	v, made := u.shareOf(t, file, map[string]any{"expires_in": 3600})
	v = v.open(t, "")
	boss.send(t, "PATCH", "/admin/users/"+u.id, map[string]any{"state": "disabled"}).json(t, http.StatusOK)
	v.get(t, "/nodes/root/content").problem(t, drive.Gone, map[string]any{"reason": "withdrawn"})
	boss.send(t, "PATCH", "/admin/users/"+u.id, map[string]any{"state": "active"}).json(t, http.StatusOK)
	if got := v.get(t, "/nodes/root/content"); string(got.body) != "text" {
		t.Errorf("it reads %s", got)
	}
	s.Clock.Advance(time.Hour)
	v.get(t, "").problem(t, drive.Gone, map[string]any{"reason": "expired"})
	at := "/shares/" + made["id"].(string)
	if got := u.get(t, at).json(t, http.StatusOK); got["state"] != "expired" || got["views"] != 1.0 {
		t.Errorf("the owner sees %v", got)
	}
	u.send(t, "PATCH", at, map[string]any{"expires_in": nil}).json(t, http.StatusOK)
	v.open(t, "")
	u.send(t, "DELETE", at, nil)
	v.get(t, "").problem(t, drive.NotFound, nil)
	u.send(t, "DELETE", at, nil).problem(t, drive.NotFound, nil)

	v, made = u.shareOf(t, file, nil)
	boss.send(t, "DELETE", "/admin/users/"+u.id, nil)
	v.get(t, "").problem(t, drive.Gone, map[string]any{"reason": "withdrawn"})
	_ = made
}

// A copy of the database opens no link: neither the rows nor the stored idempotent responses
// contain the secret.
func TestACopyOfTheDatabaseOpensNoLink(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	const code = "Kq7Zw9xT"
	in := map[string]any{"node": u.put(t, "/a", []byte("1"))["id"], "code": code}
	share := u.post(t, "/shares", in, "Idempotency-Key", "k").json(t, http.StatusCreated)
	into := map[string]any{"folder": "root", "title": "x"}
	collect := u.post(t, "/collects", into, "Idempotency-Key", "k").json(t, http.StatusCreated)
	dump := sqldbtest.Dump(t, u.DB)
	for _, secret := range []string{share["token"].(string), code, collect["token"].(string)} {
		if strings.Contains(dump, secret) {
			t.Errorf("%s is in it", secret)
		}
	}
	if again := u.post(t, "/collects", into, "Idempotency-Key", "k").json(t, http.StatusCreated); again["url"] != collect["url"] {
		t.Errorf("the repeat made %v", again)
	}
	in["code"] = "Kq7Zw9xU"
	u.post(t, "/shares", in, "Idempotency-Key", "k").problem(t, drive.KeyReused, nil)
}

func TestSharesAreMadeOnceAndListed(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	a, b := u.put(t, "/a", []byte("1"))["id"].(string), u.put(t, "/b", []byte("2"))["id"].(string)
	in := map[string]any{"node": a, "code": "auto", "max_downloads": 5}
	first := u.post(t, "/shares", in, "Idempotency-Key", "k").json(t, http.StatusCreated)
	if again := u.post(t, "/shares", in, "Idempotency-Key", "k").json(t, http.StatusCreated); again["token"] != first["token"] || again["code"] != first["code"] {
		t.Errorf("the repeat made %v", again)
	}
	u.shareOf(t, b, nil)
	if got := u.get(t, "/shares").items(t); len(got) != 2 || got[1]["id"] != first["id"] {
		t.Errorf("the list is %v", got)
	}
	if got := u.get(t, "/shares?node="+a).items(t); len(got) != 1 || got[0]["url"] != "http://example.com/s/"+first["token"].(string) {
		t.Errorf("the list of a node is %v", got)
	}
	u.post(t, "/shares", map[string]any{"node": "root"}).problem(t, drive.BadRequest, map[string]any{"field": "node"})
	for _, wrong := range []map[string]any{{"code": "abc"}, {"code": "has space"}, {"expires_in": 1}, {"max_downloads": 0}} {
		wrong["node"] = a
		u.post(t, "/shares", wrong).problem(t, drive.BadRequest, nil)
	}
	u.send(t, "DELETE", "/nodes/"+a, nil)
	u.post(t, "/shares", map[string]any{"node": a}).problem(t, drive.WrongState, nil)
	u.send(t, "DELETE", "/nodes/"+a+"?permanent=true", nil)
	if got := u.get(t, "/shares/"+first["id"].(string)).json(t, http.StatusOK); got["state"] != "gone" {
		t.Errorf("the share of what is gone is %v", got)
	}
}
