package zipline

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

func mustTake(t *testing.T, b *Budget, client string, least, want drive.ByteSize) *Grant {
	t.Helper()
	g, err := b.Acquire(t.Context(), client, least, want)
	if err != nil {
		t.Fatalf("%s got nothing: %v", client, err)
	}
	return g
}

func TestGrantsShrinkAsBudgetFills(t *testing.T) {
	t.Parallel()
	b := NewBudget(100)
	var sizes []drive.ByteSize
	var all []*Grant
	for i := range 9 {
		g := mustTake(t, b, fmt.Sprint(i), 5, 20)
		sizes, all = append(sizes, g.Bytes), append(all, g)
	}
	want := []drive.ByteSize{20, 20, 15, 11, 8, 6, 5, 5, 5}
	if fmt.Sprint(sizes) != fmt.Sprint(want) {
		t.Errorf("grants of %v, want %v", sizes, want)
	}
	for _, g := range all {
		g.Close()
		g.Close()
	}
	if g := mustTake(t, b, "x", 5, 20); g.Bytes != 20 || b.free != 80 {
		t.Errorf("after all: %d, %d free", g.Bytes, b.free)
	}
}

// The slowest grant of the client with most grants is evicted. A client with one grant keeps it
// while it reads.
func TestClientWithMostGrantsIsEvicted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(8)
		ended := make(chan int, 8)
		for i := range 7 {
			g := mustTake(t, b, "greedy", 1, 1)
			g.sent.Store(int64(i+1) << 30)
			g.onEviction(func() {
				ended <- i
				go g.Close()
			})
		}
		modest := mustTake(t, b, "modest", 1, 1)
		modest.sent.Store(1 << 30)
		modest.onEviction(func() { t.Error("the only answer of a client was broken off") })
		time.Sleep(minAge)
		for i := range 3 {
			mustTake(t, b, fmt.Sprint("late", i), 1, 1).sent.Store(1 << 30)
			if n := <-ended; n != i {
				t.Errorf("grant %d was taken away, want %d", n, i)
			}
		}
		mustTake(t, b, "late0", 1, 1) // two grants, against four
		if n := <-ended; n != 3 {
			t.Errorf("grant %d was taken away", n)
		}
		if _, err := b.Acquire(t.Context(), "greedy", 1, 1); !drive.IsKind(err, drive.Unavailable) {
			t.Errorf("who has most got more: %v", err)
		}
		if b.Evicted() != 4 || b.demanded != 0 || b.reclaiming != 0 {
			t.Errorf("%d evicted, %d wanted, %d coming", b.Evicted(), b.demanded, b.reclaiming)
		}
	})
}

// If each client has one grant, the slowest is evicted if it is slow.
func TestSlowReaderIsEvicted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(4)
		ended := make(chan int, 4)
		for i := range 4 {
			g := mustTake(t, b, fmt.Sprint(i), 1, 1)
			g.sent.Store(int64(i) * slowRate / 2 * int64(minAge/time.Second))
			g.onEviction(func() {
				ended <- i
				go g.Close()
			})
		}
		if _, err := b.Acquire(t.Context(), "late", 1, 1); !drive.IsKind(err, drive.Unavailable) {
			t.Errorf("nobody can be slow yet: %v", err)
		}
		time.Sleep(minAge)
		for want := range 2 {
			mustTake(t, b, fmt.Sprint("late", want), 1, 1)
			if n := <-ended; n != want {
				t.Errorf("grant %d was taken away, want %d", n, want)
			}
		}
		if _, err := b.Acquire(t.Context(), "late2", 1, 1); !drive.IsKind(err, drive.Unavailable) {
			t.Errorf("one that is quick enough was taken away: %v", err)
		}
	})
}

// An evicted grant counts until it is closed, and no caller waits for it for ever.
func TestAcquireTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(3)
		for range 3 {
			mustTake(t, b, "stuck", 1, 1)
		}
		start := time.Now()
		if _, err := b.Acquire(t.Context(), "late", 1, 1); !drive.IsKind(err, drive.Unavailable) || time.Since(start) != grantTimeout {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
		if b.free != 0 || b.demanded != 0 || b.reclaiming != 1 {
			t.Errorf("%d free, %d wanted, %d coming", b.free, b.demanded, b.reclaiming)
		}
	})
}

// Clients that never read hold at most the budget, and do not block others.
func TestStalledReadersDoNotBlockOthers(t *testing.T) {
	t.Parallel()
	s := newShelf()
	var entries []Entry
	for i := range 3 {
		entries = append(entries, s.put(fmt.Sprint("f", i), noise(i, 16<<20)))
	}
	a := mustLayout(t, entries)
	b := NewBudget(10 * drive.MiB)
	var answered sync.WaitGroup
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answered.Add(1)
		defer answered.Done()
		a.Serve(w, r, s, ServeOptions{Modified: sealed, Budget: b, Client: r.URL.Path})
	}))
	t.Cleanup(srv.Close)
	for i := range 64 {
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "GET /stalled HTTP/1.1\r\nHost: x\r\n\r\n")
		if i%8 == 0 { // the response has begun or was refused
			if _, err := conn.Read(make([]byte, 12)); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.mu.Lock()
	held := drive.ByteSize(0)
	for g := range b.grants {
		held += max(g.Bytes, minWindow)
	}
	b.mu.Unlock()
	if held > 10*drive.MiB {
		t.Errorf("the windows hold %d bytes", held)
	}
	resp, err := http.Get(srv.URL + "/reader") //nolint:noctx // the test ends with it
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || !bytes.Equal(got, mustRead(t, a, s, 0, a.Size(), Options{})) {
		t.Errorf("%s, %d bytes: %v", resp.Status, len(got), err)
	}
	if b.Evicted() == 0 {
		t.Error("nobody gave")
	}
	srv.CloseClientConnections()
	answered.Wait()
	if b.free != int64(10*drive.MiB) || b.reclaiming != 0 || s.open.Load() != 0 {
		t.Errorf("%d free, %d coming, %d objects open", b.free, b.reclaiming, s.open.Load())
	}
}

