package server

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// Pace is the slowest accepted transfer of a body or response: Rate on average over each Window of
// waiting for the peer. The server's own delays do not count. The zero value is 4 KiB/s over 60 s.
type Pace struct {
	Rate   drive.ByteSize // bytes per second
	Window time.Duration
}

// withDefaults returns p with zero fields replaced: 4 KiB per second, and a window of one minute.
func (p Pace) withDefaults() Pace {
	return Pace{cmp.Or(p.Rate, 4*drive.KiB), cmp.Or(p.Window, time.Minute)}
}

// need returns how many bytes must arrive in a window.
func (p Pace) need() int64 { return int64(float64(p.Rate) * p.Window.Seconds()) }

// guardBody wraps the body of r. The *unreadBody handles what the handler leaves unread
// (linger.go). The handler gets a copy of the request, because package http inspects the type of
// the original's Body.
func (s *Server) guardBody(w http.ResponseWriter, r *http.Request) (*unreadBody, *http.Request) {
	b := &body{src: r.Body, conn: http.NewResponseController(w), pace: s.opt.Pace}
	guarded := *r
	guarded.Body = b
	return &unreadBody{ResponseWriter: w, server: s, request: r, body: b}, &guarded
}

// body reads a request's body at a Pace. It uses the connection's read deadline instead of a
// goroutine or timer. Unlike package http's body it may be closed during a Read, which then
// returns.
type body struct {
	src  io.Reader
	conn *http.ResponseController
	pace Pace

	waited   time.Duration // time spent in Read in this window
	received int64         // bytes in this window
	total    int64         // bytes in total

	mu      sync.Mutex // guards the fields below; no Read sets a deadline after Close has
	reading bool
	closed  bool
	ended   error // io.EOF, or the error that ended the body
}

// Read fails with drive.TooSlow if the client has sent too few bytes within the window of time
// spent waiting, and with http.ErrBodyReadAfterClose after Close.
func (b *body) Read(p []byte) (int, error) {
	start := time.Now()
	if err := b.begin(start); err != nil {
		return 0, err
	}
	n, err := b.src.Read(p)
	b.waited += time.Since(start)
	b.total += int64(n)
	if err == nil && b.waited >= b.pace.Window {
		if b.received < b.pace.need() {
			err = os.ErrDeadlineExceeded // the data arrived just at the deadline
		} else {
			b.waited, b.received = b.waited-b.pace.Window, 0
		}
	}
	b.received += int64(n)
	return n, b.end(err)
}

// begin sets the read deadline at which the client will have fallen behind: the end of this window,
// or of the next if this one already has enough bytes. It fails after Close, and after the body has
// ended.
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
	if b.received >= b.pace.need() {
		left += b.pace.Window
	}
	b.setDeadline(now.Add(left))
	b.reading = true
	return nil
}

// end finishes a Read that returned err, and returns the error for the caller. Any error ends the
// body: later Reads return the same one.
func (b *body) end(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	switch {
	case err == nil:
		return nil
	case err == io.EOF:
		b.ended = err
		// Package http now reads ahead to detect a disconnect and would take the deadline for one.
		b.setDeadline(time.Time{})
	case b.closed:
		b.ended = http.ErrBodyReadAfterClose
	case errors.Is(err, os.ErrDeadlineExceeded):
		b.ended = drive.Wrap(err, drive.TooSlow,
			"limit", b.pace.need(), "sent", b.received, "seconds", int64(b.pace.Window.Seconds()))
	default:
		b.ended = err
	}
	return b.ended
}

// setDeadline sets the read deadline of the connection. It does nothing without a connection, as
// under httptest.ResponseRecorder.
func (b *body) setDeadline(t time.Time) { _ = b.conn.SetReadDeadline(t) }

// Close ends reading by the handler, not the connection. A waiting Read returns
// http.ErrBodyReadAfterClose. It always returns nil.
func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.reading {
		b.setDeadline(time.Unix(1, 0))
	}
	return nil
}
