package nextcloud_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// stalled is a connection of a client that sends some bytes of a body, and then nothing.
type stalled struct {
	*httptest.ResponseRecorder
	first   string
	waits   chan struct{} // closed when nothing more comes
	ended   chan struct{} // closed when the server does not wait any longer
	waiting sync.Once
	ending  sync.Once
}

func stall(first string) *stalled {
	return &stalled{ResponseRecorder: httptest.NewRecorder(), first: first, waits: make(chan struct{}), ended: make(chan struct{})}
}

func (c *stalled) Read(p []byte) (int, error) {
	if n := copy(p, c.first); n > 0 {
		c.first = c.first[n:]
		return n, nil
	}
	c.waiting.Do(func() { close(c.waits) })
	<-c.ended
	return 0, io.ErrUnexpectedEOF
}

// SetReadDeadline is how a server ends a Read that waits.
func (c *stalled) SetReadDeadline(at time.Time) error {
	if !at.IsZero() && at.Before(time.Now()) {
		c.ending.Do(func() { close(c.ended) })
	}
	return nil
}

// A client whose connection hangs sends the chunk again on another connection. The second request
// does not wait for the first, neither to store bytes nor to compare them with stored ones.
func TestChunkReplacesHangingChunk(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ what, before string }{{"a new one", ""}, {"one that is there", "hello"}} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			s := newStack(t)
			const at = "/remote.php/dav/uploads/ann/web-1"
			s.Do(t, "MKCOL "+at, "Destination: /remote.php/dav/files/ann/f").Want(t, 201)
			put := func() {
				s.Do(t, "PUT "+at+"/00001", "Destination: /remote.php/dav/files/ann/f", "", "hello").Want(t, 201)
			}
			if c.before != "" {
				put()
			}
			conn := stall("he")
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPut, at+"/00001", conn)
			r.ContentLength = 5
			r.Header.Set("Destination", "/remote.php/dav/files/ann/f")
			r.SetBasicAuth("ann", "x")
			var first sync.WaitGroup
			first.Go(func() { s.Server.ServeHTTP(conn, r) })
			<-conn.waits
			put()
			first.Wait()
			if conn.Code < 400 {
				t.Errorf("the one that hangs was answered %d", conn.Code)
			}
			s.Do(t, "MOVE "+at+"/.file", "Destination: /remote.php/dav/files/ann/f").Want(t, 201)
			if got := s.Do(t, "GET /remote.php/dav/files/ann/f").Want(t, 200).Body; got != "hello" {
				t.Errorf("the file has %q", got)
			}
		})
	}
}