// Without memory the response says so, without content. Conditions need no memory.
func TestNoMemoryIsUnavailable(t *testing.T) {
	t.Parallel()
	s, entries := mixed()
	a := mustLayout(t, entries)
	b := NewBudget(minWindow)
	held := mustTake(t, b, "x", minWindow, minWindow)
	ask := func(method string, header ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), method, "/", nil)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		rec := httptest.NewRecorder()
		a.Serve(rec, r, s, ServeOptions{Budget: b, Client: "x", Refuse: func(err error) {
			rec.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(rec, drive.KindOf(err))
		}})
		return rec
	}
	for _, header := range [][]string{nil, {"Range", "bytes=1000000-1000009"}, {"Range", "bytes=5-9,20-30"}} {
		if rec := ask("GET", header...); rec.Code != 503 || rec.Body.String() != "unavailable" || rec.Header().Get("ETag")+rec.Header().Get("Content-Length") != "" {
			t.Errorf("%v: %d %q %v", header, rec.Code, rec.Body, rec.Header())
		}
	}
	if rec := ask("HEAD"); rec.Code != 200 {
		t.Errorf("HEAD: %d", rec.Code)
	}
	if rec := ask("GET", "If-None-Match", a.ETag()); rec.Code != 304 {
		t.Errorf("If-None-Match: %d", rec.Code)
	}
	held.Close()
	if rec := ask("GET"); rec.Code != 200 || drive.ByteSize(rec.Body.Len()) != a.Size() {
		t.Errorf("then: %d, %d bytes", rec.Code, rec.Body.Len())
	}
}

// A response whose caller-held grant is evicted breaks off like any other.
func TestCallersGrantIsEvicted(t *testing.T) {
	t.Parallel()
	s, entries := mixed()
	a := mustLayout(t, entries)
	b := NewBudget(3 * minWindow)
	var mine *Grant
	for range 3 {
		mine = mustTake(t, b, "x", minWindow, minWindow)
	}
	b.mu.Lock()
	b.evictLocked(mine)
	b.mu.Unlock()
	func() {
		defer func() {
			if v := recover(); v != http.ErrAbortHandler { //nolint:errorlint // panics are values
				t.Errorf("it ended with %v", v)
			}
		}()
		a.Serve(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), s, ServeOptions{Budget: b, Grant: mine})
	}()
	if b.reclaiming != int64(minWindow) {
		t.Errorf("%d bytes are coming", b.reclaiming)
	}
	mine.Close()
	if b.reclaiming != 0 || b.free != int64(minWindow) {
		t.Errorf("%d coming, %d free", b.reclaiming, b.free)
	}
}

// A growing list uses the same memory as others and releases what it does not need.
func TestGrantGrowsAndShrinks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(12)
		g, err := b.Acquire(t.Context(), "a", 4, 4)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Grow(t.Context(), 6); err != nil || g.Bytes != 10 || b.free != 2 || len(b.grants) != 1 {
			t.Fatalf("it has %d bytes, %d are free: %v", g.Bytes, b.free, err)
		}
		if err := g.Grow(t.Context(), 4); !drive.IsKind(err, drive.Unavailable) {
			t.Errorf("beyond the three quarters that are for lists: %v", err)
		}
		g.Shrink(12)
		g.Shrink(3)
		if g.Bytes != 3 || b.free != 9 || b.grown != 0 {
			t.Errorf("it has %d bytes, %d are free", g.Bytes, b.free)
		}
		time.Sleep(minAge) // on the clock of the bubble: from now on it counts as slow
		broken := false
		g.onEviction(func() { broken = true })
		other := make(chan *Grant)
		go func() {
			h, err := b.Acquire(t.Context(), "b", 10, 10)
			if err != nil {
				t.Error(err)
			}
			other <- h
		}()
		synctest.Wait()
		if err := g.Grow(t.Context(), 2); !broken || !drive.IsKind(err, drive.Unavailable) || b.reclaiming != int64(g.Bytes) {
			t.Errorf("one that was taken away has %d bytes, %d are to come: %v", g.Bytes, b.reclaiming, err)
		}
		g.Shrink(1)
		g.Close()
		(<-other).Close()
		if b.free != 12 || b.grown != 0 || b.reclaiming != 0 || b.demanded != 0 {
			t.Errorf("%d are free, %d to come, %d wanted", b.free, b.reclaiming, b.demanded)
		}
		var unbounded *Budget
		u, _ := unbounded.Acquire(t.Context(), "a", 1, 1)
		if err := u.Grow(t.Context(), 2); err != nil || u.Bytes != 3 {
			t.Errorf("without a budget: %d, %v", u.Bytes, err)
		}
		u.Shrink(1)
	})
}
