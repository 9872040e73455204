package server

import (
	"io"
	"net/http"
	"time"

	"smartdrive/internal/base/drive"
)

// Linger bounds what is taken in of a body that the handler did not want.
type Linger struct {
	Keep  drive.ByteSize // up to this much is read to keep the connection; 256 KiB, as package http does
	Bytes drive.ByteSize // up to this much is read before the connection is closed; 128 MiB
	Time  time.Duration  // and for no longer than this; 30 s, as nginx does
	Quiet time.Duration  // nor for longer than this after the last 64 KiB; 5 s, as nginx does
}

func (l Linger) withDefaults() Linger {
	setDefault(&l.Keep, 256*drive.KiB)
	setDefault(&l.Bytes, 128*drive.MiB)
	setDefault(&l.Time, 30*time.Second)
	setDefault(&l.Quiet, 5*time.Second)
	return l
}

// rest is the ResponseWriter of a request with a body. It deals with what the handler leaves unread
// of it.
//
// The naive way is to answer and close. A client that is still sending then gets a RST, and on a
// RST many systems throw away what they have received but the program has not read: the answer is
// lost, and a browser shows "connection reset" in place of our 507. Package http reads up to 256
// KiB, else closes its sending half, sleeps half a second and closes: enough for a small body, not
// for one of 50 MiB, and browsers read no answer before they have sent everything.
//
// So, when the answer begins: a small rest is read and the connection kept. If more may come, the
// answer says "Connection: close" and goes out at once and in full, and then the rest is read and
// thrown away within bounds of bytes and time (RFC 9112 §9.6). A client that stops at the answer
// costs nothing; one that sends on to the end finds the answer waiting.
type rest struct {
	http.ResponseWriter
	server  *Server
	request *http.Request
	body    *body
	settled bool
	linger  bool
	duplex  bool // the answer goes out while the body comes in
}

func (u *rest) Unwrap() http.ResponseWriter { return u.ResponseWriter }

func (u *rest) WriteHeader(status int) {
	if status >= 200 {
		u.settle()
	}
	u.ResponseWriter.WriteHeader(status)
}

func (u *rest) Write(p []byte) (int, error) {
	u.settle()
	return u.ResponseWriter.Write(p)
}

func (u *rest) ReadFrom(src io.Reader) (int64, error) {
	u.settle()
	return io.Copy(u.ResponseWriter, src)
}

// FlushError is what http.ResponseController calls.
func (u *rest) FlushError() error {
	u.settle()
	return u.body.conn.Flush()
}

// settle decides, before the header is written, what becomes of the connection. From here on the
// handler has no body: as in package http, who answers has read.
func (u *rest) settle() {
	if u.settled {
		return
	}
	u.settled = true
	if len(u.request.TransferEncoding) > 0 {
		// With a Content-Length besides, somebody on the way may have taken the end of the body to
		// be elsewhere: nothing that follows may count (RFC 9112 §6.1). Package http hides whether
		// there was one, so no connection is used again after a chunked body.
		u.Header().Set("Connection", "close")
	}
	b, l := u.body, u.server.opt.Linger
	if b.ended == io.EOF {
		return
	}
	// Reading before the answer would ask a client that waits for "100 Continue" to send what
	// nobody wants.
	unasked := b.total == 0 && u.request.Header.Get("Expect") != ""
	small := u.request.ContentLength < 0 || u.request.ContentLength-b.total <= int64(l.Keep)
	if small && !unasked && b.ended == nil && u.server.discard(b, l.Keep, keepTime) {
		return
	}
	u.linger = true
	u.Header().Set("Connection", "close") // for which package http leaves the body alone when it sends the header
}

// finish is called when the handler has returned. Where the body was not read to its end, no other
// request is read from the connection: what follows may be the rest of this body, and package http
// cancels the context of all requests of a connection once a Read of it has failed.
func (u *rest) finish() {
	u.settle()
	b, l := u.body, u.server.opt.Linger
	if !u.linger && (!u.duplex || b.ended == io.EOF) {
		return
	}
	if err := b.conn.Flush(); err != nil {
		return // the client is gone
	}
	if u.server.discard(b, l.Bytes, l.Time) {
		return
	}
	retire(u.request)
	b.setDeadline(time.Now()) // package http looks for the end of the body once more: it shall not wait
}

// Duplex makes a handler keep its body after it has begun to answer. It is called before that. A
// client that reads nothing before it has sent everything must not be kept waiting: what a handler
// writes meanwhile it keeps in memory, within bounds.
func Duplex(w http.ResponseWriter) {
	for in := w; in != nil; {
		if u, ok := in.(*rest); ok {
			u.settled, u.duplex = true, true
			if len(u.request.TransferEncoding) > 0 {
				u.Header().Set("Connection", "close") // see settle
			}
		}
		next, ok := in.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		in = next.Unwrap()
	}
	// Where there is no connection, as under httptest.ResponseRecorder, nothing has to be enabled.
	_ = http.NewResponseController(w).EnableFullDuplex()
}

// keepTime is how long an answer waits for a small rest of the body. A client that takes longer
// gets the answer all the same, but not another use of the connection.
const keepTime = time.Second

// discard reads up to limit bytes for up to d, and reports whether that was the end of the body.
// Once the server is being stopped it does not go on.
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

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
