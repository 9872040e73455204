package zipline

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
)

// served is a server with one archive.
type served struct {
	*httptest.Server
	a      *Archive
	src    *memorySource
	all    []byte
	broken chan *EntryError
}

func serve(t *testing.T, s *memorySource, entries []Entry) *served {
	t.Helper()
	a := mustLayout(t, entries)
	v := &served{a: a, src: s, all: mustRead(t, a, s, 0, a.Size(), Options{}), broken: make(chan *EntryError, 10)}
	v.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse := func(err error) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(map[drive.Kind]int{drive.Range: 416, drive.Precondition: 412}[drive.KindOf(err)])
			fmt.Fprint(w, drive.KindOf(err))
		}
		a.Serve(w, r, s, ServeOptions{
			Options: Options{OnBroken: func(e *EntryError) { v.broken <- e }}, Modified: sealed, Refuse: refuse,
		})
	}))
	v.Config.ErrorLog = nil
	t.Cleanup(v.Close)
	return v
}

func (v *served) do(t *testing.T, method string, header ...string) (*http.Response, []byte, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, v.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := v.Client().Do(r)
	if err != nil {
		return &http.Response{}, nil, err // failed before the response
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return res, b, err
}

func TestServe(t *testing.T) {
	t.Parallel()
	s, entries := mixed()
	v := serve(t, s, entries)
	all, size, tag := v.all, len(v.all), v.a.ETag()
	later, earlier := "Fri, 20 Nov 2026 09:30:07 GMT", "Thu, 19 Nov 2026 09:30:07 GMT"
	whole := fmt.Sprint(size)
	for name, c := range map[string]struct {
		method string
		header []string
		status int
		body   []byte
		length string
		rng    string
	}{
		"whole":                 {"GET", nil, 200, all, whole, ""},
		"head":                  {"HEAD", nil, 200, nil, whole, ""},
		"from the middle":       {"GET", []string{"Range", "bytes=1000000-"}, 206, all[1_000_000:], fmt.Sprint(size - 1_000_000), fmt.Sprintf("bytes 1000000-%d/%d", size-1, size)},
		"between":               {"GET", []string{"Range", "bytes=5-100000"}, 206, all[5:100_001], "99996", fmt.Sprintf("bytes 5-100000/%d", size)},
		"beyond the end":        {"GET", []string{"Range", "bytes=5-999999999999"}, 206, all[5:], fmt.Sprint(size - 5), fmt.Sprintf("bytes 5-%d/%d", size-1, size)},
		"suffix":                {"GET", []string{"Range", "bytes=-22"}, 206, all[size-22:], "22", fmt.Sprintf("bytes %d-%d/%d", size-22, size-1, size)},
		"suffix beyond":         {"GET", []string{"Range", "bytes=-999999999999"}, 206, all, whole, fmt.Sprintf("bytes 0-%d/%d", size-1, size)},
		"head of a range":       {"HEAD", []string{"Range", "bytes=5-9"}, 206, nil, "5", fmt.Sprintf("bytes 5-9/%d", size)},
		"not satisfiable":       {"GET", []string{"Range", "bytes=" + whole + "-"}, 416, []byte("range"), "", "bytes */" + whole},
		"other unit":            {"GET", []string{"Range", "entries=1-2"}, 416, []byte("range"), "", ""},
		"if-range, same":        {"GET", []string{"Range", "bytes=5-9", "If-Range", tag}, 206, all[5:10], "5", fmt.Sprintf("bytes 5-9/%d", size)},
		"if-range, other":       {"GET", []string{"Range", "bytes=5-9", "If-Range", `"other"`}, 200, all, whole, ""},
		"if-range, weak":        {"GET", []string{"Range", "bytes=5-9", "If-Range", "W/" + tag}, 200, all, whole, ""},
		"if-range, date":        {"GET", []string{"Range", "bytes=5-9", "If-Range", later}, 206, all[5:10], "5", fmt.Sprintf("bytes 5-9/%d", size)},
		"if-range, other date":  {"GET", []string{"Range", "bytes=5-9", "If-Range", earlier}, 200, all, whole, ""},
		"if-none-match":         {"GET", []string{"If-None-Match", tag}, 304, nil, "", ""},
		"if-match":              {"GET", []string{"If-Match", `"other"`}, 412, []byte("precondition"), "", ""},
		"ranges longer than it": {"GET", []string{"Range", "bytes=0-,0-,0-"}, 200, all, whole, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, body, err := v.do(t, c.method, c.header...)
			if err != nil || res.StatusCode != c.status || !bytes.Equal(body, c.body) {
				t.Fatalf("%s, %d bytes, want %d: %v", res.Status, len(body), len(c.body), err)
			}
			h := res.Header
			if c.length != "" && h.Get("Content-Length") != c.length {
				t.Errorf("Content-Length %q, want %q", h.Get("Content-Length"), c.length)
			}
			if c.rng != "" && h.Get("Content-Range") != c.rng {
				t.Errorf("Content-Range %q, want %q", h.Get("Content-Range"), c.rng)
			}
			if res.StatusCode < 300 && (h.Get("ETag") != tag || h.Get("Accept-Ranges") != "bytes" || h.Get("Content-Type") != "application/zip" || h.Get("Last-Modified") != later) {
				t.Errorf("headers %v", h)
			}
		})
	}
}

