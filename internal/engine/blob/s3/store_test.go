package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/blobtest"
)

// roundTripFunc is an HTTP transport that lets a test inspect and change requests.
type roundTripFunc func(r *http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func put(t *testing.T, s *Store, b []byte) string {
	t.Helper()
	name := blobtest.PutName()
	_, err := s.Put(t.Context(), name, bodyOf(0, len(b), bytes.NewReader(b)))
	noError(t, err)
	return name
}

// tornBody is a body that ends with an error.
type tornBody struct {
	io.ReadCloser
	left int
}

func (b *tornBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func TestBrokenReadResumes(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var ranges []string
	o := testOptions(t)
	o.Transport = roundTripFunc(func(r *http.Request) (*http.Response, error) {
		resp, err := sharedTransport.RoundTrip(r)
		if err == nil && r.Method == http.MethodGet && r.Header.Get("Range") != "" {
			mu.Lock()
			ranges = append(ranges, r.Header.Get("Range"))
			mu.Unlock()
			resp.Body = &tornBody{resp.Body, 700_001}
		}
		return resp, err
	})
	b := bucketAt(t, o)
	want := blobtest.Bytes(1, 5*drive.MiB+3)
	if got := readAll(t, b, put(t, b.Blobs, want)); !bytes.Equal(got, want) {
		t.Errorf("%d bytes differ", len(got))
	}
	if len(ranges) < 7 {
		t.Errorf("only %v were asked for: what broke?", ranges)
	}
}

func TestSequentialReadsUseFewRequests(t *testing.T) {
	t.Parallel()
	var gets int
	o := testOptions(t)
	o.Transport = roundTripFunc(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet {
			gets++
		}
		return sharedTransport.RoundTrip(r)
	})
	b := bucketAt(t, o)
	want := blobtest.Bytes(1, 20*drive.MiB)
	name := put(t, b.Blobs, want)
	object, err := b.Blobs.Open(t.Context(), name)
	noError(t, err)
	got, piece := make([]byte, 0, len(want)), make([]byte, 32<<10)
	for off := int64(0); off < int64(len(want)); off += int64(len(piece)) {
		n, err := object.ReadAt(piece, off)
		noError(t, err)
		got = append(got, piece[:n]...)
	}
	noError(t, object.Close())
	if !bytes.Equal(got, want) || gets > 6 {
		t.Errorf("%d requests for %d bytes, equal: %v", gets, len(got), bytes.Equal(got, want))
	}
}

func TestConcurrentReadsOfOneObject(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	want := blobtest.Bytes(1, 3*drive.MiB)
	object, err := b.Blobs.Open(t.Context(), put(t, b.Blobs, want))
	noError(t, err)
	var g errgroup.Group
	for i := range 8 {
		g.Go(func() error {
			off := i * 300_000
			p := make([]byte, 400_000)
			if _, err := object.ReadAt(p, int64(off)); err != nil || !bytes.Equal(p, want[off:off+len(p)]) {
				return fmt.Errorf("at %d: %w", off, err)
			}
			return nil
		})
	}
	noError(t, g.Wait())
	noError(t, object.Close())
	if _, err := object.ReadAt(make([]byte, 10), 0); err == nil {
		t.Error("read after Close")
	}
}

// TestPutWithLostReplyLeavesNothing also checks that existing content of that name stays.
func TestPutWithLostReplyLeavesNothing(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	lose := false
	o.Transport = roundTripFunc(func(r *http.Request) (*http.Response, error) {
		resp, err := sharedTransport.RoundTrip(r)
		if err == nil && lose && r.Method == http.MethodPut {
			_ = resp.Body.Close()
			return nil, errDead
		}
		return resp, err
	})
	b := bucketAt(t, o)
	old := blobtest.Bytes(1, 1000)
	there := put(t, b.Blobs, old)
	lose = true
	for _, name := range []string{blobtest.PutName(), there} {
		_, err := b.Blobs.Put(t.Context(), name, bodyOf(0, 10, bytes.NewReader(make([]byte, 10))))
		wantKind(t, err, drive.Unavailable)
	}
	var left []string
	noError(t, b.Blobs.List(t.Context(), func(s blob.Entry) error {
		left = append(left, s.Name)
		return nil
	}))
	if len(left) != 1 || !bytes.Equal(readAll(t, b, there), old) {
		t.Errorf("left: %v", left)
	}
}

func TestPutWithoutIfNoneMatch(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	o.Transport = roundTripFunc(func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("If-None-Match") != "" {
			_, _ = io.Copy(io.Discard, r.Body)
			return answerXML(r, http.StatusNotImplemented, "NotImplemented"), nil
		}
		return sharedTransport.RoundTrip(r)
	})
	b := bucketAt(t, o)
	noError(t, b.Check(t.Context()))
	old := blobtest.Bytes(1, 1000)
	name := put(t, b.Blobs, old)
	if _, err := b.Blobs.Put(t.Context(), name, bodyOf(0, 1, strings.NewReader("x"))); err == nil {
		t.Error("content was replaced (B1)")
	}
	if !bytes.Equal(readAll(t, b, name), old) {
		t.Error("content changed (B1)")
	}
}

