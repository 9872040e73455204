package system_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"example.org/smartdrive/test/history"
	"example.org/smartdrive/test/process"
	"example.org/smartdrive/test/system/rig"
)

// TestRequestsInFlightOfAUser: a user may have 32 requests in flight. The next one is told to
// retry; other users are not affected.
func TestRequestsInFlightOfAUser(t *testing.T) {
	t.Parallel()
	s := rig.New(t).Start(t)
	u, other := s.NewUser(t, "ann", 100*rig.MiB), s.NewUser(t, "bob", 100*rig.MiB)
	up := u.Begin(t, "/upload", history.Content{Seed: 1, Size: 32 * rig.MiB})
	var wires []*wire
	for n := range 32 {
		w := dial(t, s)
		w.say(t, u, fmt.Sprintf("PUT /api/v1/uploads/%s/parts/%d", up.ID, n), fmt.Sprintf("Content-Length: %d", rig.MiB))
		wires = append(wires, w)
	}
	metric(t, s, "http_in_flight", "33") // with this question
	doc := u.Get(t, "/me")
	if doc.Problem(t, http.StatusTooManyRequests, "rate")["limit"] != 32.0 || doc.Header.Get("Retry-After") == "" {
		t.Errorf("the refusal does not say what to do: %s %v", doc, doc.Header)
	}
	other.Get(t, "/me").Is(t, http.StatusOK)
	for n, w := range wires {
		if _, err := w.Write(up.Part(n)); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range wires {
		if r := w.hear(t, http.MethodPut); r.StatusCode != http.StatusNoContent {
			t.Errorf("a part was answered with %s", r)
		}
	}
	up.Complete(t)
	up.Holds(t, "/upload", up.Content)
}

// TestANameInTwoNormalForms: a name in composed and in decomposed form is the same file.
func TestANameInTwoNormalForms(t *testing.T) {
	t.Parallel()
	s := rig.New(t).Start(t)
	u := s.NewUser(t, "ann", 60*rig.MiB)
	composed, decomposed := "/caf\u00e9/\u1e9b\u0323", "/cafe\u0301/\u017f\u0323\u0307"
	first := u.Put(t, composed, content(1))
	second := u.Put(t, decomposed, content(2))
	if first["id"] != second["id"] || second["path"] != composed {
		t.Errorf("they are two: %v and %v", first, second)
	}
	u.Holds(t, decomposed, content(2))
	u.Post(t, "/uploads", map[string]any{"path": decomposed, "size": 5}).Problem(t, http.StatusConflict, "name-taken")
	// Case differs: these are two files.
	u.Put(t, "/caf\u00e9/A", content(3))
	u.Put(t, "/caf\u00e9/a", content(4))
	u.Holds(t, "/cafe\u0301/A", content(3))
}

func TestReadingInPieces(t *testing.T) {
	t.Parallel()
	s := rig.New(t).Start(t)
	u := s.NewUser(t, "ann", 60*rig.MiB)
	c := history.Content{Seed: 1, Size: 3*rig.MiB + 17}
	path := "/nodes/" + u.Put(t, "/file", c)["id"].(string) + "/content"
	head := u.Do(t, http.MethodHead, path, nil).Is(t, http.StatusOK)
	etag, modified := head.Header.Get("ETag"), head.Header.Get("Last-Modified")
	if head.ContentLength != c.Size || etag != `"b3-`+c.Digest()+`"` || modified == "" || head.Header.Get("Accept-Ranges") != "bytes" {
		t.Errorf("the header is %v", head.Header)
	}
	for _, r := range []struct {
		header []string
		status int
		off, n int64
	}{
		{[]string{"Range", "bytes=0-9"}, 206, 0, 10},
		{[]string{"Range", "bytes=1048570-1048590"}, 206, 1048570, 21},
		{[]string{"Range", "bytes=-17"}, 206, 3 * rig.MiB, 17},
		{[]string{"Range", "bytes=3145728-"}, 206, 3 * rig.MiB, 17},
		{[]string{"Range", "bytes=100-99999999"}, 206, 100, c.Size - 100},
		{[]string{"Range", "bytes=0-9", "If-Range", etag}, 206, 0, 10},
		{[]string{"Range", "bytes=0-9", "If-Range", `"b3-00"`}, 200, 0, c.Size},
		{[]string{"Range", "bytes=0-9", "If-Range", "W/" + etag}, 200, 0, c.Size},
		{[]string{"Range", "bytes=0-9", "If-Range", modified}, 200, 0, c.Size}, // no strong validator: a client can choose the date
		{[]string{"Range", "lines=0-9"}, 200, 0, c.Size},                       // an unknown unit is ignored
		{[]string{"Range", "bytes=99999999-"}, 416, 0, 0},
		{[]string{"If-None-Match", etag}, 304, 0, 0},
		{[]string{"If-None-Match", `"x", W/` + etag}, 304, 0, 0},
		{[]string{"If-Match", `"x"`}, 412, 0, 0},
	} {
		got := u.Get(t, path, r.header...)
		if got.StatusCode != r.status {
			t.Errorf("%v: %d, want %d", r.header, got.StatusCode, r.status)
			continue
		}
		if r.status < 300 && !bytes.Equal(got.Bytes, c.Bytes(r.off, r.n)) {
			t.Errorf("%v: %d bytes, not those", r.header, len(got.Bytes))
		}
		if r.status == 206 {
			if want := fmt.Sprintf("bytes %d-%d/%d", r.off, r.off+r.n-1, c.Size); got.Header.Get("Content-Range") != want {
				t.Errorf("%v: Content-Range is %q", r.header, got.Header.Get("Content-Range"))
			}
		}
	}
	u.Get(t, path, "Range", "bytes=99999999-").Problem(t, http.StatusRequestedRangeNotSatisfiable, "range")
}

func TestPagesOfOtherOrigins(t *testing.T) {
	t.Parallel()
	s := rig.New(t, "--cors-origins", "https://app.example").Start(t)
	u := s.NewUser(t, "ann", 60*rig.MiB)
	r := preflight(t, s, "https://app.example").Is(t, 200, 204)
	allowed := strings.ToLower(r.Header.Get("Access-Control-Allow-Headers"))
	if r.Header.Get("Access-Control-Allow-Origin") != "https://app.example" || !strings.Contains(r.Header.Get("Access-Control-Allow-Methods"), "POST") ||
		!strings.Contains(allowed, "authorization") || !strings.Contains(allowed, "idempotency-key") {
		t.Errorf("the preflight is answered with %v", r.Header)
	}
	if r := preflight(t, s, "https://evil.example"); r.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("another origin is let in: %v", r.Header)
	}
	// A page must also be able to read refusals.
	r = u.Get(t, "/uploads/01900000-0000-7000-8000-000000000000", "Origin", "https://app.example").Is(t, http.StatusNotFound)
	if r.Header.Get("Access-Control-Allow-Origin") != "https://app.example" || r.Header.Get("Access-Control-Allow-Credentials") == "true" {
		t.Errorf("the refusal carries %v", r.Header)
	}
}

