package server

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// sending is a server on synctest's clock that sends size bytes, and a connection to it over which
// they were asked for.
type sending struct {
	*Server
	http  *http.Server
	conn  net.Conn
	log   bytes.Buffer
	ended chan error // what the handler's last Write returned
}

func sends(t *testing.T, size int64, piece int) *sending {
	t.Helper()
	s := &sending{ended: make(chan error, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /file", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(size))
		_, err := io.CopyBuffer(struct{ io.Writer }{w}, io.LimitReader(zeros{}, size), make([]byte, piece))
		s.ended <- err
	})
	s.Server = New(Options{Routes: mux, Admin: func(*http.Request) bool { return true }, Log: slog.New(slog.NewJSONHandler(&s.log, nil))})
	s.http = s.httpServer(t.Context())
	l := newPipes()
	go s.http.Serve(s.paced(l)) //nolint:errcheck // closed by end
	s.conn = l.dial()
	if _, err := io.WriteString(s.conn, "GET /file HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *sending) end(t *testing.T) {
	t.Helper()
	s.conn.Close()
	if err := s.http.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestResponseNeeds4KiBPerSecondOver60s(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		size, piece int
		period      time.Duration
		whole       bool
		atMost      time.Duration
	}{
		{"just fast enough", 4 << 20, 4200, time.Second, true, time.Hour},
		{"just too slow", 4 << 20, 4000, time.Second, false, 61 * time.Second},
		{"one byte a second", 64 << 10, 1, time.Second, false, 61 * time.Second},
		{"a slow reader that ends within the window", 100 << 10, 2 << 10, time.Second, true, 60 * time.Second},
		{"bursts with 50 s between them", 4 << 20, 512 << 10, 50 * time.Second, true, time.Hour},
		{"a burst, then nothing", 8 << 20, 1 << 20, time.Hour, false, 121 * time.Second},
	}
	for _, tt := range tests {
		for _, write := range []int{4 << 10, 1 << 20} { // what is written at once does not matter
			t.Run(fmt.Sprint(tt.name, " of ", write), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := sends(t, int64(tt.size), write)
					start := time.Now()
					over := make(chan struct{})
					go func() {
						for {
							if _, err := io.CopyN(io.Discard, s.conn, int64(tt.piece)); err != nil {
								return
							}
							select {
							case <-time.After(tt.period):
							case <-over:
							}
						}
					}()
					err := <-s.ended
					took := time.Since(start)
					close(over)
					s.end(t)
					if whole := err == nil; whole != tt.whole || took > tt.atMost {
						t.Errorf("it ended with %v after %v, want whole %v within %v", err, took, tt.whole, tt.atMost)
					}
				})
			})
		}
	}
}

// A client that asks for something and does not read it loses its connection; the log and the
// figures tell.
func TestStalledReaderIsAbortedAndLogged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := sends(t, 1<<30, 256<<10)
		if _, err := io.CopyN(io.Discard, s.conn, 1<<20); err != nil {
			t.Fatal(err)
		}
		if err := <-s.ended; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the handler heard %v", err)
		}
		if _, err := io.Copy(io.Discard, s.conn); err != nil {
			t.Errorf("the connection ended with %v", err)
		}
		synctest.Wait()
		s.end(t)
		if line := s.log.String(); !strings.Contains(line, `"code":"too-slow"`) {
			t.Errorf("the log says %s", line)
		}
		rec, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		s.ServeHTTP(rec, r)
		if !strings.Contains(rec.Body.String(), "smartdrive_http_readers_cut_total 1") {
			t.Errorf("the figures do not tell: %d %s", rec.Code, rec.Body)
		}
	})
}

// The time in which the server has nothing to send is not the client's.
func TestSlowServerDoesNotAbortReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newPipes()
		mux := http.NewServeMux()
		mux.HandleFunc("GET /slow", func(w http.ResponseWriter, _ *http.Request) {
			for range 10 {
				<-time.After(5 * time.Minute)
				_, _ = w.Write(make([]byte, 100))
				_ = http.NewResponseController(w).Flush()
			}
		})
		s := New(Options{Routes: mux})
		hs := s.httpServer(t.Context())
		go hs.Serve(s.paced(l)) //nolint:errcheck // closed below
		conn := l.dial()
		fmt.Fprint(conn, "GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(resp.Body); err != nil || len(b) != 1000 {
			t.Errorf("%d bytes came: %v", len(b), err)
		}
		conn.Close()
		if err := hs.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// A handler may end a Write that waits for its client at once.
func TestAWriteDeadlineOfAHandlerCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client, peer := net.Pipe()
		defer client.Close()
		c := &pacedConn{Conn: peer, pace: Pace{}.withDefaults(), cut: func() { t.Error("it was called slow") }}
		ended := make(chan error, 1)
		go func() {
			_, err := c.Write(make([]byte, 100))
			ended <- err
		}()
		synctest.Wait()
		start := time.Now()
		if err := c.SetWriteDeadline(time.Now()); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) > 0 {
			t.Errorf("Write returned %v after %v", err, time.Since(start))
		}
		if _, err := c.Write([]byte{1}); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("and then %v", err)
		}
		if err := c.SetDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		go io.Copy(io.Discard, client) //nolint:errcheck // ends with client
		if _, err := c.Write([]byte{1}); err != nil {
			t.Errorf("without the deadline: %v", err)
		}
		peer.Close()
	})
}

// The same of a server that runs, over TCP and over TLS.
func TestServerAbortsStalledReaders(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeCert(t, cert, key, 1)
	for name, opt := range map[string]Options{"http": {}, "https": {TLSCert: cert, TLSKey: key}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := make(chan error, 1)
			opt.Pace = Pace{Rate: drive.GiB, Window: 100 * time.Millisecond}
			s := running(t, opt, func(mux *http.ServeMux) {
				mux.HandleFunc("GET /file", func(w http.ResponseWriter, _ *http.Request) {
					_, err := io.CopyN(w, zeros{}, 1<<40)
					ended <- err
				})
			})
			conn, err := net.Dial("tcp", s.listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if opt.TLSCert != "" {
				conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
			}
			if _, err := io.WriteString(conn, "GET /file HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) { // and the client reads nothing
				t.Errorf("the handler heard %v", err)
			}
		})
	}
}

// Whoever waits for its room first never waits in a Write, in which it would hold memory for a peer
// that does not read.
func TestAwaitUsesNoBufferForIdleReader(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	peer, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	var cut atomic.Bool
	conn, err := pacedListener{Listener: l, pace: Pace{Rate: drive.GiB, Window: 100 * time.Millisecond}, cut: func() { cut.Store(true) }}.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := conn.(*pacedConn)
	if c.raw == nil {
		t.Skip("this system does not say when a Write would wait")
	}
	for room := c.await(); !cut.Load(); room = c.await() {
		if _, err := c.Write(make([]byte, room)); err != nil {
			t.Fatalf("a Write of the %d bytes that there was room for: %v", room, err)
		}
	}
	if _, err := c.Write(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the peer was cut off a Write returns %v", err)
	}
}

// overlap is a connection that fails the test if a Write runs while another goroutine uses the
// paced connection.
type overlap struct {
	net.Conn
	paced *pacedConn
	t     *testing.T
}

func (o *overlap) alone() {
	if o.paced.pacing.TryLock() {
		o.paced.pacing.Unlock()
		o.t.Error("another goroutine may write at the same time")
	}
}

func (o *overlap) SetWriteDeadline(time.Time) error { o.alone(); return nil }

func (o *overlap) Write(b []byte) (int, error) {
	o.alone()
	return len(b), nil
}

type overlapRaw struct {
	syscall.RawConn
	*overlap
}

func (o overlapRaw) Write(func(uintptr) bool) error { o.alone(); return nil }

// TLS 1.3 answers a key update from the goroutine that reads, while the handler awaits its room:
// they take turns.
func TestWriteAndAwaitAreSerialized(t *testing.T) {
	t.Parallel()
	o := &overlap{t: t}
	o.paced = &pacedConn{Conn: o, raw: overlapRaw{overlap: o}, pace: Pace{Rate: 1, Window: time.Minute}}
	o.paced.await()
	if _, err := o.paced.Write([]byte("k")); err != nil || o.paced.accepted != 1 {
		t.Errorf("%v, %d bytes were counted", err, o.paced.accepted)
	}
}

// A file response that the client does not read is aborted and logged like any other.
func TestUnreadFileIsAborted(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	var opt Options
	opt.Pace = Pace{Rate: drive.GiB, Window: 100 * time.Millisecond}
	s := running(t, opt, func(mux *http.ServeMux) {
		mux.HandleFunc("GET /file", func(w http.ResponseWriter, r *http.Request) {
			SendContent(w, r, time.Time{}, zeros{}, 1<<40, func(error) {})
			if rec, ok := w.(*recorder); !ok || !drive.IsKind(rec.err, drive.TooSlow) {
				t.Errorf("the log is told nothing")
			}
			close(ended)
		})
	})
	conn, err := net.Dial("tcp", s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /file HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-ended
}
