package zipline

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// ServeOptions configures Serve. The zero value serves without Last-Modified and without a memory
// limit.
type ServeOptions struct {
	Options
	// Modified is the value of Last-Modified: the time of sealing. Zero: no header.
	Modified drive.Time
	// Refuse writes the response for an unmet condition (Precondition), an invalid range (Range
	// with size) or missing memory (Unavailable). nil: plain text.
	Refuse func(error)
	// Budget grants the memory of a response with content to Client. nil: no limit.
	Budget *Budget
	Client string
	// Grant is memory that the caller holds and closes itself. nil: Serve acquires a grant from
	// Budget.
	Grant *Grant
}

// Serve answers a GET or HEAD request with the archive or ranges of it (RFC 9110 §13, §14),
// including conditional requests. Several ranges are sent as multipart. If there are more than
// maxRanges, or they are longer than the archive, the whole archive is sent. Headers set by the
// caller are kept. If an entry is broken, Serve panics with http.ErrAbortHandler, so that the
// client sees the connection break.
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
	m := &responseMemory{archive: a, content: c, o: &o, grant: o.Grant}
	defer m.close()
	m.request = func(least, want drive.ByteSize) (*Grant, error) { return o.Budget.Acquire(ctx, o.Client, least, want) }
	m.abort = func() {
		cancel()
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now()) // fails with httptest.ResponseRecorder
	}
	c.open = func(from, to int64, o Options) io.ReadCloser {
		return a.Open(ctx, src, drive.ByteSize(from), drive.ByteSize(to), o)
	}
	c.o = o.Options
	defer func() {
		if c.Close() != nil {
			panic(http.ErrAbortHandler)
		}
	}()
	out := &writer{ResponseWriter: w, content: c, refuse: o.Refuse}
	if r.Method != http.MethodHead {
		out.memory = m
	}
	http.ServeContent(out, r, "", o.Modified.Std(), c)
}

// responseMemory is the grant of a response. It is acquired when the response is known to have
// content and how much.
type responseMemory struct {
	archive *Archive
	content *content
	o       *ServeOptions
	request func(least, want drive.ByteSize) (*Grant, error)
	abort   func() // aborts the response
	grant   *Grant
}

// acquire acquires the grant, unless the caller provided one, and limits the read-ahead to it.
func (m *responseMemory) acquire() (err error) {
	if m.grant == nil {
		need := m.content.demand(m.archive)
		if m.grant, err = m.request(min(need, minWindow), need); err != nil {
			return err
		}
		m.content.limitWindow(m.grant.Bytes)
	}
	m.grant.onEviction(m.abort)
	return nil
}

// close closes the grant that acquire acquired. A grant of the caller stays open.
func (m *responseMemory) close() {
	switch m.grant {
	case nil:
	case m.o.Grant:
		m.grant.onEviction(nil)
	default:
		m.grant.Close()
	}
}

// sent adds n sent bytes to the grant, for its rate.
func (m *responseMemory) sent(n int) {
	if m != nil && m.grant != nil {
		m.grant.sent.Add(int64(n))
	}
}

// maxRanges is the maximum number of ranges in a request: each range of one byte may read up to
// Options.VerifyLimit bytes.
const maxRanges = 16

// content is an archive as io.ReadSeeker for http.ServeContent. It opens a reader at the current
// offset on the first read. The mutex is needed because ServeContent reads multiple ranges in a
// goroutine that it does not wait for.
type content struct {
	open   func(from, to int64, o Options) io.ReadCloser
	cancel context.CancelFunc
	size   int64
	empty  bool // the response has other content: nothing is read
	o      Options

	mu  sync.Mutex
	off int64
	end int64 // end of the only range; 0: several ranges
	rd  io.ReadCloser
	err error // the error that broke the response off
}

// Seek sets the position of the next Read (io.Seeker) without reading. Unless the position stays
// the same it closes the running reader. It never fails, and does not check the position.
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
		c.closeLocked()
	}
	c.off = off
	return off, nil
}

