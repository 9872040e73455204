package rest_test

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/rest"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

func TestRequestsInFlightPerUserAreLimited(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{}, func(o *rest.Options) { o.Requests = server.NewLimiter[drive.UserID](2) })
	u, other := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	var slow sync.WaitGroup
	began, end := make(chan struct{}), make(chan struct{})
	for _, path := range []string{"/files/a", "/files/b"} {
		slow.Go(func() {
			if got := u.send(t, "PUT", path, &held{began: began, end: end}); got.StatusCode != http.StatusCreated {
				t.Errorf("a slow one: %s", got)
			}
		})
		<-began
	}
	got := u.get(t, "/me")
	got.problem(t, drive.Rate, map[string]any{"limit": 2, "sent": 3})
	if got.Header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After is %q", got.Header.Get("Retry-After"))
	}
	other.get(t, "/me").json(t, http.StatusOK)
	close(end)
	slow.Wait()
	u.get(t, "/me").json(t, http.StatusOK)
}

// A user makes only so many requests that write in a day, by any of their protocols. Others, and
// requests that read, are not counted.
func TestWritesPerUserAndDayAreLimited(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	now.Store(24 * 3600 * 100)
	writes := server.NewDailyLimiter[drive.UserID](3, func() time.Time { return time.Unix(now.Load(), 0) })
	s := newStack(t, uploadtest.Options{}, func(o *rest.Options) { o.Writes = writes })
	u, other := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	for i := range 3 {
		u.post(t, "/nodes", map[string]any{"path": fmt.Sprintf("/%d", i), "type": "folder"}).json(t, http.StatusCreated)
		u.get(t, "/me").json(t, http.StatusOK)
	}
	got := u.post(t, "/nodes", map[string]any{"path": "/more", "type": "folder"})
	got.problem(t, drive.Rate, nil)
	if got.Header.Get("Retry-After") != "86400" {
		t.Errorf("Retry-After is %q, want the rest of the day", got.Header.Get("Retry-After"))
	}
	u.get(t, "/me").json(t, http.StatusOK)
	other.post(t, "/nodes", map[string]any{"path": "/a", "type": "folder"}).json(t, http.StatusCreated)
	now.Add(24 * 3600)
	u.post(t, "/nodes", map[string]any{"path": "/more", "type": "folder"}).json(t, http.StatusCreated)
}

// held is a body that says when it is read, and ends when it may.
type held struct {
	began, end chan struct{}
	told       bool
}

func (h *held) Read([]byte) (int, error) {
	if !h.told {
		h.told = true
		h.began <- struct{}{}
	}
	<-h.end
	return 0, io.EOF
}

func TestDoubleClicksAreLimitedAndPartsAreNot(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0) // the clock stands still: the burst is all there is
	id := u.post(t, "/uploads", map[string]any{"path": "/x", "size": 1}).json(t, http.StatusCreated)["id"].(string)
	for range 200 {
		u.post(t, "/prepare", nil).json(t, http.StatusOK)
	}
	u.post(t, "/prepare", nil).problem(t, drive.Rate, map[string]any{"retry_after": 1})
	in := map[string]any{"path": "/dir", "type": "folder"}
	for i := range 201 { // what has a key of its own is no second click
		u.post(t, "/nodes", map[string]any{"path": fmt.Sprint("/dir", i), "type": "folder"}, "Idempotency-Key", fmt.Sprint(i)).json(t, http.StatusCreated)
	}
	u.post(t, "/nodes", in, "Idempotency-Key", "once").json(t, http.StatusCreated)
	for range 199 {
		u.post(t, "/nodes", in, "Idempotency-Key", "once").json(t, http.StatusCreated)
	}
	u.post(t, "/nodes", in, "Idempotency-Key", "once").problem(t, drive.Rate, nil)
	for i := range 201 { // nor is what happens to another file
		u.post(t, "/nodes/"+u.at(t, fmt.Sprint("/dir", i))+"/restore", nil).json(t, http.StatusOK)
	}
	for range 200 { // a claim of a content in the middle of an upload is one
		u.send(t, "PATCH", "/uploads/"+id, map[string]any{"conflict": "rename"}).json(t, http.StatusOK)
	}
	u.send(t, "PATCH", "/uploads/"+id, map[string]any{"digests": map[string]any{"sha256": strings.Repeat("ab", 32)}}).
		problem(t, drive.Rate, map[string]any{"retry_after": 1})
	for range 300 {
		if got := u.send(t, "PUT", "/uploads/"+id+"/parts/0", []byte("x")); got.StatusCode != http.StatusNoContent {
			t.Fatalf("a part: %s", got)
		}
	}
}

func TestProblemsSpeakTheReadersLanguage(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	for lang, want := range map[string]struct{ tag, detail string }{
		"": {"en", "size is missing."}, "de, en;q=0.5": {"en", "size is missing."}, "zh-CN,zh;q=0.9,en;q=0.8": {"zh-CN", "缺少 size。"},
	} {
		got := u.post(t, "/uploads", `{"path":"/x"}`, "Accept-Language", lang)
		got.problem(t, drive.BadRequest, map[string]any{"detail": want.detail, "field": "size", "type": "/problems/bad-request"})
		if got.Header.Get("Content-Language") != want.tag {
			t.Errorf("%q: Content-Language is %q", lang, got.Header.Get("Content-Language"))
		}
	}
}

func TestRequestsInFlightPerAddressAreLimited(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{}, func(o *rest.Options) { o.Visitors = server.NewLimiter[netip.Prefix](1) })
	u := s.newUser(t, "ann", 0)
	began, end := make(chan struct{}), make(chan struct{})
	var slow sync.WaitGroup
	slow.Go(func() {
		u.send(t, "POST", "/sessions", &held{began: began, end: end}).problem(t, drive.BadRequest, nil)
	})
	<-began
	u.post(t, "/sessions", map[string]any{"name": "ann", "password": "x"}).problem(t, drive.Rate, map[string]any{"limit": 1, "sent": 2})
	u.get(t, "/me").json(t, http.StatusOK) // who has logged in is not meant
	close(end)
	slow.Wait()
	u.post(t, "/sessions", map[string]any{"name": "ann", "password": "x"}).problem(t, drive.Unauthenticated, nil)
}
