package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// pacedListener accepts connections that are aborted if the client reads responses slower than
// pace.
type pacedListener struct {
	net.Listener
	pace Pace
	cut  func() // called for each aborted connection
}

// Accept returns the next connection, a *pacedConn with a bounded send buffer in the kernel. If the
// buffer cannot be bounded, it closes the connection and fails.
func (l pacedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	raw, err := boundUnsent(c)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &pacedConn{Conn: c, raw: raw, pace: l.pace, cut: l.cut}, nil
}

// pacedConn is a connection that is aborted if its peer accepts data slower than a Pace: Rate on
// average over each Window of time that Write spends waiting for the peer. Time in which the server
// has nothing to send does not count.
//
// The pace is enforced here, because an http.ResponseWriter gives the connection up at the first
// Write that reaches its deadline and does not report how much was sent. Only that number tells a
// slow peer from one that has stopped. It works the same below TLS.
type pacedConn struct {
	net.Conn
	raw  syscall.RawConn // nil: await does not wait
	pace Pace
	// cut is called when the connection is aborted, for the metrics.
	cut func()

	mu    sync.Mutex
	limit time.Time // deadline of SetWriteDeadline; zero: none

	peerSent atomic.Bool // the peer has sent something since the last Write
	retired  atomic.Bool // no further request is read

	// pacing serializes Write and await. The handler calls await while package http's read-ahead
	// goroutine may be in Write, since TLS 1.3 answers a key update that it reads.
	pacing   sync.Mutex    // guards the fields below; acquired before mu
	waited   time.Duration // time waited in this window
	accepted int64         // bytes accepted in this window
	ended    error         // set once the peer has fallen behind; nothing more is sent
}

// Read implements net.Conn. Data from the peer restarts its window, so that many small responses on
// one connection do not add up to a slow reader on a busy machine. Within one response a peer gains
// at most a window or two, because package http reads only one byte ahead.
//
// A retired connection reads io.EOF, so that package http closes it after the response.
func (c *pacedConn) Read(p []byte) (int, error) {
	if c.retired.Load() {
		return 0, io.EOF
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.peerSent.Store(true)
	}
	return n, err
}

// readerError tells why a connection was aborted. errors.Is reports it as os.ErrDeadlineExceeded.
// took is the number of bytes that the client accepted within the window; need is the least
// number.
type readerError struct{ took, need int64 }

// Error tells how many bytes the client accepted and how many are needed.
func (e *readerError) Error() string {
	return fmt.Sprintf("the client took %d bytes, at least %d are needed", e.took, e.need)
}

// Is reports that a slow reader counts as os.ErrDeadlineExceeded.
func (e *readerError) Is(target error) bool { return target == os.ErrDeadlineExceeded }

// Write sends p in steps, each of which must keep the minimum pace. It fails with a readerError if
// the client reads too slowly, with n bytes accepted.
func (c *pacedConn) Write(p []byte) (n int, err error) {
	err = c.paced(func() error {
		m, err := c.Conn.Write(p[n:])
		n += m
		c.accepted += int64(m)
		return err
	})
	return n, err
}

// minRoom is how many bytes may be written if the free buffer space is unknown.
const minRoom = 16 << 10

// await waits until the peer can accept data, and returns how many bytes Write accepts without
// waiting, at least minRoom. A caller that fetches a buffer only afterwards uses no memory for
// peers that do not read. await reports no error: if the peer has fallen behind, the next Write
// fails. If it cannot wait, as on a nil c, it returns minRoom at once.
func (c *pacedConn) await() (room int) {
	if c == nil || c.raw == nil {
		return minRoom
	}
	_ = c.paced(func() error { // Write fails as well, which package http evaluates
		return c.raw.Write(func(fd uintptr) bool {
			room = roomOf(int(fd))
			return room > 0
		})
	})
	return max(room, minRoom)
}

// paced calls step, which waits for the peer, again while its write deadline passes and the peer
// keeps the pace. It returns nil once step succeeds, and any other error of step. If the peer has
// fallen behind, it returns a *readerError, now and at every later call. Do not call it while
// holding c.mu.
func (c *pacedConn) paced(step func() error) error {
	c.pacing.Lock()
	defer c.pacing.Unlock()
	if c.ended != nil {
		return c.ended
	}
	if c.peerSent.Swap(false) {
		c.waited, c.accepted = 0, 0
	}
	for {
		start := time.Now()
		if err := c.setDeadlineBefore(start.Add(c.pace.Window - c.waited)); err != nil {
			return err
		}
		err := step()
		c.waited += time.Since(start)
		behind := c.endWindow()
		switch {
		case err == nil: // if it has fallen behind, the next call fails
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded) || c.deadlinePassed():
			return err
		case behind != nil:
			c.cut()
			c.ended = behind
			return behind
		}
	}
}

// endWindow starts a new window if this one has ended, that is, if the time waited has reached
// pace.Window. It returns a *readerError if the peer has accepted too little in the ended window.
func (c *pacedConn) endWindow() error {
	if c.waited < c.pace.Window {
		return nil
	}
	if need := c.pace.need(); c.accepted < need {
		return &readerError{c.accepted, need}
	}
	c.waited, c.accepted = 0, 0
	return nil
}

// setDeadlineBefore sets the write deadline to t, or to that of SetWriteDeadline if earlier. It
// acquires mu.
func (c *pacedConn) setDeadlineBefore(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.limit.IsZero() {
		t = earlier(t, c.limit)
	}
	return c.Conn.SetWriteDeadline(t)
}

// deadlinePassed reports whether the deadline that the server set with SetWriteDeadline has passed;
// false without one.
func (c *pacedConn) deadlinePassed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.limit.IsZero() && !time.Now().Before(c.limit)
}

// SetWriteDeadline records t, so that pacing does not extend it, and sets it. The zero time removes
// it.
func (c *pacedConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = t
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline sets the read and the write deadline; both errors are joined.
func (c *pacedConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// CloseWrite closes the sending half of the connection, if that is possible. Package http calls it
// before it closes a connection whose peer still sends.
func (c *pacedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// connKey is the context key of a request's *pacedConn.
type connKey struct{}

// withConn is the http.Server's ConnContext: it stores the connection below TLS in ctx.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// connOf returns the connection of r; nil if the listener is not this package's.
func connOf(r *http.Request) *pacedConn {
	c, _ := r.Context().Value(connKey{}).(*pacedConn)
	return c
}

// retire makes r the last request of its connection, even if the response has promised keep-alive.
// The connection ends after the full response. It does nothing for a foreign listener.
func retire(r *http.Request) {
	if c := connOf(r); c != nil {
		c.retired.Store(true)
	}
}

// retired reports whether r must not be served: its connection is retired, or its context is done
// before it begins. Its bytes may belong to the body of the request before.
func retired(r *http.Request) bool {
	c := connOf(r)
	return c != nil && (c.retired.Load() || r.Context().Err() != nil)
}
