package rest_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// fault is a bad request and the problem that it is answered with.
type fault struct {
	method, path string
	body         any
	header       []string
	kind         drive.Kind
	want         map[string]any
}

func bad(field string, reason drive.Reason) map[string]any {
	return map[string]any{"field": field, "reason": string(reason)}
}

func (u user) refuses(t *testing.T, faults []fault) {
	t.Helper()
	for _, f := range faults {
		name := fmt.Sprintf("%s %s %s %q", f.method, f.path, short(f.body), f.header)
		got := u.send(t, f.method, f.path, f.body, f.header...)
		if got.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %s", name, got)
			continue
		}
		doc := got.json(t, got.StatusCode)
		if doc["code"] != f.kind.String() {
			t.Errorf("%s: %s, want %s", name, got, f.kind)
		}
		for member, want := range f.want {
			if got, want := asJSON(t, doc[member]), asJSON(t, want); got != want {
				t.Errorf("%s: %s is %s, want %s", name, member, got, want)
			}
		}
	}
}

func short(body any) string {
	switch b := body.(type) {
	case string:
		return b[:min(len(b), 100)]
	case []byte:
		return fmt.Sprintf("%d bytes", len(b))
	}
	return fmt.Sprintf("%T", body)
}

// with returns a valid begin body with one member replaced.
func with(member, value string) string {
	members := map[string]string{"path": `"/x"`, "size": "10"}
	members[member] = value
	var list []string
	for name, v := range members {
		if v != "" {
			list = append(list, fmt.Sprintf("%q:%s", name, v))
		}
	}
	return "{" + strings.Join(list, ",") + "}"
}

func TestEveryFieldOfBeginIsChecked(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	var faults []fault
	add := func(body string, kind drive.Kind, want map[string]any) {
		faults = append(faults, fault{method: "POST", path: "/uploads", body: body, kind: kind, want: want})
	}
	for _, member := range []string{"path", "parent", "name", "size", "digests", "fingerprint", "conflict", "parents", "part_size", "mtime", "mime"} {
		for _, value := range []string{`[1]`, `{"a":{}}`, `1.5`} {
			add(with(member, value), drive.BadRequest, bad(member, drive.Malformed))
		}
		if member != "size" {
			add(with(member, `null`), drive.BadRequest, bad(member, drive.Malformed))
		}
	}
	add(with("size", ""), drive.BadRequest, bad("size", drive.Required))
	add(with("size", "-1"), drive.BadRequest, map[string]any{"field": "size", "reason": drive.OutOfRange, "sent": -1})
	add(with("size", "9223372036854775808"), drive.BadRequest, bad("size", drive.Malformed))
	add(with("size", "17592186044417"), drive.TooLarge, map[string]any{"field": "size", "limit": float64(16 << 40)})
	add(with("size", `"10"`), drive.BadRequest, map[string]any{"field": "size", "expected": "an integer"})
	add(with("size", "1e3"), drive.BadRequest, bad("size", drive.Malformed))
	add(with("path", ""), drive.BadRequest, bad("path", drive.Required))
	for value, reason := range map[string]string{
		`"x"`: "not-absolute", `""`: "not-absolute", `"/"`: "root", `"/a//b"`: "empty", `"/a/"`: "empty", `"/a/../b"`: "dots", `"/."`: "dots",
		`"/a\u0000"`: "control", `"/` + strings.Repeat("x", 256) + `"`: "too-long", `"` + strings.Repeat("/a", 129) + `"`: "too-deep",
		`"` + strings.Repeat("/"+strings.Repeat("y", 250), 17) + `"`: "path-too-long",
	} {
		add(with("path", value), drive.BadName, map[string]any{"field": "path", "reason": reason})
	}
	add(`{"path":"/x","parent":"root","size":1}`, drive.BadRequest, map[string]any{"field": "path", "reason": drive.NotTogether, "with": "parent"})
	add(`{"path":"/x","name":"y","size":1}`, drive.BadRequest, map[string]any{"field": "path", "reason": drive.NotTogether, "with": "name"})
	add(`{"parent":"root","size":1}`, drive.BadRequest, bad("name", drive.Required))
	add(`{"name":"x","size":1}`, drive.BadRequest, bad("parent", drive.Required))
	add(`{"parent":"ROOT","name":"x","size":1}`, drive.NotFound, nil)
	for value, reason := range map[string]string{`""`: "empty", `"a/b"`: "slash", `".."`: "dots", `"\n"`: "control", `"` + strings.Repeat("é", 128) + `"`: "too-long"} {
		add(`{"parent":"root","size":1,"name":`+value+`}`, drive.BadName, map[string]any{"field": "name", "reason": reason})
	}
	add(with("conflict", `"overwrite"`), drive.BadRequest, bad("conflict", drive.NotAllowed))
	add(with("conflict", `""`), drive.BadRequest, bad("conflict", drive.NotAllowed))
	add(with("fingerprint", `"`+strings.Repeat("f", 129)+`"`), drive.BadRequest, map[string]any{"field": "fingerprint", "limit": 128, "sent": 129})
	for _, value := range []string{"0", "-1", "1", "1048575", "4294967296"} {
		add(with("part_size", value), drive.BadRequest, bad("part_size", drive.OutOfRange))
	}
	add(with("part_size", "3145728"), drive.BadRequest, bad("part_size", drive.Malformed))
	for _, value := range []string{`"yesterday"`, `"2026-13-01T00:00:00Z"`, `"2026-01-01"`, `1700000000000`} {
		add(with("mtime", value), drive.BadRequest, map[string]any{"field": "mtime", "expected": "an RFC 3339 time"})
	}
	for _, value := range []string{`""`, `"text"`, `"text/"`, `"text/plain\r\nX: y"`, `"text/plain;\r\n x=y"`, `"text/` + strings.Repeat("x", 255) + `"`} {
		add(with("mime", value), drive.BadRequest, bad("mime", drive.Malformed))
	}
	for value, reason := range map[string]drive.Reason{
		`{"crc32":"00"}`: drive.NotAllowed, `{"sha256":"00"}`: drive.Malformed, `{"md5":"` + strings.Repeat("0", 64) + `"}`: drive.Malformed,
		`{"blake3":"` + strings.Repeat("A", 64) + `"}`: drive.Malformed, `{"sm3":"` + strings.Repeat("g", 64) + `"}`: drive.Malformed, `{"md5":1}`: drive.Malformed,
	} {
		add(with("digests", value), drive.BadRequest, map[string]any{"reason": reason})
	}
	u.refuses(t, faults)
	if left := u.get(t, "/uploads").items(t); len(left) != 0 {
		t.Errorf("refused requests left %v", left)
	}
}

