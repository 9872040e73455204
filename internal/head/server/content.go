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
// A content of several parts is sent as bytes: a browser takes its parts for answers with headers
// of their own (multipart/x-mixed-replace), beside those that keep the content harmless.
func SendContent(w http.ResponseWriter, r *http.Request, modified time.Time, content io.ReaderAt, size drive.ByteSize, refuse func(err error)) {
	if h := w.Header(); strings.HasPrefix(strings.ToLower(h.Get("Content-Type")), "multipart/") {
		h.Set("Content-Type", drive.UnknownMime)
	}
	http.ServeContent(&contentWriter{ResponseWriter: w, size: size, refuse: refuse}, r, "", modified, io.NewSectionReader(content, 0, int64(size)))
}

// contentWriter lets refuse say what is refused, and copies through large buffers.
type contentWriter struct {
	http.ResponseWriter

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

// copyBufferSize in bytes: below it reading a file costs visibly more, above it nothing is won.
const copyBufferSize = 256 << 10

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, copyBufferSize); return &b }}

// ReadFrom implements io.ReaderFrom; that of package http would copy in steps of 32 KiB.
func (w *contentWriter) ReadFrom(src io.Reader) (int64, error) {
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{src}, *buf)
}
