package server

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"smartdrive/internal/base/drive"
)

// SendContent answers with size bytes of content, or with the ranges of them that were asked for
// (RFC 9110 §13, §14), by http.ServeContent. What that would say in plain text, refuse says as its
// head says errors: Range or Precondition.
//
// An empty content is sent as a whole, whatever ranges were asked for.
//
// A content of several parts is sent as bytes: a browser takes its parts for answers with headers
// of their own (multipart/x-mixed-replace), beside those that keep the content harmless.
func SendContent(w http.ResponseWriter, r *http.Request, modified time.Time, content io.ReaderAt, size drive.ByteSize, refuse func(err error)) {
	if h := w.Header(); strings.HasPrefix(strings.ToLower(h.Get("Content-Type")), "multipart/") {
		h.Set("Content-Type", drive.UnknownMime)
	}
	r = Rangeless(r, size)
	http.ServeContent(&contentWriter{ResponseWriter: w, conn: connOf(r), size: size, refuse: refuse}, r, "", modified, io.NewSectionReader(content, 0, int64(size)))
}

// Rangeless returns r without its ranges if the content is empty. http.ServeContent answers "the
// last n bytes" of nothing with 206 and the range 0--1, which no client can read; it does ignore
// any other range of nothing.
func Rangeless(r *http.Request, size drive.ByteSize) *http.Request {
	if size > 0 || r.Header.Get("Range") == "" {
		return r
	}
	whole := *r
	whole.Header = r.Header.Clone()
	whole.Header.Del("Range")
	return &whole
}

// contentWriter lets refuse say what is refused, and copies without memory for clients that wait.
type contentWriter struct {
	http.ResponseWriter

	conn    *pacedConn
	size    drive.ByteSize
	refuse  func(err error)
	refused bool
}

// Unwrap is for http.ResponseController.
func (w *contentWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *contentWriter) WriteHeader(status int) {
	var err error
	switch status {
	case http.StatusRequestedRangeNotSatisfiable:
		err = drive.Fail(drive.Range, "size", int64(w.size))
	case http.StatusPreconditionFailed:
		err = drive.Fail(drive.Precondition)
	default:
		w.ResponseWriter.WriteHeader(status)
		return
	}
	w.refused = true
	w.refuse(err)
}

// Write drops the plain text of what was refused.
func (w *contentWriter) Write(p []byte) (int, error) {
	if w.refused {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, unsent/2); return &b }}

// ReadFrom implements io.ReaderFrom. A buffer is taken when the client can be sent something, and
// not for a client that does not read: there may be thousands of those. Below TLS it is the same.
func (w *contentWriter) ReadFrom(src io.Reader) (n int64, err error) {
	for {
		m, err := w.piece(src)
		n += int64(m)
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// piece sends what the connection takes of src.
func (w *contentWriter) piece(src io.Reader) (n int, err error) {
	room := w.conn.await()
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	n, err = src.Read((*buf)[:min(room, len(*buf))])
	if n > 0 {
		m, failed := w.Write((*buf)[:n])
		if failed != nil {
			return m, failed
		}
	}
	return n, err
}
