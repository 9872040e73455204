package zipline

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"smartdrive/internal/base/drive"
)

// ServeOptions say how an archive is sent.
type ServeOptions struct {
	Options
	// Modified is the time of Last-Modified: when it was sealed. Zero: no such header.
	Modified drive.Time
	// Refuse answers a request whose conditions or ranges cannot be met: Precondition or Range
	// {size}; or that there is no memory for: Unavailable. nil: in plain text.
	Refuse func(error)
	// Budget is where the memory of an answer with content comes from, in the name of Client. nil:
	// it is not bounded.
	Budget *Budget
	Client string
	// Grant is memory that the caller has taken already, and gives back. nil: Serve takes it.
	Grant *Grant
}

// Serve answers a GET or HEAD with the archive or the ranges of it that were asked for (RFC 9110
// §13, §14), as http.ServeContent does: several ranges at once are one answer in parts, unless
// together they are longer than the archive or more than maxRanges; it is then sent whole. Headers
// that the caller has set stay. When an entry is broken it panics with http.ErrAbortHandler, so
// that the client sees the connection break before the end.
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
	m := &memory{archive: a, content: c, o: &o, grant: o.Grant}
	defer m.close()
	m.ask = func(least, want drive.ByteSize) (*Grant, error) { return o.Budget.Take(ctx, o.Client, least, want) }
	m.end = func() {
		cancel()
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now()) // there is none under httptest.ResponseRecorder
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

// memory is the grant of an answer. It is taken when it is known that there is something to send,
// and how much.
type memory struct {
	archive *Archive
	content *content
	o       *ServeOptions
	ask     func(least, want drive.ByteSize) (*Grant, error)
	end     func() // breaks the answer off
	grant   *Grant
}

// take bounds what the content reads ahead.
func (m *memory) take() (err error) {
	if m.grant == nil {
		need := m.content.demand(m.archive)
		if m.grant, err = m.ask(min(need, minWindow), need); err != nil {
			return err
		}
		m.content.bound(m.grant.Bytes)
	}
	m.grant.onEviction(m.end)
	return nil
}

// close gives back what take took; of what the caller took it only lets go.
func (m *memory) close() {
	switch m.grant {
	case nil:
	case m.o.Grant:
		m.grant.onEviction(nil)
	default:
		m.grant.Close()
	}
}

func (m *memory) sent(n int) {
	if m != nil && m.grant != nil {
		m.grant.sent.Add(int64(n))
	}
}

// maxRanges is how many ranges of one request are looked at: for one of a byte up to
// Options.Recheck may have to be read.
const maxRanges = 16

// content is an archive as http.ServeContent wants it: to be sought and read. It opens a reader
// where reading begins. The lock is there because ServeContent reads several ranges in a goroutine
// that it does not wait for.
type content struct {
	open   func(from, to int64, o Options) io.ReadCloser
	cancel context.CancelFunc
	size   int64
	empty  bool // the answer is another one: there is nothing to read
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

// startLocked opens a reader for the range that begins here. Where its end is not known, little is
// read ahead.
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

// nothing makes all reads end at once.
func (c *content) nothing() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.empty = true
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

// demand is how much memory is good for what is to be read.
func (c *content) demand(a *Archive) drive.ByteSize {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end == 0 {
		return minWindow // several ranges, one after the other
	}
	o := c.o.withDefaults()
	return drive.ByteSize(a.demand(c.off, c.end, &o))
}

// bound says how much memory there is.
func (c *content) bound(bytes drive.ByteSize) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.o.Window = max(bytes, minWindow)
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

// writer looks at what http.ServeContent answers: it learns the range, lets Refuse say what was
// refused, and copies through large buffers.
type writer struct {
	http.ResponseWriter
	content *content
	memory  *memory // nil: nothing is sent
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
		if err := w.remember(status); err != nil {
			w.busy(err)
			return
		}
		w.ResponseWriter.WriteHeader(status)
	}
}

// remember takes the memory of an answer that has content.
func (w *writer) remember(status int) error {
	if w.memory == nil || status != http.StatusOK && status != http.StatusPartialContent {
		return nil
	}
	return w.memory.take()
}

// busy says that there is no memory, in place of what the answer's header says so far.
func (w *writer) busy(err error) {
	for _, name := range []string{"Content-Length", "Content-Range", "Content-Disposition", "ETag", "Last-Modified", "Accept-Ranges"} {
		w.Header().Del(name)
	}
	w.refused = true
	w.content.nothing()
	if w.refuse != nil {
		w.refuse(err)
		return
	}
	w.ResponseWriter.WriteHeader(http.StatusServiceUnavailable)
}

// Write drops the plain text of what was refused.
func (w *writer) Write(p []byte) (int, error) {
	if w.refused {
		return len(p), nil
	}
	n, err := w.ResponseWriter.Write(p)
	w.memory.sent(n)
	return n, err
}

// copyBufferSize in bytes: what one write to the connection takes. Headers and small entries share
// it.
const copyBufferSize = 128 << 10

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, copyBufferSize); return &b }}

// ReadFrom implements io.ReaderFrom; that of package http would copy in steps of 32 KiB.
func (w *writer) ReadFrom(src io.Reader) (int64, error) {
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{src}, *buf)
}