func TestBodiesAreReadStrictly(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	long := `{"path":"/` + strings.Repeat("x", 1<<20) + `"}`
	post := func(body any, kind drive.Kind, want map[string]any, header ...string) fault {
		return fault{method: "POST", path: "/uploads", body: body, header: header, kind: kind, want: want}
	}
	u.refuses(t, []fault{
		post("", drive.BadRequest, bad("body", drive.Required)),
		post(nil, drive.BadRequest, bad("body", drive.Required)),
		post("[]", drive.BadRequest, bad("body", drive.Malformed)),
		post("null", drive.BadRequest, bad("body", drive.Malformed)),
		post(`{"path":"/x","size":1`, drive.BadRequest, bad("body", drive.Malformed)),
		post(`{"path":"/x","size":1} x`, drive.BadRequest, bad("body", drive.Malformed)),
		post(`{"path":"/x","size":1}{}`, drive.BadRequest, bad("body", drive.Malformed)),
		post(`{'path':'/x'}`, drive.BadRequest, bad("body", drive.Malformed)),
		post("{\"path\":\"/\xff\",\"size\":1}", drive.BadRequest, map[string]any{"field": "body", "expected": "a JSON object in UTF-8"}),
		post(`{"path":"/\ud800","size":1}`, drive.BadRequest, bad("body", drive.Malformed)),
		post(`{"path":"/\ud83d\u0041","size":1}`, drive.BadRequest, bad("body", drive.Malformed)),
		post(`{"path":"/\ude00\ud83d","size":1}`, drive.BadRequest, bad("body", drive.Malformed)),
		post(`{"path":"/x","size":1,"more":1}`, drive.BadRequest, bad("more", drive.Unknown)),
		post(`{"Path":"/x","size":1}`, drive.BadRequest, bad("Path", drive.Unknown)),
		post(`{"path":"/x","path":"/y","size":1}`, drive.BadRequest, map[string]any{"field": "path", "expected": "one value"}),
		post(long, drive.TooLarge, map[string]any{"limit": 1 << 20, "sent": len(long)}),
		post(struct{ io.Reader }{strings.NewReader(long)}, drive.TooLarge, map[string]any{"limit": 1 << 20}, "Content-Type", "application/json"),
		post(`{"path":"/x","size":1}`, drive.MediaType, map[string]any{"sent": "text/plain", "expected": "application/json"}, "Content-Type", "text/plain"),
		post(`{"path":"/x","size":1}`, drive.MediaType, nil, "Content-Type", ""),
		post(`{"path":"/x","size":1}`, drive.MediaType, nil, "Content-Type", "application/json; charset=gbk"),
		post(`{"path":"/x","size":1}`, drive.MediaType, map[string]any{"field": "Content-Encoding"}, "Content-Encoding", "gzip"),
	})
	if got := u.post(t, "/uploads", `{"path":"/\ud83d\ude00\\\ud83d\ude01","size":1}`).json(t, http.StatusCreated)["path"]; got != `/😀\😁` {
		t.Errorf("escaped characters become %v", got)
	}
	if got := u.post(t, "/uploads", `{"path":"/x","size":1}`, "Content-Type", "application/json; charset=UTF-8"); got.StatusCode != http.StatusCreated {
		t.Errorf("a charset of UTF-8: %s", got)
	}
}

