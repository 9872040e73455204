package dav

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"

	"smartdrive/internal/base/drive"
)

// get is GET and HEAD. Of a folder it is a line for whoever has opened the address in a browser.
func (c *call) get(ctx context.Context) error {
	e, err := c.find(ctx, c.at)
	if err != nil {
		return err
	}
	if e.IsFolder() {
		return c.getFolder(ctx, e)
	}
	d, err := c.opt.Files.Open(ctx, c.who, e.Node, drive.VersionID{})
	if err != nil {
		return err
	}
	e.NodeView = d.Node
	h := c.w.Header()
	h.Set("ETag", e.Tag())
	h.Set("Content-Type", d.Version.Mime)
	h.Set("Content-Disposition", "attachment") // what a user stored must not act as a page of ours
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("Cache-Control", "private, no-cache")
	c.describe(ctx, e)
	w := &contentWriter{ResponseWriter: c.w, call: c, size: d.Size()}
	http.ServeContent(w, c.r, "", d.Version.MTime.Std(), io.NewSectionReader(d, 0, int64(d.Size())))
	return d.Close()
}

func (c *call) getFolder(ctx context.Context, e Entry) error {
	const text = "This is a folder. Open this address with a WebDAV client.\n这是一个文件夹。请用 WebDAV 客户端打开此地址。\n"
	h := c.w.Header()
	setClasses(h)
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	h.Set("Cache-Control", "no-store")
	c.describe(ctx, e)
	c.w.WriteHeader(http.StatusOK)
	_, _ = io.WriteString(c.w, text) // it fails only when the client is gone
	return nil
}

// describe adds what the view says of an entry to the answer.
func (c *call) describe(ctx context.Context, e Entry) {
	if c.view.Describe != nil {
		c.view.Describe(ctx, c.w.Header(), c.who, e)
	}
}

// contentWriter says what http.ServeContent would say in plain text as this head says it, and
// copies through large buffers.
type contentWriter struct {
	http.ResponseWriter

	call    *call
	size    drive.ByteSize
	refused bool
}

// Unwrap is for http.ResponseController.
func (w *contentWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *contentWriter) WriteHeader(status int) {
	switch status {
	case http.StatusRequestedRangeNotSatisfiable:
		w.refuse(drive.Fail(drive.Range, "size", int64(w.size)))
	case http.StatusPreconditionFailed:
		w.refuse(drive.Fail(drive.Precondition))
	default:
		w.ResponseWriter.WriteHeader(status)
	}
}

func (w *contentWriter) refuse(err error) {
	w.refused = true
	w.call.refuse(err)
}

// Write drops the plain text of what was refused.
func (w *contentWriter) Write(p []byte) (int, error) {
	if w.refused {
		return len(p), nil
	}
	return w.ResponseWriter.Write(p)
}

// copyBufferSize in bytes: as in the native API.
const copyBufferSize = 256 << 10

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, copyBufferSize); return &b }}

// ReadFrom implements io.ReaderFrom; that of package http would copy in steps of 32 KiB.
func (w *contentWriter) ReadFrom(src io.Reader) (int64, error) {
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{src}, *buf)
}
