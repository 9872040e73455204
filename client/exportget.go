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

// GetExport downloads a sealed zip to the file to. It keeps the bytes in a partial file beside the
// target, named after the zip's ETag, and resumes there after an interruption, also in a later
// process. ErrChanged reports that the zip changed. progress may be nil.
func (c *Client) GetExport(ctx context.Context, x Export, to string, progress Progress) error {
	return c.getZip(ctx, zipFile{exportPath(x.ID) + "/content", x.Filename(), x.Size, x.ETag}, to, progress)
}

// zipFile is a zip on the server that is to be downloaded.
type zipFile struct {
	path string // below /api/v1
	name string
	size int64
	etag string
}

// getZip downloads a zip to the file to, resuming from its partial file. It fails with ErrChanged
// if the zip changes meanwhile; the partial file stays for the next call.
func (c *Client) getZip(ctx context.Context, x zipFile, to string, progress Progress) error {
	if err := checkNotTempName(filepath.Base(to)); err != nil {
		return err
	}
	f, err := openZipPart(x, to)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // closed before the rename on success; a second Close is harmless
	off, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if off > x.size {
		return fmt.Errorf("%s is longer than the zip; remove it", f.Name())
	}
	m := newMeter(progress, Event{Path: x.name, Local: to, State: StateReceiving, Total: x.size})
	m.setBytes(off)
	if err := c.fillZip(ctx, x, f, off, m); err != nil {
		m.finish(StateFailed, err)
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), to); err != nil {
		return err
	}
	m.finish(StateReceived, nil)
	return nil
}

// openZipPart opens or creates the partial file of a zip beside to. Its name contains the zip's
// tag, so a changed zip gets another file. The caller closes it.
func openZipPart(x zipFile, to string) (*os.File, error) {
	tag := strings.Trim(x.etag, `"`)
	return os.OpenFile(to+"."+tag[:min(16, len(tag))]+".part", os.O_RDWR|os.O_CREATE, 0o666) //nolint:gosec // the umask decides, as for cp
}

// fillZip appends the zip's bytes from off on to f, up to its size. It retries as long as bytes
// arrive, and else for RetryFor. It returns ErrChanged, without a retry, if the zip changed.
func (c *Client) fillZip(ctx context.Context, x zipFile, f io.Writer, off int64, m *meter) error {
	p := newRetryBudget(c.opt.RetryFor)
	p.notify = c.opt.OnRetry
	for failures := 0; off < x.size; {
		n, err := c.copyZip(ctx, x, f, off, m)
		if off += n; n > 0 {
			p.reset()
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
		m.retrying(err)
		failures++
		if err := c.backoff(ctx, p, classifyError(err), failures, err); err != nil {
			return err
		}
	}
	return nil
}

// zipRequestBytes is the size of one range request of a zip. A changed ETag or a dead server is
// noticed after at most that many bytes.
const zipRequestBytes = 64 << 20

// copyZip requests the next range from off on, appends it to f, and returns how many bytes were
// written. It fails with ErrChanged if the zip has another tag by now; n counts also the bytes
// before a failure.
func (c *Client) copyZip(ctx context.Context, x zipFile, f io.Writer, off int64, m *meter) (int64, error) {
	k := &request{method: http.MethodGet, path: x.path}
	k.setHeader("Range", "bytes="+itoa(off)+"-"+itoa(min(off+zipRequestBytes, x.size)-1))
	k.setHeader("If-Match", x.etag)
	resp, err := c.roundTrip(ctx, k, false)
	if p, ok := errors.AsType[*Problem](err); ok && p.Code == CodePrecondition {
		return 0, errors.Join(ErrChanged, err)
	}
	if err != nil {
		return 0, err
	}
	defer closeQuietly(resp.Body)
	content, err := newContent(resp, Range{Offset: off, Length: 1, ETag: x.etag}, true)
	if err != nil {
		return 0, err
	}
	n, err := io.Copy(f, meteredReader{content, m})
	return n, wrapConnError(ctx, err)
}

// meteredReader reports the bytes read to a meter.
type meteredReader struct {
	io.Reader
	m *meter
}

// Read counts the bytes in the meter.
func (r meteredReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.m.add(int64(n))
	return n, err
}
