package zipline

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"smartdrive/internal/drive"
)

// ServeOptions say how an archive is sent.
type ServeOptions struct {
	Options
	// Modified is the time of Last-Modified: when it was sealed. Zero: no such header.
	Modified drive.Time
	// Refuse answers a request whose conditions or ranges cannot be met: Precondition or Range {size}. nil: in plain text.
	Refuse func(error)
}

// Serve answers a GET or HEAD with the archive or the ranges of it that were asked for (RFC 9110 §13, §14), as http.ServeContent does:
// several ranges at once are one answer in parts, unless together they are longer than the archive or more than maxRanges; it is then
// sent whole. Headers that the caller has set stay. When an entry is broken it panics with http.ErrAbortHandler, so that the client sees the connection
// break before the end.
func (a *Archive) Serve(w http.ResponseWriter, r *http.Request, src Source, o ServeOptions) {
	if strings.Count(r.Header.Get("Range"), ",") >= maxRanges {
		r = r.Clone(r.Context())
		r.Header.Del("Range")
	}
	h := w.Header()
	h.Set("ETag", a.etag)
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/zip")
	}
	ctx, cancel := context.WithCancel(r.Context())
	c := &content{size: a.size, cancel: cancel}
	c.open = func(from, to int64, o Options) io.ReadCloser {
		return a.Open(ctx, src, drive.ByteSize(from), drive.ByteSize(to), o)
	}
	c.o = o.Options
	defer func() {
		if c.Close() != nil {
			panic(http.ErrAbortHandler)
		}
	}()
	http.ServeContent(&writer{ResponseWriter: w, content: c, refuse: o.Refuse}, r, "", o.Modified.Std(), c)
}

// maxRanges is how many ranges of one request are looked at: for one of a byte up to Options.Recheck may have to be read.
const maxRanges = 16

// content is an archive as http.ServeContent wants it: to be sought and read. It opens a reader where reading begins. The lock is
// there because ServeContent reads several ranges in a goroutine that it does not wait for.
type content struct {
	open   func(from, to int64, o Options) io.ReadCloser
	cancel context.CancelFunc
	size   int64
	o      Options

	mu  sync.Mutex
	off int64
	end int64 // where this answer's only range ends; 0: not known, as there are several
	rd  io.ReadCloser
	err error // what broke it off
}

// Seek implements io.Seeker.
func (c *content) Seek(off int64, whence int) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch whence {
	case io.SeekCurrent:
		off += c.off
	case io.SeekEnd:
		off += c.size
	}
	if off != c.off {
		c.endLocked()
	}
	c.off = off
	return off, nil
}

// Read implements io.Reader.
func (c *content) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	if c.rd == nil {
		c.rd = c.startLocked()
	}
	n, err := c.rd.Read(p)
	c.off += int64(n)
	if err != nil && err != io.EOF {
		c.err = err
	}
	return n, err
}

// startLocked opens a reader for the range that begins here. Where its end is not known, little is read ahead.
func (c *content) startLocked() io.ReadCloser {
	if c.end > 0 {
		return c.open(c.off, c.end, c.o)
	}
	o := c.o
	o.Window, o.Parallel = minWindow, 1
	return c.open(c.off, c.size, o)
}

func (c *content) endLocked() {
	if c.rd != nil {
		c.rd.Close()
		c.rd = nil
	}
}

// Close ends all reading, and returns what broke it off.
func (c *content) Close() error {
	c.cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endLocked()
	err := c.err
	c.err = errClosed
	return err
}

// until says where the answer ends, which the headers tell.
func (c *content) until(status int, h http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var first, last, size int64
	if status == http.StatusOK {
		c.end = c.size
	} else if _, err := fmt.Sscanf(h.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &size); err == nil {
		c.end = last + 1
	}
}

// writer looks at what http.ServeContent answers: it learns the range, lets Refuse say what was refused, and copies through large
// buffers.
type writer struct {
	http.ResponseWriter
	content *content
	refuse  func(error)
	refused bool
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *writer) WriteHeader(status int) {
	err := error(drive.Fail(drive.Precondition))
	if status == http.StatusRequestedRangeNotSatisfiable {
		err = drive.Fail(drive.Range, "size", w.content.size)
	}
	switch {
	case w.refuse != nil && (status == http.StatusRequestedRangeNotSatisfiable || status == http.StatusPreconditionFailed):
		w.refused = true
		w.refuse(err)
	default:
		w.content.until(status, w.Header())
		w.ResponseWriter.WriteHeader(status)
	}
}

// Write drops the plain text of what was refused.
func (w *writer) Write(p []byte) (int, error) {
	if w.refused {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// copyBufferSize in bytes: what one write to the connection takes. Headers and small entries share it.
const copyBufferSize = 128 << 10

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, copyBufferSize); return &b }}

// ReadFrom implements io.ReaderFrom; that of package http would copy in steps of 32 KiB.
func (w *writer) ReadFrom(src io.Reader) (int64, error) {
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{src}, *buf)
}
