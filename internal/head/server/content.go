package server

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// SendContent answers r with content of the given size, or with the requested ranges of it (RFC
// 9110 §13, §14), using http.ServeContent. The caller has set headers such as ETag and
// Content-Type. If a range or condition cannot be met, it calls refuse, which must answer, with a
// drive.Error of kind Range or Precondition. Empty content is sent completely, whatever ranges are
// requested. The caller closes content.
//
// Content of a multipart type is sent as application/octet-stream: browsers would take its parts
// for responses with headers of their own (multipart/x-mixed-replace), without the security
// headers.
func SendContent(w http.ResponseWriter, r *http.Request, modified time.Time, content io.ReaderAt, size drive.ByteSize, refuse func(err error)) {
	if h := w.Header(); strings.HasPrefix(strings.ToLower(h.Get("Content-Type")), "multipart/") {
		h.Set("Content-Type", drive.UnknownMime)
	}
	r = WithoutRange(r, size)
	http.ServeContent(&contentWriter{ResponseWriter: w, conn: connOf(r), size: size, refuse: refuse}, r, "", modified, io.NewSectionReader(content, 0, int64(size)))
}

// WithoutRange returns a copy of r without the header Range if size is 0; otherwise r itself. For
// the last n bytes of empty content, http.ServeContent would answer 206 with the invalid range
// 0--1.
func WithoutRange(r *http.Request, size drive.ByteSize) *http.Request {
	if size > 0 || r.Header.Get("Range") == "" {
		return r
	}
	whole := *r
	whole.Header = r.Header.Clone()
	whole.Header.Del("Range")
	return &whole
}

// contentWriter replaces the plain-text errors of http.ServeContent by calls of refuse. While the
// client does not read, copying to it occupies no buffer.
type contentWriter struct {
	http.ResponseWriter

	conn    *pacedConn
	size    drive.ByteSize
	refuse  func(err error)
	refused bool
}

// Unwrap returns the wrapped writer for http.ResponseController.
func (w *contentWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader passes the status on, except 416 and 412: for these it calls refuse with drive.Range
// or drive.Precondition, and later writes are dropped.
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

// Write drops the plain text of a refused request and reports it as written.
func (w *contentWriter) Write(p []byte) (int, error) {
	if w.refused {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// copyBuffers recycles the buffers that content is copied with.
var copyBuffers = sync.Pool{New: func() any { b := make([]byte, unsent/2); return &b }}

// ReadFrom implements io.ReaderFrom. It takes a buffer only when the client can accept data,
// because there may be thousands of clients that do not read. It works the same below TLS. It fails
// with the error of reading or of the connection; n counts the bytes sent by then.
func (w *contentWriter) ReadFrom(src io.Reader) (n int64, err error) {
	for {
		m, err := w.sendPiece(src)
		n += int64(m)
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// sendPiece waits until the connection accepts data, then reads from src and sends as much as it
// accepts without waiting. It returns io.EOF at the end of src; n counts the bytes sent, also then.
func (w *contentWriter) sendPiece(src io.Reader) (n int, err error) {
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