// TestEmptyBodyHasContentLength: some stores leave the end of an empty chunked body in the
// connection.
func TestEmptyBodyHasContentLength(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	puts, full := 0, false
	o.Transport = roundTripFunc(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPut && (strings.Contains(r.URL.Path, "/put-") || r.URL.Query().Has("partNumber")) && !full {
			puts++
			if r.Body != nil || r.ContentLength != 0 {
				t.Errorf("sent with a body of %d bytes: %v", r.ContentLength, r.Header)
			}
		}
		return sharedTransport.RoundTrip(r)
	})
	b := bucketAt(t, o)
	if name := put(t, b.Blobs, nil); len(readAll(t, b, name)) != 0 || puts != 1 {
		t.Errorf("put %d times", puts)
	}
	upload, _, err := b.Objects().Begin(t.Context(), "acc/empty.zip", "application/zip")
	noError(t, err)
	if putObject(t, b.Objects(), "acc/empty.zip", upload, 0, nil); puts != 2 {
		t.Errorf("a part was sent %d times", puts-1)
	}
	full = true
	ref, file := newUpload(t, b.Staging)
	send(t, b.Staging, ref, 0, slicePart(file, 0))
	full = false
	noError(t, b.Staging.Drop(t.Context(), ref, 1, 0))
	if puts != 3 {
		t.Errorf("in the place of a dropped part something was put %d times", puts-2)
	}
}

// TestSmallBodyIsSignedWhole checks that the store rejects bytes changed in transit, and stores
// nothing of them.
func TestSmallBodyIsSignedWhole(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	var signed []string
	change := false
	o.Transport = roundTripFunc(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/put-") {
			signed = append(signed, r.Header.Get("X-Amz-Content-Sha256"))
			if change {
				raw, err := io.ReadAll(r.Body)
				noError(t, err)
				raw[0]++
				r.Body = io.NopCloser(bytes.NewReader(raw))
			}
		}
		return sharedTransport.RoundTrip(r)
	})
	b := bucketAt(t, o)
	for _, size := range []drive.ByteSize{0, 1, maxBuffered, maxBuffered + 1} {
		content := blobtest.Bytes(uint64(size), size)
		signed = nil
		if name := put(t, b.Blobs, content); !bytes.Equal(readAll(t, b, name), content) {
			t.Errorf("%d bytes have changed", size)
		}
		want := fmt.Sprintf("%x", sha256.Sum256(content))
		if isWhole := slices.Equal(signed, []string{want}); isWhole != (size <= maxBuffered) {
			t.Errorf("%d bytes are signed by %q", size, signed)
		}
	}
	change = true
	name := blobtest.PutName()
	if _, err := b.Blobs.Put(t.Context(), name, bodyOf(0, 3, strings.NewReader("abc"))); err == nil {
		t.Error("bytes that have changed on their way are accepted")
	}
	if _, err := b.Blobs.Open(t.Context(), name); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("what was refused: %v", err)
	}
}