// fetch follows a link as a browser does, without a token.
func fetch(t *testing.T, s *rig.Server, url string) rig.Reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Anybody(t).Send(req)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestLinksEnd(t *testing.T) {
	t.Parallel()
	site := rig.New(t)
	s := site.Start(t)
	u := s.NewUser(t, "ann", 60*rig.MiB)
	id := u.Put(t, "/file", content(1))["id"].(string)
	link := func(seconds int) string {
		t.Helper()
		return u.Post(t, "/nodes/"+id+"/links", map[string]any{"expires_in": seconds}).JSON(t, http.StatusCreated)["url"].(string)
	}
	long, short := link(3600), link(1)
	if r := fetch(t, s, long).Is(t, http.StatusOK); !bytes.Equal(r.Bytes, content(1).Bytes(0, rig.MiB)) ||
		!strings.HasPrefix(r.Header.Get("Content-Disposition"), "attachment") {
		t.Errorf("the link gives %d bytes, %v", len(r.Bytes), r.Header)
	}
	process.Eventually(t, rig.Patience, "the short link ends", func() error {
		if r := fetch(t, s, short); r.StatusCode == http.StatusOK {
			return fmt.Errorf("%s", r.Status)
		}
		return nil
	})
	for _, bad := range []string{long + "x", long[:len(long)-2], strings.Replace(long, "token=", "token=a", 1)} {
		if r := fetch(t, s, bad); r.StatusCode < 400 || r.StatusCode >= 500 {
			t.Errorf("%s: %s", bad, r)
		}
	}
	u.Post(t, "/nodes/"+id+"/links", map[string]any{"expires_in": 86401}).Problem(t, 400, "bad-request")

	// A link to a trashed file is void; after a restore it works again.
	u.Do(t, http.MethodDelete, "/nodes/"+id, nil).Is(t, http.StatusNoContent)
	if r := fetch(t, s, long); r.StatusCode == http.StatusOK {
		t.Error("the link of a file in the trash works")
	}
	u.Post(t, "/nodes/"+id+"/restore", nil).Is(t, 200)
	fetch(t, s, long).Is(t, http.StatusOK)
	u.Do(t, http.MethodPut, "/me/password", map[string]any{"current": rig.Password, "password": rig.Password + "2"}).Is(t, http.StatusNoContent)
	if r := fetch(t, s, long); r.StatusCode == http.StatusOK {
		t.Error("the link outlives a new password")
	}
	s.End(t)
	if strings.Contains(s.Log.String(), "token=") {
		t.Error("the log has a link's token")
	}
}

