package rest_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// The beginning of 1970 is a time, too, and not "now".
func TestAFileOfTheEpoch(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	node := u.send(t, "PUT", "/files/a", []byte("x"), "X-Mtime", "0").json(t, http.StatusCreated)
	if node["mtime"] != "1970-01-01T00:00:00.001Z" {
		t.Errorf("mtime is %v", node["mtime"])
	}
}

// A browser would take the parts of a multipart response for separate responses.
func TestMultipartContentIsServedAsBytes(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	for sent, want := range map[string]string{"Multipart/x-mixed-replace; boundary=a": drive.UnknownMime, "text/html": "text/html"} {
		node := u.send(t, "PUT", "/files/"+want[:4], []byte("--a\r\nContent-Type: text/html\r\n\r\n"), "Content-Type", sent).json(t, http.StatusCreated)
		got := u.get(t, "/nodes/"+node["id"].(string)+"/content?inline=true").Header.Get("Content-Type")
		if got != want {
			t.Errorf("%q is sent as %q", sent, got)
		}
	}
}

func TestContentIsReadByRangesAndConditions(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	data := pattern(partSize + 1000)
	node := u.send(t, "PUT", "/files/a.bin", data, "X-Mtime", "1600000000123").json(t, http.StatusCreated)
	if node["mtime"] != "2020-09-13T12:26:40.123Z" {
		t.Errorf("mtime is %v", node["mtime"])
	}
	etag := `"b3-` + node["digests"].(map[string]any)["blake3"].(string) + `"`
	size, stamp := len(data), "Sun, 13 Sep 2020 12:26:40 GMT"
	type want struct {
		status int
		from   int
		to     int // exclusive
	}
	all := want{200, 0, size}
	for _, c := range []struct {
		header []string
		want   want
	}{
		{nil, all},
		{[]string{"Range", "bytes=0-0"}, want{206, 0, 1}},
		{[]string{"Range", "bytes=1000-1999"}, want{206, 1000, 2000}},
		{[]string{"Range", "bytes=-5"}, want{206, size - 5, size}},
		{[]string{"Range", fmt.Sprintf("bytes=%d-", size-1)}, want{206, size - 1, size}},
		{[]string{"Range", fmt.Sprintf("bytes=5-%d", size*2)}, want{206, 5, size}},
		{[]string{"Range", fmt.Sprintf("bytes=%d-", size)}, want{416, 0, 0}},
		{[]string{"Range", "bytes=abc"}, want{416, 0, 0}},
		{[]string{"Range", "bytes=0-9", "If-Range", etag}, want{206, 0, 10}},
		{[]string{"Range", "bytes=0-9", "If-Range", `"b3-other"`}, all},
		{[]string{"Range", "bytes=0-9", "If-Range", stamp}, all},
		{[]string{"If-None-Match", etag}, want{304, 0, 0}},
		{[]string{"If-None-Match", "*"}, want{304, 0, 0}},
		{[]string{"If-None-Match", `"b3-other", W/` + etag}, want{304, 0, 0}},
		{[]string{"If-None-Match", `"b3-other"`}, all},
		{[]string{"If-Match", `"b3-other"`}, want{412, 0, 0}},
		{[]string{"If-Match", etag}, all},
		{[]string{"If-Modified-Since", stamp}, want{304, 0, 0}},
		{[]string{"If-Unmodified-Since", "Sun, 13 Sep 2020 12:26:39 GMT"}, want{412, 0, 0}},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			if method == "HEAD" && c.header != nil && c.header[0] == "Range" {
				c.want = all // only a GET has ranges (RFC 9110 §14.2)
			}
			got := u.send(t, method, "/nodes/"+node["id"].(string)+"/content", nil, c.header...)
			name := fmt.Sprintf("%s %q", method, c.header)
			if got.StatusCode != c.want.status {
				t.Errorf("%s: %d, want %d", name, got.StatusCode, c.want.status)
				continue
			}
			switch got.StatusCode {
			case 200, 206:
				if method == "GET" && !bytes.Equal(got.body, data[c.want.from:c.want.to]) || method == "HEAD" && len(got.body) > 0 {
					t.Errorf("%s: %d bytes that are not the right ones", name, len(got.body))
				}
				if n := got.Header.Get("Content-Length"); n != fmt.Sprint(c.want.to-c.want.from) {
					t.Errorf("%s: Content-Length is %s", name, n)
				}
				if got.Header.Get("Last-Modified") != stamp || got.Header.Get("ETag") != etag || got.Header.Get("Accept-Ranges") != "bytes" {
					t.Errorf("%s: the header is %v", name, got.Header)
				}
			case 304:
				if got.Header.Get("ETag") != etag || len(got.body) > 0 {
					t.Errorf("%s: %v %s", name, got.Header, got)
				}
			case 416:
				got.problem(t, drive.Range, map[string]any{"size": size})
				if r := got.Header.Get("Content-Range"); r != fmt.Sprintf("bytes */%d", size) {
					t.Errorf("%s: Content-Range is %q", name, r)
				}
			case 412:
				got.problem(t, drive.Precondition, nil)
			}
		}
	}
}

