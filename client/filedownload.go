package client

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"lukechampine.com/blake3"
)

// fileDownload is one download of a file. The partial file holds the bytes at their final offsets;
// its sidecar records the content's ETag and the ranges that are complete.
//
// Both survive a killed process, and the next run resumes. If the machine crashed, the digest
// detects ranges that did not reach the disk. The partial file is locked from before it is
// inspected until it is renamed to its final name.
type fileDownload struct {
	downloader *Downloader
	root       *os.Root
	name       string
	node       Node
	budget     *retryBudget
	meter      *meter
	moved      atomic.Int64

	dir     *os.Root // the target's folder, even if it is moved meanwhile
	file    *os.File
	tracker *partTracker
	sidecar *sidecar
}

// run downloads, verifies and renames the file. After ErrChanged or errDamaged nothing is left on
// disk and the caller may start again; after other errors the partial file remains for the next
// run.
func (d *fileDownload) run(ctx context.Context) (err error) {
	d.dir, err = d.root.OpenRoot(filepath.Dir(d.name))
	if err != nil {
		return err
	}
	defer closeQuietly(d.dir)
	part, side := partNames(filepath.Base(d.name))
	d.file, err = openPart(d.dir, part)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(d.root.Name(), d.name), err)
	}
	defer func() {
		defer closeQuietly(d.file) // last, because closing releases the lock; a second Close after finish is harmless
		if errors.Is(err, ErrChanged) || errors.Is(err, errDamaged) {
			removePart(d.dir, part, side)
		}
	}()
	if err := d.prepare(side); err != nil {
		return err
	}
	sum, err := d.fetchAll(ctx)
	if err != nil {
		return errors.Join(err, d.sidecar.save(d.tracker))
	}
	if want := d.node.Digests[blake3Name]; want != "" && sum != want {
		return fmt.Errorf("%s: got %s instead of %s: %w", d.node.Path, sum, want, errDamaged)
	}
	return d.finish(part)
}

// prepare resizes the partial file and loads the sidecar at the path side into the part tracker.
// Without a usable sidecar all ranges are missing and the file is emptied. It fails with an error
// of the file system.
func (d *fileDownload) prepare(side string) error {
	size, ps := d.node.Size, d.downloader.opt.PartSize
	n := (size + ps - 1) / ps
	d.sidecar = &sidecar{root: d.dir, name: side, ETag: d.etag(), Size: size, PartSize: ps}
	d.tracker = newPartTracker(n, nil)
	if !d.sidecar.load(d.tracker) {
		if err := d.file.Truncate(0); err != nil {
			return err
		}
	}
	var have int64
	for _, s := range d.tracker.doneSpans() {
		have += min((s[1]+1)*ps, size) - s[0]*ps
	}
	d.meter.setBytes(have)
	return d.file.Truncate(size)
}

// etag returns the expected ETag of the content, "" if its digest is unknown.
func (d *fileDownload) etag() string {
	if sum := d.node.Digests[blake3Name]; sum != "" {
		return `"b3-` + sum + `"`
	}
	return ""
}

// fetchAll downloads the missing ranges in parallel and returns the digest of the whole file.
// Hashing follows the ranges in order as they complete. The first failure stops all; the digest is
// then not valid.
func (d *fileDownload) fetchAll(ctx context.Context) (string, error) {
	eg, ctx := errgroup.WithContext(ctx)
	for range d.downloader.opt.Parallel {
		eg.Go(func() error { return d.fetchParts(ctx) })
	}
	sum := blake3.New(32, nil)
	eg.Go(func() error {
		buf := make([]byte, bufferSize)
		for n := range int64(len(d.tracker.parts)) {
			if !d.tracker.waitDone(ctx, n) {
				return context.Cause(ctx)
			}
			offset, length := d.span(n)
			if _, err := io.CopyBuffer(sum, struct{ io.Reader }{io.NewSectionReader(d.file, offset, length)}, buf); err != nil {
				return err
			}
		}
		return nil
	})
	err := eg.Wait()
	return hex.EncodeToString(sum.Sum(nil)), err
}

// span returns the offset and length of range n in bytes; the last one may be shorter.
func (d *fileDownload) span(n int64) (offset, length int64) {
	offset = n * d.sidecar.PartSize
	return offset, min(d.sidecar.PartSize, d.node.Size-offset)
}

