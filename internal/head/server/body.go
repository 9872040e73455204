package server

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"smartdrive/internal/base/drive"
)

// Pace is the slowest body that is taken: Rate on average over each Window of waiting for it. The
// server's own slowness does not count. The same counts for whoever reads an answer. The zero value
// is 4 KiB/s over 60 s.
type Pace struct {
	Rate   drive.ByteSize // a second
	Window time.Duration
}

func (p Pace) withDefaults() Pace {
	return Pace{cmp.Or(p.Rate, 4*drive.KiB), cmp.Or(p.Window, time.Minute)}
}

// need is how many bytes must come in a window.
func (p Pace) need() int64 { return int64(float64(p.Rate) * p.Window.Seconds()) }

// guardBody makes the body of r a *body; the *rest takes care of what the handler leaves of it
// (linger.go). The handler gets a copy of the request, because package http looks at the type of
// the original's Body.
func (s *Server) guardBody(w http.ResponseWriter, r *http.Request) (*rest, *http.Request) {
	b := &body{src: r.Body, conn: http.NewResponseController(w), pace: s.opt.Pace}
	guarded := *r
	guarded.Body = b
	return &rest{ResponseWriter: w, server: s, request: r, body: b}, &guarded
}

// body reads a request's body under a Pace, by the connection's read deadline and so without a
// goroutine or a timer of its own. Unlike that of package http it may be closed while another
// goroutine reads: the Read then returns.
type body struct {
	src  io.Reader
	conn *http.ResponseController
	pace Pace

	waited time.Duration // in Read, in this window
	came   int64         // bytes, in this window
	total  int64         // bytes

	mu      sync.Mutex // guards what follows, and that no Read sets a deadline after Close has
	reading bool
	closed  bool
	ended   error // io.EOF, or why no more can be read
}

// Read returns TooSlow when the body has fallen behind.
func (b *body) Read(p []byte) (int, error) {
	start := time.Now()
	if err := b.begin(start); err != nil {
		return 0, err
	}
	n, err := b.src.Read(p)
	b.waited += time.Since(start)
	b.total += int64(n)
	if err == nil && b.waited >= b.pace.Window {
		if b.came < b.pace.need() {
			err = os.ErrDeadlineExceeded // it came in the very moment
		} else {
			b.waited, b.came = b.waited-b.pace.Window, 0
		}
	}
	b.came += int64(n)
	return n, b.end(err)
}

// begin sets the deadline at which the body will have fallen behind if nothing comes: the end of
// this window, or of the next when this one already has what it needs.
func (b *body) begin(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return http.ErrBodyReadAfterClose
	}
	if b.ended != nil {
		return b.ended
	}
	left := b.pace.Window - b.waited
	if b.came >= b.pace.need() {
		left += b.pace.Window
	}
	b.setDeadline(now.Add(left))
	b.reading = true
	return nil
}

func (b *body) end(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	switch {
	case err == nil:
		return nil
	case err == io.EOF:
		b.ended = err
		// Package http now watches the connection for a client that goes away, and would take our
		// deadline for that.
		b.setDeadline(time.Time{})
	case b.closed:
		b.ended = http.ErrBodyReadAfterClose
	case errors.Is(err, os.ErrDeadlineExceeded):
		b.ended = drive.Wrap(err, drive.TooSlow,
			"limit", b.pace.need(), "sent", b.came, "seconds", int64(b.pace.Window.Seconds()))
	default:
		b.ended = err
	}
	return b.ended
}

// setDeadline does nothing where there is no connection, as under httptest.ResponseRecorder; there
// nothing is slow either.
func (b *body) setDeadline(t time.Time) { _ = b.conn.SetReadDeadline(t) }

// Close ends the reading of the body by the handler. A Read that waits returns
// http.ErrBodyReadAfterClose.
func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.reading {
		b.setDeadline(time.Unix(1, 0))
	}
	return nil
}