func TestQueriesAreReadStrictly(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	get := func(path string, kind drive.Kind, want map[string]any) fault {
		return fault{method: "GET", path: path, kind: kind, want: want}
	}
	limits := map[string]any{"field": "limit", "reason": drive.OutOfRange, "min": 1, "max": 1000}
	faults := []fault{
		get("/nodes", drive.BadRequest, bad("path", drive.Required)),
		get("/nodes?path=", drive.BadRequest, bad("path", drive.Required)),
		get("/nodes?path=x", drive.BadName, map[string]any{"reason": "not-absolute"}),
		get("/nodes?path=/%FF", drive.BadName, map[string]any{"reason": "not-utf8"}),
		get("/nodes?path=%zz", drive.BadRequest, bad("query", drive.Malformed)),
		get("/nodes?path=/&path=/", drive.BadRequest, bad("path", drive.Malformed)),
		get("/me?verbose=1", drive.BadRequest, bad("verbose", drive.Unknown)),
		get("/nodes/root/children?sort=colour", drive.BadRequest, bad("sort", drive.NotAllowed)),
		get("/nodes/root/children?order=up", drive.BadRequest, bad("order", drive.NotAllowed)),
		get("/changes?after=x", drive.BadRequest, bad("after", drive.Malformed)),
		get("/changes?after=-1", drive.BadRequest, bad("after", drive.Malformed)),
		{method: "DELETE", path: "/nodes/root?permanent=maybe", kind: drive.BadRequest, want: bad("permanent", drive.NotAllowed)},
		{method: "PUT", path: "/files/x?conflict=none", body: []byte("x"), kind: drive.BadRequest, want: bad("conflict", drive.NotAllowed)},
		{method: "PUT", path: "/files/x?parents=yes", body: []byte("x"), kind: drive.BadRequest, want: bad("parents", drive.NotAllowed)},
	}
	file := u.put(t, "/f", []byte("x"))["id"].(string)
	for _, list := range []string{
		"/uploads", "/sessions", "/tokens", "/trash", "/changes", "/nodes/root/children", "/nodes/" + file + "/versions",
	} {
		for _, limit := range []string{"0", "-1", "1001"} {
			faults = append(faults, get(list+"?limit="+limit, drive.BadRequest, limits))
		}
		faults = append(faults, get(list+"?limit=ten", drive.BadRequest, bad("limit", drive.Malformed)))
		if list != "/changes" {
			faults = append(faults, get(list+"?cursor=stale", drive.CursorInvalid, nil), get(list+"?cursor=", drive.BadRequest, bad("cursor", drive.Required)))
		}
	}
	u.refuses(t, faults)
	boss := u.admin(t)
	boss.refuses(t, []fault{
		get("/admin/uploads?account=x", drive.BadRequest, bad("account", drive.Malformed)),
		get("/admin/uploads?cursor=x", drive.CursorInvalid, nil),
		get("/admin/users?cursor=!", drive.CursorInvalid, nil),
		get("/admin/users?limit=0", drive.BadRequest, limits),
		get("/admin/dead-letters?cursor=x", drive.CursorInvalid, nil),
		get("/admin/timers/park", drive.NotFound, nil),
		get("/admin/timers/park/x", drive.NotFound, nil),
		{method: "DELETE", path: "/admin/dead-letters/01", kind: drive.NotFound},
		get("/admin/dead-letters/01", drive.NotFound, nil),
	})
}

