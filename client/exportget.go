package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// GetExport downloads a sealed zip to a file. What has come of it lies in a file beside it whose
// name tells which zip it is of: after an interruption, of this call or of the process, the rest is
// asked for. progress may be nil.
func (c *Client) GetExport(ctx context.Context, x Export, to string, progress Progress) error {
	return c.getZip(ctx, zipFile{exportPath(x.ID) + "/content", x.Filename(), x.Size, x.ETag}, to, progress)
}

// zipFile is a zip of the server: where it is, and what it is.
type zipFile struct {
	path string // of the API
	name string
	size int64
	etag string
}

func (c *Client) getZip(ctx context.Context, x zipFile, to string, progress Progress) error {
	if err := notOwn(filepath.Base(to)); err != nil {
		return err
	}
	f, err := openZipPart(x, to)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // the second time after success
	off, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if off > x.size {
		return fmt.Errorf("%s is longer than the zip; remove it", f.Name())
	}
	m := newMeter(progress, Event{Path: x.name, Local: to, State: StateReceiving, Total: x.size})
	m.has(off)
	if err := c.fillZip(ctx, x, f, off, m); err != nil {
		m.end(StateFailed, err)
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), to); err != nil {
		return err
	}
	m.end(StateReceived, nil)
	return nil
}

// openZipPart opens what has come of a zip.
func openZipPart(x zipFile, to string) (*os.File, error) {
	tag := strings.Trim(x.etag, `"`)
	return os.OpenFile(to+"."+tag[:min(16, len(tag))]+".part", os.O_RDWR|os.O_CREATE, 0o666) //nolint:gosec // the umask decides, as for cp
}

// fillZip asks for what is behind off until all is there.
func (c *Client) fillZip(ctx context.Context, x zipFile, f io.Writer, off int64, m *meter) error {
	p := newPatience(c.opt.GiveUp)
	p.notify = c.opt.Waiting
	for failures := 0; off < x.size; {
		n, err := c.copyZip(ctx, x, f, off, m)
		if off += n; n > 0 {
			p.touch()
			failures = 0
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			continue
		case errors.Is(err, ErrChanged):
			return err
		}
		m.waiting(err)
		failures++
		if err := c.pause(ctx, p, judge(err), failures, err); err != nil {
			return err
		}
	}
	return nil
}

// copyPiece is how many bytes of a zip one request asks for: what a new ETag, or a server that has
// gone, is noticed after.
const copyPiece = 64 << 20

// copyZip appends what one request brings, and returns how much that was.
func (c *Client) copyZip(ctx context.Context, x zipFile, f io.Writer, off int64, m *meter) (int64, error) {
	k := &call{method: http.MethodGet, path: x.path}
	k.setHeader("Range", "bytes="+itoa(off)+"-"+itoa(min(off+copyPiece, x.size)-1))
	k.setHeader("If-Match", x.etag)
	resp, err := c.roundTrip(ctx, k, false)
	if p, ok := errors.AsType[*Problem](err); ok && p.Code == CodePrecondition {
		return 0, errors.Join(ErrChanged, err)
	}
	if err != nil {
		return 0, err
	}
	defer letGo(resp.Body)
	content, err := newContent(resp, Range{Offset: off, Length: 1, ETag: x.etag}, true)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(f, metered{content, m})
	return n, asCut(ctx, err)
}

// metered tells a meter of what is read.
type metered struct {
	io.Reader
	m *meter
}

func (r metered) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.m.add(int64(n))
	return n, err
}