// TestSmallBodyIsRetried retries after transient errors and lost replies; existing content stays
// and is not mistaken for the new one.
func TestSmallBodyIsRetried(t *testing.T) {
	t.Parallel()
	content := blobtest.Bytes(7, 1000)
	for name, fail := range map[string]func(*http.Request) (*http.Response, error){
		"refused": func(r *http.Request) (*http.Response, error) {
			_, _ = io.Copy(io.Discard, r.Body)
			return answerXML(r, http.StatusServiceUnavailable, "SlowDown"), nil
		},
		"reply lost": func(r *http.Request) (*http.Response, error) {
			resp, err := sharedTransport.RoundTrip(r)
			noError(t, err)
			return nil, errors.Join(io.ErrUnexpectedEOF, resp.Body.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := testOptions(t)
			puts := 0
			o.Transport = roundTripFunc(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/put-") {
					if puts++; puts == 1 {
						return fail(r)
					}
				}
				return sharedTransport.RoundTrip(r)
			})
			b := bucketAt(t, o)
			name := put(t, b.Blobs, content)
			if !bytes.Equal(readAll(t, b, name), content) || puts != 2 {
				t.Errorf("put %d times, or it has changed", puts)
			}
			if _, err := b.Blobs.Put(t.Context(), name, bodyOf(0, 5, strings.NewReader("other"))); err == nil || !bytes.Equal(readAll(t, b, name), content) {
				t.Errorf("content was replaced (B1): %v", err)
			}
		})
	}
}

func TestClassifyErrors(t *testing.T) {
	t.Parallel()
	for code, c := range map[string]struct {
		status int
		want   drive.Kind
	}{
		"SlowDown":                       {http.StatusServiceUnavailable, drive.Unavailable},
		"InternalError":                  {http.StatusInternalServerError, drive.Unavailable},
		"AccessDenied":                   {http.StatusForbidden, drive.Unavailable},
		"BadRequest":                     {http.StatusBadRequest, drive.Unavailable},
		"NoSuchBucket":                   {http.StatusNotFound, drive.Unavailable},
		"NoSuchKey":                      {http.StatusNotFound, drive.NotFound},
		"InsufficientStorage":            {http.StatusInsufficientStorage, drive.DiskFull},
		"XMinioAdminBucketQuotaExceeded": {http.StatusBadRequest, drive.DiskFull},
		"MalformedXML":                   {http.StatusBadRequest, drive.Internal},
		"ExistingObjectIsDirectory":      {http.StatusConflict, drive.Unavailable},
	} {
		o := Options{
			Endpoint: "127.0.0.1:1", Bucket: "bucket", AccessKey: "a", SecretKey: "s", Insecure: true,
			Transport: roundTripFunc(func(r *http.Request) (*http.Response, error) { return answerXML(r, c.status, code), nil }),
		}
		limit := time.Minute
		if c.want == drive.Unavailable && c.status >= 500 {
			limit = 300 * time.Millisecond // the client tries again
		}
		ctx, stop := context.WithTimeout(t.Context(), limit)
		_, _, err := bucketAt(t, o).ReadMark(ctx)
		stop()
		if c.want == drive.NotFound {
			noError(t, err) // no mark
			continue
		}
		if drive.KindOf(err) != c.want {
			t.Errorf("%s is %v, want %v", code, err, c.want)
		}
	}
}

func TestWriteMarkReplacesMark(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	if _, found, err := b.ReadMark(t.Context()); found || err != nil {
		t.Errorf("found %v, %v in an empty place", found, err)
	}
	for _, want := range []blob.Mark{{ID: "x", Generation: 1}, {ID: "x", Generation: 2}} {
		noError(t, b.WriteMark(t.Context(), want))
		if got, found, err := b.ReadMark(t.Context()); got != want || !found || err != nil {
			t.Errorf("%v, %v, %v", got, found, err)
		}
	}
}