// TestTokensAndTheirScopes: a token is limited to its scopes, and a revoked one stops working
// within seconds.
func TestTokensAndTheirScopes(t *testing.T) {
	t.Parallel()
	s := rig.New(t).Start(t)
	u := s.NewUser(t, "ann", 60*rig.MiB)
	u.Put(t, "/file", content(1))
	token := func(scopes ...string) (rig.User, string) {
		t.Helper()
		made := u.Post(t, "/tokens", map[string]any{"name": "t", "scopes": scopes}).JSON(t, http.StatusCreated)
		v := u
		v.Token = made["token"].(string)
		return v, made["id"].(string)
	}
	reader, id := token("read")
	writer, _ := token("write")
	reader.Holds(t, "/file", content(1))
	reader.Do(t, http.MethodPut, "/files/x", []byte("x")).Problem(t, http.StatusForbidden, "forbidden")
	reader.Post(t, "/uploads", map[string]any{"path": "/x", "size": 1}).Problem(t, http.StatusForbidden, "forbidden")
	writer.Put(t, "/x", content(2))
	writer.Get(t, "/nodes?path=/x").Problem(t, http.StatusForbidden, "forbidden")
	writer.Post(t, "/tokens", map[string]any{"name": "t", "scopes": []string{"read"}}).Problem(t, http.StatusForbidden, "forbidden")
	u.Post(t, "/tokens", map[string]any{"name": "t", "scopes": []string{"admin"}}).Problem(t, http.StatusForbidden, "forbidden")
	u.Get(t, "/admin/users").Problem(t, http.StatusForbidden, "forbidden")
	nobody := u
	nobody.Token = ""
	if r := nobody.Get(t, "/me"); r.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("401 does not say how to log in: %v", r.Header)
	}
	u.Do(t, http.MethodDelete, "/tokens/"+id, nil).Is(t, http.StatusNoContent)
	process.Eventually(t, rig.Patience, "a revoked token ends", func() error {
		if r := reader.Get(t, "/me"); r.StatusCode != http.StatusUnauthorized {
			return fmt.Errorf("%s", r.Status)
		}
		return nil
	})
}

