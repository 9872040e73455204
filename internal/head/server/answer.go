package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
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
	if err := boundUnsent(c); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &pacedConn{Conn: c, pace: l.pace, cut: l.cut}, nil
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
	pace Pace
	cut  func()

	mu    sync.Mutex
	limit time.Time // what SetWriteDeadline has set; zero: nothing

	heard atomic.Bool // something was read since the last Write

	// Only Write uses what follows, and nobody calls Write twice at a time.
	waited time.Duration // in this window
	took   int64         // bytes, in this window
}

// Read implements net.Conn. What the peer sends begins its window afresh: small answers to many
// requests of one connection shall not add up to a slow reader on a machine that is busy. For one
// answer a peer wins a window or two by it, for package http reads ahead just one byte.
func (c *pacedConn) Read(p []byte) (int, error) {
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
	if c.heard.Swap(false) {
		c.waited, c.took = 0, 0
	}
	for {
		start := time.Now()
		if err := c.arm(start.Add(c.pace.Window - c.waited)); err != nil {
			return n, err
		}
		m, err := c.Conn.Write(p[n:])
		n += m
		c.took += int64(m)
		c.waited += time.Since(start)
		behind := c.turn()
		switch {
		case err == nil: // also when it has fallen behind: that is the next one's business, if there is one
			return n, nil
		case !errors.Is(err, os.ErrDeadlineExceeded) || c.over():
			return n, err
		case behind != nil:
			c.cut()
			return n, behind
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
