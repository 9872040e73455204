package rest_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/head/rest"
	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/head/tus"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// closing is one way of closing a collect link.
type closing struct {
	name    string
	do      func(t testing.TB, s *stack, owner user, folder, link string)
	cancels bool // what was begun by it
}

var closings = []closing{
	{"it is deleted", func(t testing.TB, _ *stack, owner user, _, link string) {
		if got := owner.send(t, "DELETE", "/collects/"+link, nil); got.StatusCode != http.StatusNoContent {
			t.Error(got)
		}
	}, true},
	{"its folder goes to the trash", func(t testing.TB, s *stack, owner user, folder, _ string) {
		if got := owner.send(t, "DELETE", "/nodes/"+folder, nil); got.StatusCode != http.StatusNoContent {
			t.Error(got)
		}
		s.Clock.Advance(5 * time.Second)
	}, false},
}

// After a link is closed, uploads that began through it accept no more bytes and create no files.
// Every head refuses the sender with the same words, before a request and in the middle of one, and
// the reserved bytes are released.
func TestALinkIsClosedBeforeItsUploadsEnd(t *testing.T) {
	t.Parallel()
	for _, how := range closings {
		for _, c := range []struct {
			way   string
			begin func(s *stack, t testing.TB, bob user) *http.Request
		}{
			{"a part", aPart}, {"a file", aFile}, {"PATCH of tus", patchOfTus(4)}, {"the last PATCH of tus", patchOfTus(0)},
		} {
			for _, when := range []string{"before", "during"} {
				t.Run(fmt.Sprint(how.name, "/", c.way, "/", when), func(t *testing.T) {
					t.Parallel()
					s := newStack(t, uploadtest.Options{})
					u := s.newUser(t, "ann", 0)
					folder := u.folder(t, "/in")
					token, link := u.collectInto(t, folder, nil)
					bob := s.sender(t, token, "bob")
					r, end := c.begin(s, t, bob), func() { how.do(t, s, u, folder, link) }
					if when == "before" {
						end()
						end = func() {}
					}
					got := s.interrupted(r, end)
					if want := bob.get(t, "/uploads"); got.StatusCode != http.StatusGone || got.said(t) != want.said(t) {
						t.Errorf("answered %s, and the list %s", got, want)
					}
					s.nothingIsLeft(t, u, how)
				})
			}
		}
	}
}

// The link's folder goes to the trash before each transaction of the request that ends an upload:
// the transaction that creates the file checks the folder. A deleted link is not tried, because its
// deletion waits for the request.
func TestALinkIsClosedBeforeEachTransactionOfAnUpload(t *testing.T) {
	t.Parallel()
	how := closings[1]
	for way, begin := range map[string]func(*stack, testing.TB, user) *http.Request{"file": aFile, "last PATCH of tus": patchOfTus(0)} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			for skip, met := 0, true; met; skip++ {
				s := newStack(t, uploadtest.Options{})
				u := s.newUser(t, "ann", 0)
				folder := u.folder(t, "/in")
				token, link := u.collectInto(t, folder, nil)
				r := begin(s, t, s.sender(t, token, "bob"))
				gate := sqldbtest.NewGate(s.DB)
				gate.Intercept(skip, func() { how.do(t, s, u, folder, link) })
				got := s.interrupted(r, func() {})
				if _, met = gate.Open(); !met {
					if skip == 0 {
						t.Error("no transaction came to the gate")
					}
					break
				}
				if got.StatusCode != http.StatusGone {
					t.Errorf("after %d transactions it is answered %s", skip, got)
				}
				s.nothingIsLeft(t, u, how)
			}
		})
	}
}

const sentText = "some text"

func aFile(_ *stack, t testing.TB, bob user) *http.Request {
	t.Helper()
	return bob.sends(t, "PUT", "/api/v1/files/f", sentText)
}

func aPart(_ *stack, t testing.TB, bob user) *http.Request {
	t.Helper()
	id := bob.post(t, "/uploads", map[string]any{"path": "/f", "size": len(sentText)}).json(t, http.StatusCreated)["id"].(string)
	return bob.sends(t, "PUT", "/api/v1/uploads/"+id+"/parts/0", sentText)
}

