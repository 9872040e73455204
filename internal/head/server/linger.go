package server

import (
	"io"
	"net/http"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// Linger bounds how much of a request's body the server reads and discards after a handler has
// answered without reading it.
type Linger struct {
	Keep  drive.ByteSize // read up to this to keep the connection; 256 KiB, like package http
	Bytes drive.ByteSize // read up to this before closing the connection; 128 MiB
	Time  time.Duration  // for at most this long; 30 s, like nginx
	Quiet time.Duration  // and at most this long per 64 KiB; 5 s, like nginx
}

// withDefaults replaces zero fields: 256 KiB, 128 MiB, 30 s and 5 s.
func (l Linger) withDefaults() Linger {
	setDefault(&l.Keep, 256*drive.KiB)
	setDefault(&l.Bytes, 128*drive.MiB)
	setDefault(&l.Time, 30*time.Second)
	setDefault(&l.Quiet, 5*time.Second)
	return l
}

// unreadBody is the ResponseWriter of a request with a body. It handles the remainder of the body
// that the handler leaves unread. The caller must call finish after the handler.
//
// Answering and closing at once would lose the response: a client that still sends gets a RST, on
// which many systems discard received but unread data, and a browser shows "connection reset"
// instead of a 507. Package http reads up to 256 KiB, or else closes its sending half and waits
// half a second. That is not enough for 50 MiB, and browsers read no response before they have sent
// everything.
//
// So when the response begins, a small remainder is read and the connection is kept. If more may
// follow, the response is sent at once with "Connection: close". Then the remainder is read and
// discarded within limits of bytes and time (RFC 9112 §9.6). A client that stops at the response
// causes no further reading; a client that sends to the end then reads the response.
type unreadBody struct {
	http.ResponseWriter
	server  *Server
	request *http.Request
	body    *body
	// decided tells that decideConnection has run; linger, that the rest of the body is discarded
	// after the response.
	decided bool
	linger  bool
	duplex  bool // the response is sent while the body arrives
}

// Unwrap returns the wrapped writer for http.ResponseController.
func (u *unreadBody) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// WriteHeader decides, before the first final status, whether the connection is kept or closed.
func (u *unreadBody) WriteHeader(status int) {
	if status >= 200 {
		u.decideConnection()
	}
	u.ResponseWriter.WriteHeader(status)
}

// Write sends p. The first write also decides, in decideConnection, whether the connection is kept
// or closed.
func (u *unreadBody) Write(p []byte) (int, error) {
	u.decideConnection()
	return u.ResponseWriter.Write(p)
}

// ReadFrom sends all of src. Before the header is written it decides whether the connection is kept
// or closed.
func (u *unreadBody) ReadFrom(src io.Reader) (int64, error) {
	u.decideConnection()
	return io.Copy(u.ResponseWriter, src)
}

// FlushError sends buffered output. Before the header is written it decides whether the connection
// is kept or closed. http.ResponseController calls it.
func (u *unreadBody) FlushError() error {
	u.decideConnection()
	return u.body.conn.Flush()
}

// decideConnection decides, once, whether the connection is kept or closed after this response, and
// sets the header Connection. It must run before the header is written. It may first read and
// discard up to Linger.Keep bytes of the body for up to keepTimeout. Afterwards the handler cannot
// read the body, as in package http.
func (u *unreadBody) decideConnection() {
	if u.decided {
		return
	}
	u.decided = true
	if len(u.request.TransferEncoding) > 0 {
		// With an additional Content-Length, a proxy may have seen the end of the body elsewhere,
		// so nothing after it may count (RFC 9112 §6.1). Package http hides whether there was one,
		// so no connection is reused after a chunked body.
		u.Header().Set("Connection", "close")
	}
	b, l := u.body, u.server.opt.Linger
	if b.ended == io.EOF {
		return
	}
	// Reading before the response would make a client that waits for "100 Continue" send an
	// unwanted body.
	unasked := b.total == 0 && u.request.Header.Get("Expect") != ""
	small := u.request.ContentLength < 0 || u.request.ContentLength-b.total <= int64(l.Keep)
	if small && !unasked && b.ended == nil && u.server.discard(b, l.Keep, keepTimeout) {
		return
	}
	u.linger = true
	u.Header().Set("Connection", "close") // with it, package http leaves the body alone when it sends the header
}

// finish ends a request after the handler has returned: it sends the response, then discards the
// unread remainder of the body within the limits of Linger. If the body does not end within them,
// no further request is read from the connection: the next bytes may belong to this body, and
// package http cancels the contexts of all requests of a connection after a failed Read.
func (u *unreadBody) finish() {
	u.decideConnection()
	b, l := u.body, u.server.opt.Linger
	if !u.linger && (!u.duplex || b.ended == io.EOF) {
		return
	}
	if err := b.conn.Flush(); err != nil {
		return // the client is disconnected
	}
	if u.server.discard(b, l.Bytes, l.Time) {
		return
	}
	retire(u.request)
	b.setDeadline(time.Now()) // package http looks for the end of the body again and must not wait
}

// Duplex lets a handler read the request's body after its response has begun. Call it before the
// first write. A client that sends everything before it reads must not be blocked, so the handler
// must buffer its output within limits. Without support by the connection it does nothing.
func Duplex(w http.ResponseWriter) {
	for in := w; in != nil; {
		if u, ok := in.(*unreadBody); ok {
			u.decided, u.duplex = true, true
			if len(u.request.TransferEncoding) > 0 {
				u.Header().Set("Connection", "close") // see decideConnection
			}
		}
		next, ok := in.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		in = next.Unwrap()
	}
	// Without a connection, as under httptest.ResponseRecorder, there is nothing to enable.
	_ = http.NewResponseController(w).EnableFullDuplex()
}

// keepTimeout is how long a response waits for a small remainder of the body, so that the
// connection can be kept. After it the response is sent, but the connection is not reused.
const keepTimeout = time.Second

// discard reads and drops up to limit bytes of b for up to d, and reports whether the body ended
// within these limits. It stops early if no 64 KiB arrive within Linger.Quiet, on a read error, or
// when the server stops.
func (s *Server) discard(b *body, limit drive.ByteSize, d time.Duration) (ended bool) {
	const step = 64 << 10
	end := time.Now().Add(d)
	for n := int64(0); n < int64(limit); n += step {
		now := time.Now()
		if now.After(end) || s.stopping.Load() {
			return false
		}
		b.setDeadline(earlier(end, now.Add(s.opt.Linger.Quiet)))
		if _, err := io.CopyN(io.Discard, b.src, step); err != nil {
			if err == io.EOF {
				b.setDeadline(time.Time{})
			}
			return err == io.EOF
		}
	}
	return false
}

// earlier returns the earlier of two times.
func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
