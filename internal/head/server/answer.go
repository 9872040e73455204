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

// pacedListener gives connections on that break off when their peer stops reading.
type pacedListener struct {
	net.Listener
	pace Pace
	cut  func() // told of each connection that was broken off
}

// Accept implements net.Listener.
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

// pacedConn is a connection whose peer must take what is sent to it at a Pace: Rate on average over
// each Window in which Write waits for the peer. The time in which the server has nothing to send
// does not count.
//
// The pace is kept here and not in a http.ResponseWriter, because package http gives a connection
// up at the first Write that reaches its deadline, and does not say how much of it has gone out. A
// slow peer and one that has stopped differ just in that. Below TLS it works the same way.
type pacedConn struct {
	net.Conn
	raw  syscall.RawConn // nil: await does not wait
	pace Pace
	cut  func()

	mu    sync.Mutex
	limit time.Time // what SetWriteDeadline has set; zero: nothing

	heard atomic.Bool // something was read since the last Write
	spent atomic.Bool // no other request is read from it

	// pacing serializes Write and await. The handler calls await while the goroutine that reads
	// ahead for package http may be in Write: TLS 1.3 answers a key update that it reads.
	pacing sync.Mutex    // guards what follows; locked before mu
	waited time.Duration // in this window
	took   int64         // bytes, in this window
	ended  error         // the peer has fallen behind: nothing more is sent to it
}

// Read implements net.Conn. What the peer sends begins its window afresh: small answers to many
// requests of one connection shall not add up to a slow reader on a machine that is busy. For one
// answer a peer wins a window or two by it, for package http reads ahead just one byte.
//
// A retired connection has nothing more to read, so that package http closes it when the answer has
// gone out.
func (c *pacedConn) Read(p []byte) (int, error) {
	if c.spent.Load() {
		return 0, io.EOF
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.heard.Store(true)
	}
	return n, err
}

// readerError says why a connection was broken off. It is a deadline for whoever asks with
// errors.Is.
type readerError struct{ took, need int64 }

func (e *readerError) Error() string {
	return fmt.Sprintf("the client took %d bytes, at least %d are needed", e.took, e.need)
}

func (e *readerError) Is(target error) bool { return target == os.ErrDeadlineExceeded }

// Write implements net.Conn.
func (c *pacedConn) Write(p []byte) (n int, err error) {
	err = c.paced(func() error {
		m, err := c.Conn.Write(p[n:])
		n += m
		c.took += int64(m)
		return err
	})
	return n, err
}

// leastRoom is what a caller may write that does not know better, in bytes.
const leastRoom = 16 << 10

// await waits until the peer can be sent something, and returns how many bytes a Write takes that
// does not wait. A caller that makes its bytes only then holds no memory for a peer that does not
// read. Where it cannot wait, or the peer has fallen behind, the Write will.
func (c *pacedConn) await() (room int) {
	if c == nil || c.raw == nil {
		return leastRoom
	}
	_ = c.paced(func() error { // the Write fails, too, and package http looks at that
		return c.raw.Write(func(fd uintptr) bool {
			room = roomOf(int(fd))
			return room > 0
		})
	})
	return max(room, leastRoom)
}

// paced repeats step, which waits for the peer, until it succeeds or fails, or the peer has fallen
// behind.
func (c *pacedConn) paced(step func() error) error {
	c.pacing.Lock()
	defer c.pacing.Unlock()
	if c.ended != nil {
		return c.ended
	}
	if c.heard.Swap(false) {
		c.waited, c.took = 0, 0
	}
	for {
		start := time.Now()
		if err := c.arm(start.Add(c.pace.Window - c.waited)); err != nil {
			return err
		}
		err := step()
		c.waited += time.Since(start)
		behind := c.turn()
		switch {
		case err == nil: // also when it has fallen behind: that is the next one's business, if there is one
			return nil
		case !errors.Is(err, os.ErrDeadlineExceeded) || c.over():
			return err
		case behind != nil:
			c.cut()
			c.ended = behind
			return behind
		}
	}
}

// turn begins a new window when this one has ended, unless the peer has fallen behind in it.
func (c *pacedConn) turn() error {
	if c.waited < c.pace.Window {
		return nil
	}
	if need := c.pace.need(); c.took < need {
		return &readerError{c.took, need}
	}
	c.waited, c.took = 0, 0
	return nil
}

// arm sets the deadline of the next Write, or that of SetWriteDeadline where that is earlier.
func (c *pacedConn) arm(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.limit.IsZero() {
		t = earlier(t, c.limit)
	}
	return c.Conn.SetWriteDeadline(t)
}

// over reports whether the deadline of SetWriteDeadline has passed.
func (c *pacedConn) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.limit.IsZero() && !time.Now().Before(c.limit)
}

// SetWriteDeadline implements net.Conn.
func (c *pacedConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = t
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline implements net.Conn.
func (c *pacedConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// CloseWrite is what package http calls before it closes a connection whose peer still sends.
func (c *pacedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// connKey is where the context of a request has its *pacedConn.
type connKey struct{}

// withConn is the http.Server's ConnContext.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

// connOf returns the connection that r came over. Nil: it came over one of a caller's own listener.
func connOf(r *http.Request) *pacedConn {
	c, _ := r.Context().Value(connKey{}).(*pacedConn)
	return c
}

// retire makes r the last request of its connection, also when its answer has promised another one:
// the connection ends when the answer has gone out in full. Under a listener of a caller's own
// there is no connection to retire, and nothing happens.
func retire(r *http.Request) {
	if c := connOf(r); c != nil {
		c.spent.Store(true)
	}
}

// retired reports whether r came over a connection after its last request: it was in a buffer.
func retired(r *http.Request) bool {
	c := connOf(r)
	return c != nil && (c.spent.Load() || r.Context().Err() != nil)
}