// TestTwoUsersDoNotSeeEachOther: resources of one user look nonexistent to another.
func TestTwoUsersDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	s := rig.New(t, "--blob-grace", "0s").Start(t)
	ann, bob := s.NewUser(t, "ann", 60*rig.MiB), s.NewUser(t, "bob", 60*rig.MiB)
	node := ann.Put(t, "/docs/file", content(1))
	file, folder := node["id"].(string), node["parent_id"].(string)
	up := ann.Begin(t, "/docs/upload", content(2))
	up.Send(t, 0)
	mine := bob.Put(t, "/mine", content(1))["id"].(string) // the same bytes
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{"GET", "/nodes/" + file, nil},
		{"GET", "/nodes/" + file + "/content", nil},
		{"GET", "/nodes/" + folder + "/children", nil},
		{"GET", "/nodes/" + file + "/versions", nil},
		{"GET", "/nodes?path=/docs/file", nil},
		{"PATCH", "/nodes/" + file, map[string]any{"name": "stolen"}},
		{"PATCH", "/nodes/" + mine, map[string]any{"parent": folder}},
		{"DELETE", "/nodes/" + file, nil},
		{"POST", "/nodes/" + file + "/copy", map[string]any{"parent": "root"}},
		{"POST", "/nodes/" + mine + "/copy", map[string]any{"parent": folder}},
		{"POST", "/nodes/" + file + "/links", map[string]any{"expires_in": 60}},
		{"POST", "/nodes", map[string]any{"parent": folder, "name": "x", "type": "folder"}},
		{"POST", "/uploads", map[string]any{"parent": folder, "name": "x", "size": 1}},
		{"GET", "/uploads/" + up.ID, nil},
		{"GET", "/uploads/" + up.ID + "/parts", nil},
		{"PUT", "/uploads/" + up.ID + "/parts/0", up.Part(0)},
		{"DELETE", "/uploads/" + up.ID + "/parts/0", nil},
		{"PATCH", "/uploads/" + up.ID, map[string]any{"name": "x"}},
		{"POST", "/uploads/" + up.ID + "/complete", map[string]any{}},
		{"DELETE", "/uploads/" + up.ID, nil},
	} {
		got := bob.Do(t, c.method, c.path, c.body)
		if doc := got.JSON(t, got.StatusCode); doc["code"] != "not-found" && doc["code"] != "parent-gone" {
			t.Errorf("%s %s: %s", c.method, c.path, got)
		}
		// Another user's resources must look like nonexistent ones.
		const nothing = "01900000-0000-7000-8000-000000000000"
		never := strings.NewReplacer(file, nothing, folder, nothing, up.ID, nothing, "/docs/file", "/nope")
		if to, ok := c.body.(map[string]any); ok && to["parent"] == folder {
			to["parent"] = nothing
		}
		if same := bob.Do(t, c.method, never.Replace(c.path), c.body); same.StatusCode != got.StatusCode || detail(same) != detail(got) {
			t.Errorf("%s %s: another's is %s, nothing is %s", c.method, c.path, got, same)
		}
	}
	if own := bob.Get(t, "/uploads").Items(t); len(own) != 0 {
		t.Errorf("bob sees uploads: %v", own)
	}
	// Deleting one copy of shared bytes leaves the other.
	ann.Do(t, http.MethodDelete, "/nodes/"+file+"?permanent=true", nil).Is(t, http.StatusNoContent)
	bob.Holds(t, "/mine", content(1))
	up.Complete(t)
	ann.Holds(t, "/docs/upload", content(2))
	if l := s.Ledger(t, "ann"); l.Finished != rig.MiB || l.Unfinished != 0 || l.Reserved != 0 {
		t.Errorf("ann is charged %+v", l)
	}
}

// detail returns the text for people in a problem document.
func detail(r rig.Reply) string {
	_, after, _ := strings.Cut(string(r.Bytes), `"detail":`)
	detail, _, _ := strings.Cut(after, `","`)
	return detail
}