func TestContentIsHarmlessInABrowser(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	body := []byte("<script>")
	digest := "sha-256=:7fDqXA9dQnHWmvLqkjVHX7hH+6BpNSz8cvQxdR9+ZFU=:"
	u.send(t, "PUT", "/files/x", body, "Repr-Digest", digest).problem(t, drive.DigestMismatch, nil)
	node := u.put(t, `/a%22%20%25%E4%BD%A0.html`, body)
	if node["name"] != `a" %你.html` || !strings.HasPrefix(node["mime"].(string), "text/html") {
		t.Fatalf("the node is %v", node)
	}
	at := "/nodes/" + node["id"].(string) + "/content"
	for query, how := range map[string]string{"": "attachment", "?inline=1": "inline", "?inline=true": "inline", "?inline=0": "attachment"} {
		got := u.get(t, at+query)
		for name, want := range map[string]string{
			"Content-Disposition":     how + `; filename="a_ __.html"; filename*=UTF-8''a%22%20%25%E4%BD%A0.html`,
			"X-Content-Type-Options":  "nosniff",
			"Content-Security-Policy": "sandbox; default-src 'none'",
			"Cache-Control":           "private, no-cache",
		} {
			if got.Header.Get(name) != want {
				t.Errorf("%s: %s is %q, want %q", query, name, got.Header.Get(name), want)
			}
		}
	}
}

func TestDeclaredSHA256IsReturned(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	const field = "sha-256=:ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=:" // of "abc"
	node := u.send(t, "PUT", "/files/abc", []byte("abc"), "Repr-Digest", field).json(t, http.StatusCreated)
	if got := u.get(t, "/nodes/"+node["id"].(string)+"/content").Header.Get("Repr-Digest"); got != field {
		t.Errorf("Repr-Digest is %q", got)
	}
	if got := node["digests"].(map[string]any)["sha256"]; got != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("sha256 is %v", got)
	}
}

func TestOldVersionsAreReadAndRestored(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	u.put(t, "/f", []byte("one"))
	file := "/nodes/" + u.put(t, "/f", []byte("two"))["id"].(string)
	versions := u.get(t, file+"/versions").items(t)
	if len(versions) != 2 || versions[0]["current"] != true || versions[1]["current"] != false {
		t.Fatalf("the versions are %v", versions)
	}
	old := versions[1]["id"].(string)
	if got := u.get(t, file+"/content?version="+old); string(got.body) != "one" {
		t.Errorf("the old version is %s", got)
	}
	u.post(t, file+"/versions/"+old+"/restore", nil).json(t, http.StatusOK)
	if got := u.get(t, file+"/content"); string(got.body) != "one" {
		t.Errorf("restored it is %s", got)
	}
	first := u.get(t, file+"/versions?limit=2").json(t, http.StatusOK)
	rest := u.get(t, file+"/versions?limit=2&cursor="+first["next_cursor"].(string)).json(t, http.StatusOK)
	if len(rest["items"].([]any)) != 1 || rest["next_cursor"] != nil {
		t.Errorf("the second page is %v", rest)
	}
}

func TestLinksWorkWithoutATokenUntilTheyAreVoid(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u := s.newUser(t, "ann", 0)
	file := "/nodes/" + u.put(t, "/f.txt", []byte("shared"))["id"].(string)
	link := func() string {
		l := u.post(t, file+"/links", map[string]any{"expires_in": 60, "disposition": "inline"}).json(t, http.StatusCreated)
		at, err := url.Parse(l["url"].(string))
		if err != nil || at.Host != "example.com" || at.Path != "/api/v1/links" {
			t.Fatalf("the link is %v", l)
		}
		return at.RequestURI()
	}
	open := func(at string, header map[string]string) response {
		return s.do(t, request{method: "GET", path: at, header: header})
	}
	at := link()
	if got := open(at, map[string]string{"Range": "bytes=0-2"}); got.StatusCode != 206 || string(got.body) != "sha" ||
		!strings.HasPrefix(got.Header.Get("Content-Disposition"), "inline") {
		t.Errorf("the link gives %s", got)
	}
	forged := at[:len(at)-1] + "x"
	if forged == at {
		forged = at[:len(at)-1] + "y"
	}
	open(forged, nil).problem(t, drive.NotFound, nil)
	s.Clock.Advance(61 * time.Second)
	open(at, nil).problem(t, drive.Gone, nil)
	at = link()
	u.send(t, "PUT", "/me/password", map[string]any{"current": password, "password": "another password"})
	open(at, nil).problem(t, drive.Gone, nil)
	at = link()
	u.send(t, "DELETE", file, nil)
	open(at, nil).problem(t, drive.Gone, nil)
}