func TestPartsAreChecked(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u := s.newUser(t, "ann", 0)
	data := pattern(partSize + 10)
	id := u.post(t, "/uploads", map[string]any{"path": "/x", "size": len(data)}).json(t, http.StatusCreated)["id"].(string)
	at := "/uploads/" + id + "/parts/"
	zero := "sha-256=:" + strings.Repeat("A", 43) + "=:"
	put := func(n string, size int, kind drive.Kind, want map[string]any, header ...string) fault {
		return fault{method: "PUT", path: at + n, body: data[:size], header: header, kind: kind, want: want}
	}
	u.refuses(t, []fault{
		put("x", partSize, drive.NotFound, nil), put("00", partSize, drive.NotFound, nil), put("+1", 10, drive.NotFound, nil), put("1.0", 10, drive.NotFound, nil),
		put("2", partSize, drive.PartRange, map[string]any{"sent": 2}), put("-1", partSize, drive.PartRange, nil),
		put("99999999999999999999", partSize, drive.PartRange, nil),
		put("0", partSize-1, drive.PartSize, map[string]any{"limit": partSize, "sent": partSize - 1}),
		put("1", 11, drive.PartSize, map[string]any{"limit": 10, "sent": 11}), put("1", 0, drive.PartSize, map[string]any{"sent": 0}),
		put("1", 10, drive.DigestMismatch, map[string]any{"algorithm": "sha-256"}, "Content-Digest", zero),
		put("1", 10, drive.DigestMismatch, map[string]any{"algorithm": "crc32c"}, "Content-Digest", "crc32c=:AAAAAA==:"),
		put("1", 10, drive.BadRequest, bad("Content-Digest", drive.NotAllowed), "Content-Digest", "md5=:AAAA:"),
		put("1", 10, drive.BadRequest, bad("Content-Digest", drive.Malformed), "Content-Digest", "sha-256=AAAA"),
		put("1", 10, drive.BadRequest, bad("Content-Digest", drive.Malformed), "Content-Digest", "sha-256=:AAAA:"),
		put("1", 10, drive.MediaType, map[string]any{"field": "Content-Encoding"}, "Content-Encoding", "br"),
		{method: "PUT", path: at + "1", body: struct{ io.Reader }{bytes.NewReader(data[:10])}, kind: drive.LengthRequired},
	})
	if parts := u.get(t, "/uploads/"+id+"/parts").items(t); len(parts) != 0 {
		t.Errorf("something was kept: %v", parts)
	}
	if got := u.send(t, "PUT", at+"1", data[partSize:]); got.StatusCode != http.StatusNoContent {
		t.Fatalf("the right part: %s", got)
	}
	u.send(t, "PUT", at+"1", make([]byte, 10)).problem(t, drive.PartDiffers, map[string]any{"part": 1})
	if got := u.send(t, "DELETE", at+"1", nil); got.StatusCode != http.StatusNoContent {
		t.Errorf("delete it: %s", got)
	}
	if got := u.send(t, "PUT", at+"1", make([]byte, 10)); got.StatusCode != http.StatusNoContent {
		t.Errorf("then others are welcome: %s", got)
	}
}