// Read returns bytes of the zip from the current position. It starts a reader first if none runs.
// The first error other than io.EOF is permanent. A response without content returns io.EOF at
// once.
func (c *content) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	if c.empty {
		return 0, io.EOF
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

// startLocked opens a reader at the current offset. If the end is unknown, it reads little ahead.
func (c *content) startLocked() io.ReadCloser {
	if c.end > 0 {
		return c.open(c.off, c.end, c.o)
	}
	o := c.o
	o.Window, o.Parallel = minWindow, 1
	return c.open(c.off, c.size, o)
}

// closeLocked closes the current reader.
func (c *content) closeLocked() {
	if c.rd != nil {
		c.rd.Close()
		c.rd = nil
	}
}

// discard makes all further reads return io.EOF.
func (c *content) discard() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.empty = true
}

// Close cancels all reads and returns the error that broke the response off, or nil.
func (c *content) Close() error {
	c.cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeLocked()
	err := c.err
	c.err = errClosed
	return err
}

// demand returns the useful amount of memory for the requested range.
func (c *content) demand(a *Archive) drive.ByteSize {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end == 0 {
		return minWindow // several ranges, one after the other
	}
	o := c.o.withDefaults()
	return drive.ByteSize(a.demand(c.off, c.end, &o))
}

// limitWindow limits the read-ahead to bytes.
func (c *content) limitWindow(bytes drive.ByteSize) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.o.Window = max(bytes, minWindow)
}

// setEnd sets the end of the only range from the response headers.
func (c *content) setEnd(status int, h http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var first, last, size int64
	if status == http.StatusOK {
		c.end = c.size
	} else if _, err := fmt.Sscanf(h.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &size); err == nil {
		c.end = last + 1
	}
}

// writer wraps the ResponseWriter of http.ServeContent: it reads the range from the headers, calls
// Refuse for refused requests, and copies through large buffers.
type writer struct {
	http.ResponseWriter
	content *content
	memory  *responseMemory // nil: the response has no content
	refuse  func(error)     // writes the response for an error; see ServeOptions.Refuse
	refused bool            // refuse has written the response: Write discards
}

// Unwrap returns the wrapped writer, for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader acquires the memory before the headers are sent. A refused status or missing memory
// is answered by refuse.
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
		w.content.setEnd(status, w.Header())
		if err := w.acquireMemory(status); err != nil {
			w.refuseBusy(err)
			return
		}
		w.ResponseWriter.WriteHeader(status)
	}
}

// acquireMemory acquires the memory of a response with content, status 200 or 206. For other
// statuses, and without a budget, it does nothing. On an error the caller must refuse the request.
func (w *writer) acquireMemory(status int) error {
	if w.memory == nil || status != http.StatusOK && status != http.StatusPartialContent {
		return nil
	}
	return w.memory.acquire()
}

// refuseBusy answers that there is no memory. It removes the headers of the intended response.
func (w *writer) refuseBusy(err error) {
	for _, name := range []string{"Content-Length", "Content-Range", "Content-Disposition", "ETag", "Last-Modified", "Accept-Ranges"} {
		w.Header().Del(name)
	}
	w.refused = true
	w.content.discard()
	if w.refuse != nil {
		w.refuse(err)
		return
	}
	w.ResponseWriter.WriteHeader(http.StatusServiceUnavailable)
}

// Write writes p to the response and counts it as sent; of a refused response it discards p, the
// plain text of package http, and returns no error.
func (w *writer) Write(p []byte) (int, error) {
	if w.refused {
		return len(p), nil
	}
	n, err := w.ResponseWriter.Write(p)
	w.memory.sent(n)
	return n, err
}

// copyBufferSize is the size of one write to the connection in bytes. Headers and small entries
// share a write.
const copyBufferSize = 128 << 10

// copyBuffers pools the buffers of ReadFrom.
var copyBuffers = sync.Pool{New: func() any { b := make([]byte, copyBufferSize); return &b }}

// ReadFrom copies src to the response with a larger buffer than the 32 KiB of package http
// (io.ReaderFrom). It returns the number of bytes and the first error of either.
func (w *writer) ReadFrom(src io.Reader) (int64, error) {
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{src}, *buf)
}