// patchOfTus is a PATCH of an upload that has some bytes already, and lacks so many after it.
func patchOfTus(lacks int) func(*stack, testing.TB, user) *http.Request {
	return func(s *stack, t testing.TB, bob user) *http.Request {
		t.Helper()
		begin := bob.sends(t, "POST", "/tus/", "1")
		begin.Header.Set("Upload-Length", fmt.Sprint(1+len(sentText)+lacks))
		begin.Header.Set("Upload-Metadata", "filename Zg==")
		made := s.interrupted(begin, func() {})
		if made.StatusCode != http.StatusCreated || made.Header.Get("Upload-Offset") != "1" {
			t.Fatal(made)
		}
		r := bob.sends(t, "PATCH", made.Header.Get("Location"), sentText)
		r.Header.Set("Upload-Offset", "1")
		return r
	}
}

func (u user) sends(t testing.TB, method, at, text string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, at, strings.NewReader(text))
	r.Header.Set("Authorization", "Bearer "+u.token)
	r.Header.Set("Content-Type", "application/offset+octet-stream")
	r.Header.Set("Tus-Resumable", tus.Version)
	return r
}

// interrupted serves a request, by the API or tus, and calls do while its body is read.
func (s *stack) interrupted(r *http.Request, do func()) response {
	mux := http.NewServeMux()
	s.api.Register(mux)
	tus.New(tus.Options{Uploads: s.Sessions, Content: rest.ContentURLPath, Authenticate: func(r *http.Request) (tus.Caller, func(), error) {
		who, by, release, err := s.api.AuthenticateUploader(r)
		if by == nil {
			return tus.Caller{Who: who}, release, err
		}
		return tus.Caller{Who: who, Sender: by}, release, err
	}}).Register(mux)
	w := &stalling{ResponseRecorder: httptest.NewRecorder(), body: r.Body, do: do, done: make(chan struct{}), ended: make(chan struct{})}
	r.Body = io.NopCloser(w)
	server.New(server.Options{Routes: mux, Slashed: []string{tus.Prefix}, Log: slog.New(slog.DiscardHandler)}).ServeHTTP(w, r)
	w.doing.Wait()
	return response{w.Result(), w.Body.Bytes()}
}

// stalling is a connection that brings the first byte of a body when something has been done. What
// is done may end the reading of it.
type stalling struct {
	*httptest.ResponseRecorder
	body  io.Reader
	do    func()
	doing sync.WaitGroup
	once  sync.Once // begins to do it
	late  sync.Once // closes ended
	done  chan struct{}
	ended chan struct{}
}

func (c *stalling) Read(p []byte) (int, error) {
	c.once.Do(func() {
		c.doing.Go(func() {
			defer close(c.done)
			c.do()
		})
	})
	select {
	case <-c.done:
		return c.body.Read(p)
	case <-c.ended:
		return 0, io.ErrUnexpectedEOF
	}
}

// SetReadDeadline is how a server ends a Read that waits.
func (c *stalling) SetReadDeadline(at time.Time) error {
	if !at.IsZero() && at.Before(time.Now()) {
		c.late.Do(func() { close(c.ended) })
	}
	return nil
}

// said returns a problem's text and members.
func (r response) said(t testing.TB) string {
	t.Helper()
	p := r.json(t, r.StatusCode)
	return fmt.Sprintln(p["type"], p["title"], p["detail"], p["reason"])
}

// nothingIsLeft fails the test unless all uploads through a link have disappeared: at once, or
// after they were idle for as long as uploads are kept.
func (s *stack) nothingIsLeft(t testing.TB, owner user, how closing) {
	t.Helper()
	if !how.cancels {
		s.AdvanceAndFire(t, time.Minute)
		s.AdvanceAndFire(t, 8*24*time.Hour)
		s.AdvanceAndFire(t, 2*time.Hour)
	}
	var uploads, files, counted int
	err := s.DB.QueryRow(t.Context(), `SELECT (SELECT COUNT(*) FROM uploads WHERE state <> 'gone'), (SELECT COUNT(*) FROM nodes WHERE type = 'file'),
		(SELECT SUM(finished + unfinished + reserved) FROM ledgers)`).Scan(&uploads, &files, &counted)
	if err != nil || uploads != 0 || files != 0 || counted != 0 {
		t.Errorf("%d uploads and %d files of %s are left, %d bytes count, %v", uploads, files, owner.name, counted, err)
	}
}