// fetchParts downloads ranges and marks them done until none is missing, then returns the cause of
// ctx, nil if it is not canceled. It stops at the first failure. Several goroutines may run it.
func (d *fileDownload) fetchParts(ctx context.Context) error {
	for {
		n, _, ok := d.tracker.acquire(ctx)
		if !ok {
			return context.Cause(ctx)
		}
		if err := d.fetchPart(ctx, n); err != nil {
			return err
		}
		d.tracker.markDone(n)
		if err := d.sidecar.saveIfDue(d.tracker); err != nil {
			return err
		}
	}
}

// fetchPart downloads range n. After a broken connection it resumes at the byte reached. It retries
// within the budget and fails with the last error, or the cause of ctx.
func (d *fileDownload) fetchPart(ctx context.Context, n int64) error {
	offset, length := d.span(n)
	for failures := 0; length > 0; {
		got, err := d.fetchOnce(ctx, offset, length)
		offset, length = offset+got, length-got
		if got > 0 {
			d.budget.reset()
			failures = 0
		}
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		failures++
		if err := d.downloader.c.backoff(ctx, d.budget, classifyError(err), failures, err); err != nil {
			return err
		}
	}
	return nil
}

// fetchOnce makes one attempt and returns how many bytes it wrote to the file. An incomplete reply
// is a *connError.
func (d *fileDownload) fetchOnce(ctx context.Context, offset, length int64) (int64, error) {
	r := Range{Offset: offset, Length: length, ETag: d.etag()}
	if offset == 0 && length == d.node.Size {
		r.Length = 0 // the whole file: a request without range is cacheable
	}
	body, err := d.downloader.c.Open(ctx, d.node.ID, r)
	if err != nil {
		return 0, err
	}
	defer closeQuietly(body)
	if r.Length == 0 && body.Size >= 0 && body.Size != d.node.Size {
		return 0, ErrChanged
	}
	to := io.NewOffsetWriter(d.file, offset)
	from := &netReader{io.LimitReader(body, length), func(n int64) { d.meter.add(n); d.moved.Add(n) }, nil}
	got, err := io.CopyBuffer(struct{ io.Writer }{to}, from, make([]byte, bufferSize))
	switch {
	case from.err != nil:
		return got, wrapConnError(ctx, from.err)
	case err != nil:
		return got, err // the local disk
	case got < length:
		return got, &connError{err: io.ErrUnexpectedEOF, sent: true}
	}
	return got, nil
}

// finish syncs the partial file, sets its mtime, and renames it to its final name. It releases the
// lock. After a failed rename the sidecar is written again, so that the next run resumes.
func (d *fileDownload) finish(part string) error {
	d.meter.setState(StateVerifying)
	name := filepath.Base(d.name)
	if err := d.file.Sync(); err != nil {
		return err
	}
	if err := d.setMtime(part); err != nil {
		return err
	}
	if err := d.sidecar.remove(); err != nil { // before the rename: later, the sidecar may belong to another download
		return err
	}
	if err := d.dir.Rename(part, name); err != nil {
		return errors.Join(err, d.sidecar.save(d.tracker))
	}
	if err := d.file.Close(); err != nil { // after the rename: closing releases the lock
		return err
	}
	if runtime.GOOS == "windows" { // Close may overwrite the mtime on Windows
		if err := d.setMtime(name); err != nil {
			return err
		}
	}
	return errors.Join(syncFolder(d.dir), checkInPlace(d.root, filepath.Dir(d.name), d.dir))
}

// setMtime sets the file's mtime to the node's, if the node has one.
func (d *fileDownload) setMtime(name string) error {
	if d.node.Mtime.IsZero() {
		return nil
	}
	return d.dir.Chtimes(name, d.node.Mtime.Time, d.node.Mtime.Time)
}

// netReader counts the bytes read and records read errors, to tell them from write errors of the
// disk.
type netReader struct {
	io.Reader
	count func(int64)
	err   error
}

// Read counts the bytes and keeps the network's error, so that it can be told from an error of the
// destination.
func (r *netReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 {
		r.count(int64(n))
	}
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}