func TestCompleteProofAndPatchAreChecked(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	begin := func(path string, size any) string {
		return "/uploads/" + u.post(t, "/uploads", map[string]any{"path": path, "size": size}).json(t, http.StatusCreated)["id"].(string)
	}
	known, unknown := begin("/known", 10), begin("/unknown", nil)
	hash := strings.Repeat("0", 64)
	post := func(path, body string, kind drive.Kind, want map[string]any) fault {
		return fault{method: "POST", path: path, body: body, kind: kind, want: want}
	}
	u.refuses(t, []fault{
		post(unknown+"/complete", "{}", drive.BadRequest, bad("size", drive.Required)),
		post(unknown+"/complete", `{"size":-1}`, drive.BadRequest, bad("size", drive.OutOfRange)),
		post(unknown+"/complete", `{"size":1e18}`, drive.BadRequest, bad("size", drive.Malformed)),
		post(unknown+"/complete", `{"size":1000000000000000}`, drive.TooLarge, map[string]any{"field": "size"}),
		post(known+"/complete", `{"size":11}`, drive.BadRequest, bad("size", drive.NotAllowed)),
		post(known+"/complete", `{"size":null}`, drive.BadRequest, bad("size", drive.Malformed)),
		post(known+"/complete", `{"name":"a/b"}`, drive.BadName, map[string]any{"field": "name"}),
		post(known+"/complete", `{"parent":"x"}`, drive.NotFound, nil),
		post(known+"/complete", `{"conflict":"x"}`, drive.BadRequest, bad("conflict", drive.NotAllowed)),
		post(known+"/complete", `{"digests":{"md5":""}}`, drive.BadRequest, bad("digests.md5", drive.Malformed)),
		post(known+"/complete", `{"path":"/x"}`, drive.BadRequest, bad("path", drive.Unknown)),
		post(known+"/complete", "{}", drive.PartsMissing, map[string]any{"missing": []any{0}}),
		post(known+"/proof", "{}", drive.BadRequest, bad("alg", drive.Required)),
		post(known+"/proof", `{"alg":"blake3"}`, drive.BadRequest, bad("answer", drive.Required)),
		post(known+"/proof", `{"alg":"md5","answer":"`+hash+`"}`, drive.BadRequest, bad("alg", drive.NotAllowed)),
		post(known+"/proof", `{"alg":"blake3","answer":"00"}`, drive.BadRequest, bad("answer", drive.Malformed)),
		post(known+"/proof", `{"alg":"blake3","answer":"`+hash[1:]+`x"}`, drive.BadRequest, bad("answer", drive.Malformed)),
		{method: "PATCH", path: known, body: `{"name":""}`, kind: drive.BadName, want: map[string]any{"field": "name", "reason": "empty"}},
		{method: "PATCH", path: known, body: `{"size":1}`, kind: drive.BadRequest, want: bad("size", drive.Unknown)},
		{method: "PATCH", path: known, body: `{"parent":null}`, kind: drive.BadRequest, want: bad("parent", drive.Malformed)},
		{method: "PATCH", path: known, body: "", kind: drive.BadRequest, want: bad("body", drive.Required)},
	})
	if got := u.post(t, known+"/proof", `{"alg":"blake3","answer":"`+hash+`"}`).json(t, http.StatusOK); got["state"] != "active" {
		t.Errorf("a proof that nobody asked for: %v", got)
	}
}

