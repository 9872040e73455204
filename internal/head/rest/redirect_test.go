package rest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/s3"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/head/rest"
	"example.org/smartdrive/internal/testkit/servicetest"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// newStoreStack is a stack whose whole-file requests put their content in a bucket, and which sends
// downloads on to it.
func newStoreStack(t *testing.T) *stack {
	t.Helper()
	at, err := url.Parse(servicetest.URL(t, servicetest.S3))
	if err != nil {
		t.Fatal(err)
	}
	secret, _ := at.User.Password()
	name := servicetest.Unique()
	servicetest.EmptyBucket(t, at, name)
	bucket, err := s3.New(s3.Options{
		Endpoint: at.Host, Bucket: strings.Trim(at.Path, "/"), Prefix: name, AccessKey: at.User.Username(), SecretKey: secret,
		Insecure: at.Query().Get("insecure") == "true", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return newStack(t, uploadtest.Options{Store: func(blob.Store) blob.Store { return bucket.Blobs }}, func(o *rest.Options) {
		o.DownloadRedirect = 15 * time.Minute
		o.Files = files.New(files.Options{DB: o.DB, Store: bucket.Blobs, Now: o.Now, Tree: tree.New(tree.Options{Now: o.Now})})
		o.Links = files.NewLinks(o.Files, files.LinkOptions{Epochs: o.Users})
	})
}

// follow fetches from where a 307 leads, with the range of the request and nothing else.
func follow(t *testing.T, got response, ranges string) response {
	t.Helper()
	if got.StatusCode != http.StatusTemporaryRedirect || len(got.body) > 0 || got.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("it is no redirect: %s %v", got, got.Header)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, got.Header.Get("Location"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if ranges != "" {
		r.Header.Set("Range", ranges)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{resp, body}
}

func TestDownloadRedirectsToStore(t *testing.T) {
	t.Parallel()
	u := newStoreStack(t).newUser(t, "ann", 0)
	data := pattern(300_000)
	node := u.put(t, `/a%22%20%25%E4%BD%A0.html`, data)
	at := "/nodes/" + node["id"].(string) + "/content"
	etag := `"b3-` + node["digests"].(map[string]any)["blake3"].(string) + `"`
	for ranges, want := range map[string][]byte{"": data, "bytes=0-9": data[:10], "bytes=1000-1999": data[1000:2000], "bytes=-5": data[len(data)-5:]} {
		got := u.get(t, at, "Range", ranges)
		if got.Header.Get("ETag") != etag {
			t.Errorf("%q: ETag is %s", ranges, got.Header.Get("ETag"))
		}
		there := follow(t, got, ranges)
		if !bytes.Equal(there.body, want) {
			t.Errorf("%q: %d bytes that are not the right ones", ranges, len(there.body))
		}
		if n := there.Header.Get("Content-Range"); ranges != "" && !strings.HasSuffix(n, fmt.Sprint("/", len(data))) {
			t.Errorf("%q: Content-Range is %q", ranges, n)
		}
		const how = `attachment; filename="a_ __.html"; filename*=UTF-8''a%22%20%25%E4%BD%A0.html`
		if d, m := there.Header.Get("Content-Disposition"), there.Header.Get("Content-Type"); d != how || m != node["mime"] {
			t.Errorf("%q: it comes as %q, %q", ranges, d, m)
		}
	}
	if got := u.get(t, at, "Range", "bytes=0-9", "If-Range", etag); !bytes.Equal(follow(t, got, "bytes=0-9").body, data[:10]) {
		t.Errorf("an If-Range that holds: %s", got)
	}
	where, err := url.Parse(u.get(t, at).Header.Get("Location"))
	if err != nil || where.Query().Get("X-Amz-Expires") != "900" {
		t.Errorf("the address is good for %q seconds, %v", where.Query().Get("X-Amz-Expires"), err)
	}
	if got := u.send(t, "HEAD", at, nil); got.StatusCode != http.StatusOK || got.Header.Get("ETag") != etag || got.Header.Get("Content-Length") != fmt.Sprint(len(data)) {
		t.Errorf("HEAD: %s %v", got, got.Header)
	}
}

// A probe is not counted as a download of a share, so it gets the bytes that it asked for, and no
// address at which the whole file can be fetched.
func TestProbeIsNotRedirected(t *testing.T) {
	t.Parallel()
	u := newStoreStack(t).newUser(t, "ann", 0)
	data := pattern(5000)
	v, _ := u.shareOf(t, u.put(t, "/film", data)["id"].(string), nil)
	one := v.open(t, "")
	for _, ranges := range []string{"bytes=0-0", "bytes=0-1"} {
		got := one.get(t, "/nodes/root/content", "Range", ranges)
		if got.StatusCode != http.StatusPartialContent || !bytes.HasPrefix(data[:2], got.body) || got.Header.Get("Location") != "" {
			t.Errorf("%s: %s, to %q", ranges, got, got.Header.Get("Location"))
		}
	}
	if got := one.get(t, "/nodes/root/content", "Range", "bytes=0-2"); !bytes.Equal(follow(t, got, "bytes=0-2").body, data[:3]) {
		t.Errorf("more than a probe: %s", got)
	}
}

// Requests with preconditions or ranges that the store would handle differently are served here.
func TestPreconditionsAreNotRedirected(t *testing.T) {
	t.Parallel()
	u := newStoreStack(t).newUser(t, "ann", 0)
	data := pattern(5000)
	node := u.send(t, "PUT", "/files/a.bin", data, "X-Mtime", "1600000000123").json(t, http.StatusCreated)
	at := "/nodes/" + node["id"].(string) + "/content"
	etag := `"b3-` + node["digests"].(map[string]any)["blake3"].(string) + `"`
	for _, c := range []struct {
		header []string
		status int
		body   []byte // nil: not looked at
	}{
		{[]string{"If-None-Match", etag}, 304, nil},
		{[]string{"If-None-Match", `"b3-other"`}, 200, data},
		{[]string{"If-Match", etag}, 200, data},
		{[]string{"If-Match", `"b3-other"`}, 412, nil},
		{[]string{"If-Modified-Since", "Sun, 13 Sep 2020 12:26:40 GMT"}, 304, nil},
		{[]string{"If-Unmodified-Since", "Sun, 13 Sep 2020 12:26:40 GMT"}, 200, data},
		{[]string{"If-Unmodified-Since", "Sun, 13 Sep 2020 12:26:39 GMT"}, 412, nil},
		{[]string{"Range", "bytes=0-9", "If-Range", `"b3-other"`}, 200, data},
		{[]string{"Range", "bytes=0-9", "If-Range", "Sun, 13 Sep 2020 12:26:41 GMT"}, 200, data},
		{[]string{"Range", "bytes=0-1,4990-4999"}, 206, nil},
		{[]string{"Range", "bytes=5000-"}, 416, nil},
		{[]string{"Range", "bytes=abc"}, 416, nil},
	} {
		got := u.get(t, at, c.header...)
		if got.StatusCode != c.status || c.body != nil && !bytes.Equal(got.body, c.body) {
			t.Errorf("%q: %d and %d bytes, want %d", c.header, got.StatusCode, len(got.body), c.status)
		}
		if c.status == 416 {
			got.problem(t, drive.Range, map[string]any{"size": len(data)})
		}
	}
}

// The store's answer carries none of the headers that keep a user's page from acting as ours.
func TestOnlyWhatIsHarmlessIsShownFromTheStore(t *testing.T) {
	t.Parallel()
	u := newStoreStack(t).newUser(t, "ann", 0)
	for name, sentOn := range map[string]bool{"a.png": true, "a.mp4": true, "a.mp3": true, "a.svg": false, "a.html": false, "a.pdf": false, "a": false} {
		at := "/nodes/" + u.put(t, "/"+name, []byte(name))["id"].(string) + "/content?inline=1"
		got := u.get(t, at)
		if !sentOn {
			if got.StatusCode != http.StatusOK || got.Header.Get("Content-Security-Policy") == "" {
				t.Errorf("%s: %s", name, got)
			}
			continue
		}
		if there := follow(t, got, ""); !strings.HasPrefix(there.Header.Get("Content-Disposition"), "inline") || string(there.body) != name {
			t.Errorf("%s: %s %v", name, there, there.Header)
		}
	}
}

func TestDamagedContentIsNotRedirected(t *testing.T) {
	t.Parallel()
	s := newStoreStack(t)
	u := s.newUser(t, "ann", 0)
	at := "/nodes/" + u.put(t, "/f", []byte("content"))["id"].(string) + "/content"
	follow(t, u.get(t, at), "")
	err := s.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE blobs SET damaged_at = 7`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := u.get(t, at); got.StatusCode != http.StatusOK || string(got.body) != "content" {
		t.Errorf("damaged: %s", got)
	}
}

// A signed link that ends soon is not prolonged by the address that it leads to.
func TestTheStoresAddressDoesNotOutliveASignedLink(t *testing.T) {
	t.Parallel()
	s := newStoreStack(t)
	u := s.newUser(t, "ann", 0)
	file := "/nodes/" + u.put(t, "/f.txt", []byte("shared"))["id"].(string)
	for life, want := range map[int]string{640: "600", 41: "1", 7200: "900"} {
		l := u.post(t, file+"/links", map[string]any{"expires_in": life}).json(t, http.StatusCreated)
		at, err := url.Parse(l["url"].(string))
		if err != nil {
			t.Fatal(err)
		}
		s.Clock.Advance(40 * time.Second)
		got := s.do(t, request{method: "GET", path: at.RequestURI()})
		where, err := url.Parse(got.Header.Get("Location"))
		if err != nil || where.Query().Get("X-Amz-Expires") != want {
			t.Errorf("of %d s, 40 s later: good for %q seconds, want %s; %v", life, where.Query().Get("X-Amz-Expires"), want, err)
		}
		if life == 41 { // over before a busy machine has asked
			continue
		}
		if body := follow(t, got, "").body; string(body) != "shared" {
			t.Errorf("it gives %q", body)
		}
	}
}