func TestServeSeveralRanges(t *testing.T) {
	t.Parallel()
	s, entries := mixed()
	v := serve(t, s, entries)
	res, body, err := v.do(t, "GET", "Range", "bytes=0-99,1000000-3000000,-22")
	if err != nil || res.StatusCode != 206 || res.Header.Get("Content-Length") != strconv.Itoa(len(body)) {
		t.Fatalf("%s, %d bytes: %v", res.Status, len(body), err)
	}
	_, params, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	parts := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for _, want := range [][]byte{v.all[:100], v.all[1_000_000:3_000_001], v.all[len(v.all)-22:]} {
		p, err := parts.NextPart()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(p); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes: %v", p.Header.Get("Content-Range"), len(got), err)
		}
	}
}

// An interrupted download is resumed by a range. Each range may cost the store far more than the
// client, so only a few are permitted.
func TestServeTooManyRanges(t *testing.T) {
	t.Parallel()
	s, entries := mixed()
	v := serve(t, s, entries)
	for n, status := range map[int]int{maxRanges: 206, maxRanges + 1: 200} {
		res, body, err := v.do(t, "GET", "Range", "bytes="+strings.TrimSuffix(strings.Repeat("-1,", n), ","))
		if err != nil || res.StatusCode != status || status == 200 && !bytes.Equal(body, v.all) {
			t.Errorf("%d ranges: %s, %d bytes: %v", n, res.Status, len(body), err)
		}
	}
}

func TestContinuedDownload(t *testing.T) {
	t.Parallel()
	s, entries := mixed()
	v := serve(t, s, entries)
	var got []byte
	for len(got) < len(v.all) {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, "GET", v.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", len(got)))
		r.Header.Set("If-Range", v.a.ETag())
		res, err := v.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(io.LimitReader(res.Body, 777_777))
		got = append(got, b...)
		cancel()
		res.Body.Close()
	}
	if !bytes.Equal(got, v.all) {
		t.Error("the pieces are not the whole")
	}
}

// The client of a damaged archive sees the connection break, with one range or several, and the
// server learns of the entry.
func TestServeBrokenEntry(t *testing.T) {
	t.Parallel()
	s, entries := mixed()
	v := serve(t, s, entries)
	content := noise(2, 3<<20+17)
	s.replace(entries[4], flipped(content, 7))
	_, end := v.a.contentRange(4)
	for _, header := range []string{"", "bytes=100-", "bytes=0-9,200000-3600000", fmt.Sprintf("bytes=%d-%d", end-100, end-1)} {
		res, body, err := v.do(t, "GET", "Range", header)
		if err == nil {
			t.Errorf("%q: %s, %d bytes of %s, and no error", header, res.Status, len(body), res.Header.Get("Content-Length"))
		}
		if bytes.Contains(body, content[len(content)-17:]) {
			t.Errorf("%q: the end of the damaged entry came", header)
		}
		if e := <-v.broken; e.Index != 4 || !strings.HasSuffix(e.Name, "large.pdf") {
			t.Errorf("%q: told of %v", header, e)
		}
	}
	s.replace(entries[4], content)
	if _, body, err := v.do(t, "GET"); err != nil || !bytes.Equal(body, v.all) {
		t.Errorf("the damage is gone, and still %v", err)
	}
}

// A HEAD and a failed condition cost the store nothing.
func TestServeWithoutReading(t *testing.T) {
	t.Parallel()
	s, entries := mixed()
	v := serve(t, s, entries)
	before := s.opens.Load()
	_, _, _ = v.do(t, "HEAD")
	_, _, _ = v.do(t, "GET", "If-None-Match", v.a.ETag())
	_, _, _ = v.do(t, "GET", "Range", "bytes=999999999-")
	if n := s.opens.Load() - before; n != 0 {
		t.Errorf("%d objects were opened", n)
	}
	res, _, _ := v.do(t, "GET", "Range", "bytes=0-99")
	if n := s.opens.Load() - before; res.StatusCode != 206 || n > 1 {
		t.Errorf("%d objects were opened for 100 bytes", n)
	}
}