func TestEveryHeaderOfAWholeFileIsChecked(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	put := func(path string, kind drive.Kind, want map[string]any, header ...string) fault {
		return fault{method: "PUT", path: "/files" + path, body: []byte("x"), header: header, kind: kind, want: want}
	}
	zero := "sha-256=:" + strings.Repeat("A", 43) + "=:"
	faults := []fault{
		put("/a/b", drive.NotFound, nil),
		put("/a%2Fb", drive.BadName, map[string]any{"reason": "slash"}),
		put("/a//b", drive.BadName, map[string]any{"reason": "empty"}),
		put("/%2e%2e", drive.BadName, map[string]any{"reason": "dots"}),
		put("/%00", drive.BadName, map[string]any{"reason": "control"}),
		put("/%ff", drive.BadName, map[string]any{"reason": "not-utf8"}),
		put("/"+strings.Repeat("x", 256), drive.BadName, map[string]any{"reason": "too-long", "limit": 255, "sent": 256}),
		put("/x", drive.BadRequest, bad("X-Mtime", drive.Malformed), "X-Mtime", "2026-01-01"),
		put("/x", drive.BadRequest, bad("X-Mtime", drive.Malformed), "X-Mtime", "1.5"),
		put("/x", drive.BadRequest, bad("X-Mtime", drive.OutOfRange), "X-Mtime", "253402300800000"),
		put("/x", drive.BadRequest, bad("Repr-Digest", drive.Malformed), "Repr-Digest", "sha-256"),
		put("/x", drive.BadRequest, bad("Repr-Digest", drive.NotAllowed), "Repr-Digest", "crc32c=:AAAAAA==:"),
		put("/x", drive.DigestMismatch, map[string]any{"algorithm": "sha256"}, "Repr-Digest", zero),
		put("/x", drive.DigestMismatch, map[string]any{"algorithm": "sha-256"}, "Content-Digest", zero),
		put("/x", drive.DigestMismatch, map[string]any{"algorithm": "crc32c"}, "Content-Digest", "crc32c=:AAAAAA==:"),
		put("/x", drive.Precondition, nil, "If-Match", "*"),
		put("/x", drive.Precondition, nil, "If-Match", `"b3-00"`),
		put("/x", drive.MediaType, nil, "Content-Encoding", "gzip"),
	}
	for _, tags := range []string{"x", `"a`, `a"`, `"a" "b"`, `"a",`, `,"a"`, `*,"a"`, `w/"a"`, `"a\"b"`, "\"a b\"", `"a"b`} {
		faults = append(faults, put("/x", drive.BadRequest, bad("If-Match", drive.Malformed), "If-Match", tags))
		faults = append(faults, put("/x", drive.BadRequest, bad("If-None-Match", drive.Malformed), "If-None-Match", tags))
	}
	u.refuses(t, faults)
	big := struct{ io.Reader }{bytes.NewReader(pattern(partSize + 1))}
	u.send(t, "PUT", "/files/big", big, "Content-Digest", zero).problem(t, drive.DigestMismatch, nil)
	if left := u.get(t, "/nodes/root/children").items(t); len(left) != 0 {
		t.Errorf("refused requests left %v", left)
	}
	if left := u.get(t, "/uploads").items(t); len(left) != 0 {
		t.Errorf("refused requests left %v", left)
	}
}