func TestPresignedLink(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	want := blobtest.Bytes(1, 1000)
	link, err := b.Blobs.Presign(t.Context(), put(t, b.Blobs, want), blob.Link{
		Valid: time.Minute, ContentType: "text/x-test", Disposition: `attachment; filename="a b"`,
	})
	noError(t, err)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, link, nil)
	noError(t, err)
	r.Header.Set("Range", "bytes=10-19")
	resp, err := sharedTransport.RoundTrip(r)
	noError(t, err)
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	noError(t, err)
	if !bytes.Equal(got, want[10:20]) || resp.Header.Get("Content-Type") != "text/x-test" ||
		!strings.HasPrefix(resp.Header.Get("Content-Disposition"), "attachment") {
		t.Errorf("%d: %q, %v", resp.StatusCode, got, resp.Header)
	}
	_, err = b.Blobs.Presign(t.Context(), "../"+blob.MarkName, blob.Link{Valid: time.Minute})
	wantKind(t, err, drive.NotFound)
}

func TestCheckReportsProblems(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	noError(t, bucketAt(t, o).Check(t.Context()))
	refuse := func(match func(*http.Request) bool) func(*Options) {
		return func(o *Options) {
			o.Transport = roundTripFunc(func(r *http.Request) (*http.Response, error) {
				if match(r) {
					_, _ = io.Copy(io.Discard, bodyOrNothing(r))
					return answerXML(r, http.StatusForbidden, "AccessDenied"), nil
				}
				return sharedTransport.RoundTrip(r)
			})
		}
	}
	behind := func(o *Options) { // a store to which all signatures are of another time
		o.Now = func() time.Time { return time.Now().Add(-time.Hour) }
		o.Transport = roundTripFunc(func(r *http.Request) (*http.Response, error) {
			if r.Header.Get("Authorization") != "" {
				return answerXML(r, http.StatusForbidden, "AccessDenied"), nil
			}
			return sharedTransport.RoundTrip(r)
		})
	}
	for want, change := range map[string]func(*Options){
		"does not exist":      func(o *Options) { o.Bucket = "no-such-bucket-here" },
		"be reached":          func(o *Options) { o.SecretKey = "wrong" },
		"clock":               behind,
		"s3:DeleteObject":     refuse(func(r *http.Request) bool { return r.Method == http.MethodDelete && r.URL.RawQuery == "" }),
		"s3:AbortMultipart":   refuse(func(r *http.Request) bool { return r.Method == http.MethodDelete && r.URL.RawQuery != "" }),
		"s3:PutObject":        refuse(func(r *http.Request) bool { return r.Method == http.MethodPut }),
		"s3:ListBucketMultip": refuse(func(r *http.Request) bool { return r.Method == http.MethodGet && r.URL.Query().Has("uploads") }),
	} {
		bad := o
		change(&bad)
		err := bucketAt(t, bad).Check(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got: %v", want, err)
		}
	}
}

func bodyOrNothing(r *http.Request) io.Reader {
	if r.Body == nil {
		return http.NoBody
	}
	return r.Body
}

func TestListingsOfSeveralPages(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	const many = pageSize + 5
	var g errgroup.Group
	g.SetLimit(16)
	for range many {
		g.Go(func() error {
			name := blobtest.PutName()
			_, err := b.Blobs.Put(t.Context(), name, bodyOf(0, 1, strings.NewReader("x")))
			_, merr := b.beginMultipart(t.Context(), drive.NewID[drive.UploadID]())
			return errors.Join(err, merr)
		})
	}
	noError(t, g.Wait())
	names, pendings := map[string]bool{}, map[string]bool{}
	noError(t, b.Blobs.List(t.Context(), func(s blob.Entry) error {
		names[s.Name] = true
		return nil
	}))
	noError(t, b.eachPending(t.Context(), b.key(blobsDir), func(p pending) error {
		pendings[p.key] = true
		return nil
	}))
	if len(names) != many || len(pendings) != many {
		t.Errorf("listed %d contents and %d multipart uploads of %d", len(names), len(pendings), many)
	}
}
