package probe_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/probe"
)

// ask sends a request to a head whose callers authenticate by a header.
func ask(ctx context.Context, mux *http.ServeMux, method, path string, body io.Reader, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, method, probe.Prefix+path, body)
	r.Header.Set("Authorization", "Bearer secret")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w
}

func newMux(released *int) *http.ServeMux {
	var mu sync.Mutex
	mux := http.NewServeMux()
	probe.New(probe.Options{Caller: func(r *http.Request) (func(), error) {
		if r.Header.Get("Authorization") == "" {
			return nil, drive.Fail(drive.Unauthenticated, "reason", "missing")
		}
		return func() { mu.Lock(); *released++; mu.Unlock() }, nil
	}}).Register(mux)
	return mux
}

// Echo reports what has arrived of a request of any method, without secrets.
func TestEcho(t *testing.T) {
	t.Parallel()
	released := 0
	mux := newMux(&released)
	w := ask(t.Context(), mux, "PROPFIND", "echo", strings.NewReader("12345"), "X-Forwarded-Proto", "https", "Depth", "1")
	var seen probe.Echo
	if err := json.Unmarshal(w.Body.Bytes(), &seen); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s (%v)", w.Code, w.Body, err)
	}
	if seen.Method != "PROPFIND" || seen.Bytes != 5 || !strings.Contains(strings.Join(seen.Headers, " "), "Authorization Depth X-Forwarded-Proto") {
		t.Errorf("%+v", seen)
	}
	if strings.Contains(w.Body.String(), "secret") {
		t.Errorf("it tells the value of a header: %s", w.Body)
	}
	if w = ask(t.Context(), mux, http.MethodPost, "echo", io.LimitReader(zeros{}, 64<<20+1)); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a body that is too large: status %d", w.Code)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, probe.Prefix+"echo", nil)
	w = httptest.NewRecorder()
	if mux.ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
		t.Errorf("without a login: status %d", w.Code)
	}
	if released != 2 {
		t.Errorf("%d places were given back", released)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// The reply says whether the disk has space, and not how much.
func TestDisk(t *testing.T) {
	t.Parallel()
	for free, want := range map[drive.ByteSize]probe.Disk{0: probe.Full, drive.GiB: probe.Full, drive.GiB + 1: probe.Low, 10 * drive.GiB: probe.Low, 11 * drive.GiB: probe.Enough} {
		mux := http.NewServeMux()
		probe.New(probe.Options{
			Caller: func(*http.Request) (func(), error) { return func() {}, nil },
			Disk:   func(context.Context) (probe.Disk, error) { return probe.DiskOf(free, drive.GiB), nil },
		}).Register(mux)
		if w := ask(t.Context(), mux, http.MethodGet, "disk", nil); w.Body.String() != `{"disk":"`+string(want)+`"}` {
			t.Errorf("%v free: %s, want %s", free, w.Body, want)
		}
	}
	mux := http.NewServeMux()
	probe.New(probe.Options{
		Caller: func(*http.Request) (func(), error) { return func() {}, nil },
		Disk:   func(context.Context) (probe.Disk, error) { return "", drive.Fail(drive.Unavailable) },
	}).Register(mux)
	if w := ask(t.Context(), mux, http.MethodGet, "disk", nil); w.Code != http.StatusServiceUnavailable {
		t.Errorf("a disk that cannot be asked: %d %s", w.Code, w.Body)
	}
}

// A part of the sample is that part, which tells where it is.
func TestBytes(t *testing.T) {
	t.Parallel()
	mux := newMux(new(int))
	w := ask(t.Context(), mux, http.MethodGet, "bytes", nil, "Range", "bytes=8-12")
	if w.Code != http.StatusPartialContent || w.Body.String() != "89012" || w.Header().Get("Content-Range") != "bytes 8-12/1000" {
		t.Errorf("%d %q %v", w.Code, w.Body, w.Header())
	}
	if w = ask(t.Context(), mux, http.MethodGet, "bytes", nil, "Range", "bytes=8-12", "If-Range", `"other"`); w.Code != http.StatusOK || w.Body.Len() != 1000 {
		t.Errorf("%d, %d bytes", w.Code, w.Body.Len())
	}
}

// The stream sends its events one by one; a slow answer comes when it was asked for, and neither
// outlives its client.
func TestSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mux, start := newMux(new(int)), time.Now()
		w := ask(t.Context(), mux, http.MethodGet, "stream", nil)
		if strings.Count(w.Body.String(), "data: ") != 3 || !w.Flushed || time.Since(start) != 1500*time.Millisecond {
			t.Errorf("%q after %v", w.Body, time.Since(start))
		}
		start = time.Now()
		if w = ask(t.Context(), mux, http.MethodGet, "slow?seconds=90", nil); w.Code != http.StatusNoContent || time.Since(start) != 90*time.Second {
			t.Errorf("%d after %v", w.Code, time.Since(start))
		}
		for _, bad := range []string{"91", "-1", "", "x", "99999999999999999999"} {
			if w = ask(t.Context(), mux, http.MethodGet, "slow?seconds="+bad, nil); w.Code != http.StatusBadRequest {
				t.Errorf("%q seconds: status %d", bad, w.Code)
			}
		}
		ctx, hangUp := context.WithCancel(t.Context())
		start = time.Now()
		time.AfterFunc(time.Second, hangUp)
		ask(ctx, mux, http.MethodGet, "slow?seconds=90", nil)
		ask(ctx, mux, http.MethodGet, "stream", nil)
		if time.Since(start) != time.Second {
			t.Errorf("it went on for %v", time.Since(start))
		}
	})
}

// Sixteen requests are served concurrently; the next one is accepted when one has ended.
func TestConcurrencyLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		released := 0
		mux := newMux(&released)
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() { ask(t.Context(), mux, http.MethodGet, "slow?seconds=10", nil) })
		}
		synctest.Wait()
		if w := ask(t.Context(), mux, http.MethodGet, "bytes", nil); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") == "" {
			t.Errorf("the 17th: status %d, %v", w.Code, w.Header())
		}
		all.Wait()
		if w := ask(t.Context(), mux, http.MethodGet, "bytes", nil); w.Code != http.StatusOK {
			t.Errorf("afterwards: status %d", w.Code)
		}
		if released != 18 {
			t.Errorf("%d places were given back", released)
		}
	})
}