func TestNodesLinksTokensAndUsersAreChecked(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u, boss := s.newUser(t, "ann", 0), s.admin(t)
	file := "/nodes/" + u.put(t, "/f", []byte("x"))["id"].(string)
	post := func(path, body string, kind drive.Kind, want map[string]any) fault {
		return fault{method: "POST", path: path, body: body, kind: kind, want: want}
	}
	patch := func(body string, kind drive.Kind, want map[string]any, header ...string) fault {
		return fault{method: "PATCH", path: file, body: body, kind: kind, want: want, header: header}
	}
	u.refuses(t, []fault{
		post("/nodes", `{"path":"/d"}`, drive.BadRequest, bad("type", drive.Required)),
		post("/nodes", `{"path":"/d","type":"file"}`, drive.BadRequest, bad("type", drive.NotAllowed)),
		post("/nodes", `{"path":"/d","type":"folder","conflict":"replace"}`, drive.BadRequest, bad("conflict", drive.NotAllowed)),
		post("/nodes", `{"path":"/d/e","type":"folder"}`, drive.NotFound, nil),
		post("/nodes", `{"path":"/f","type":"folder"}`, drive.NameTaken, nil),
		post(file+"/copy", `{}`, drive.BadRequest, bad("parent", drive.Required)),
		post(file+"/copy", `{"parent":"nobody"}`, drive.NotFound, nil),
		post(file+"/copy", `{"parent":"root"}`, drive.NameTaken, nil),
		post(file+"/restore", `{"conflict":"none"}`, drive.BadRequest, bad("conflict", drive.NotAllowed)),
		post(file+"/versions/x/restore", ``, drive.NotFound, nil),
		post(file+"/links", `{}`, drive.BadRequest, bad("expires_in", drive.Required)),
		post(file+"/links", `{"expires_in":0}`, drive.BadRequest, bad("expires_in", drive.OutOfRange)),
		post(file+"/links", `{"expires_in":86401}`, drive.BadRequest, bad("expires_in", drive.OutOfRange)),
		post(file+"/links", `{"expires_in":9223372036854775807}`, drive.BadRequest, bad("expires_in", drive.OutOfRange)),
		post(file+"/links", `{"expires_in":60,"disposition":"popup"}`, drive.BadRequest, bad("disposition", drive.NotAllowed)),
		patch(`{"name":"a\u0007"}`, drive.BadName, map[string]any{"field": "name", "reason": "control"}),
		patch(`{"mtime":"now"}`, drive.BadRequest, bad("mtime", drive.Malformed)),
		patch(`{}`, drive.BadRequest, bad("If-Match", drive.Malformed), "If-Match", `"x"`),
		patch(`{}`, drive.BadRequest, bad("If-Match", drive.Malformed), "If-Match", `"1","2"`),
		patch(`{}`, drive.BadRequest, bad("If-Match", drive.Malformed), "If-Match", `W/"1"`),
		{method: "GET", path: file + "/content?version=x", kind: drive.NotFound},
		{method: "GET", path: "/nodes/root/content", kind: drive.BadRequest, want: bad("id", drive.NotAllowed)},
		{method: "GET", path: file + "/children", kind: drive.BadRequest, want: bad("id", drive.NotAllowed)},
		{method: "GET", path: "/links", kind: drive.BadRequest, want: bad("token", drive.Required)},
		{method: "GET", path: "/links?token=x", kind: drive.NotFound},
		post("/tokens", `{"name":"","scopes":["read"]}`, drive.BadRequest, bad("name", drive.Required)),
		post("/tokens", `{"name":"x","scopes":[]}`, drive.BadRequest, bad("scopes", drive.Required)),
		post("/tokens", `{"name":"x","scopes":["root"]}`, drive.BadRequest, bad("scopes", drive.NotAllowed)),
		post("/tokens", `{"name":"x","scopes":"read"}`, drive.BadRequest, bad("scopes", drive.Malformed)),
		post("/tokens", `{"name":"x","scopes":["read"],"expires_in":59}`, drive.BadRequest, bad("expires_in", drive.OutOfRange)),
		post("/tokens", `{"name":"x","scopes":["read"],"expires_in":-1}`, drive.BadRequest, bad("expires_in", drive.OutOfRange)),
		post("/sessions", `{"name":"ann"}`, drive.BadRequest, bad("password", drive.Required)),
		post("/sessions", `{"name":"ann","password":"wrong"}`, drive.Unauthenticated, map[string]any{"reason": "invalid"}),
		post("/sessions", `{"name":"nobody","password":"wrong"}`, drive.Unauthenticated, map[string]any{"reason": "invalid"}),
		{method: "PUT", path: "/me/password", body: `{"current":"wrong","password":"another password"}`, kind: drive.Forbidden},
		{method: "PUT", path: "/me/password", body: `{"current":"correct horse","password":"short"}`, kind: drive.BadRequest, want: bad("password", drive.OutOfRange)},
	})
	boss.refuses(t, []fault{
		post("/admin/users", `{"name":"x","password":"short"}`, drive.BadRequest, bad("password", drive.OutOfRange)),
		post("/admin/users", `{"name":"a/b","password":"long enough"}`, drive.BadRequest, bad("name", drive.Malformed)),
		post("/admin/users", `{"name":"x","password":"long enough","total":-1}`, drive.BadRequest, bad("total", drive.OutOfRange)),
		post("/admin/users", `{"name":"x","password":"long enough","total":"1"}`, drive.BadRequest, bad("total", drive.Malformed)),
		post("/admin/users", `{"name":"ANN","password":"long enough"}`, drive.NameTaken, nil),
		{method: "PATCH", path: "/admin/users/" + u.id, body: `{"state":"gone"}`, kind: drive.BadRequest, want: bad("state", drive.NotAllowed)},
		{method: "PATCH", path: "/admin/users/x", body: `{}`, kind: drive.NotFound},
		{method: "PATCH", path: "/admin/users/" + boss.id, body: `{"state":"disabled"}`, kind: drive.WrongState},
		{method: "DELETE", path: "/admin/users/" + boss.id, kind: drive.WrongState},
		post("/admin/uploads/reset", `{}`, drive.BadRequest, bad("account_id", drive.Required)),
		post("/admin/uploads/reset", `{"account_id":"x"}`, drive.NotFound, nil),
	})
}
