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

// fetching is one file on its way to this computer. Its part has the bytes at their final offsets,
// its sidecar says which content it is, and which ranges are there.
//
// A killed process leaves both behind and the next run goes on. What a crash of the machine makes
// of them is found by the digest. The part is locked from before it is looked at until it has its
// name.
type fetching struct {
	d        *Downloader
	root     *os.Root
	name     string
	node     Node
	patience *patience
	meter    *meter
	moved    atomic.Int64

	dir   *os.Root // its folder, wherever that is moved meanwhile
	file  *os.File
	board *board
	side  *sidecar
}

// run fetches, verifies and names the file. ErrChanged and errDamaged leave nothing behind: the
// caller begins again.
func (g *fetching) run(ctx context.Context) (err error) {
	g.dir, err = g.root.OpenRoot(filepath.Dir(g.name))
	if err != nil {
		return err
	}
	defer letGo(g.dir)
	part, side := partNames(filepath.Base(g.name))
	g.file, err = openPart(g.dir, part)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(g.root.Name(), g.name), err)
	}
	defer func() {
		defer letGo(g.file) // the last: its lock ends. A second Close after finish is harmless
		if errors.Is(err, ErrChanged) || errors.Is(err, errDamaged) {
			removePart(g.dir, part, side)
		}
	}()
	if err := g.prepare(side); err != nil {
		return err
	}
	sum, err := g.fetchAll(ctx)
	if err != nil {
		return errors.Join(err, g.side.save(g.board))
	}
	if want := g.node.Digests[blake3Name]; want != "" && sum != want {
		return fmt.Errorf("%s: got %s instead of %s: %w", g.node.Path, sum, want, errDamaged)
	}
	return g.finish(part)
}

// prepare gives the partial file its size and lays out what is there already.
func (g *fetching) prepare(side string) error {
	size, ps := g.node.Size, g.d.opt.PartSize
	n := (size + ps - 1) / ps
	g.side = &sidecar{root: g.dir, name: side, ETag: g.etag(), Size: size, PartSize: ps}
	g.board = newBoard(n, nil)
	if !g.side.load(g.board) {
		if err := g.file.Truncate(0); err != nil {
			return err
		}
	}
	var have int64
	for _, s := range g.board.spans() {
		have += min((s[1]+1)*ps, size) - s[0]*ps
	}
	g.meter.has(have)
	return g.file.Truncate(size)
}

func (g *fetching) etag() string {
	if sum := g.node.Digests[blake3Name]; sum != "" {
		return `"b3-` + sum + `"`
	}
	return ""
}

// fetchAll fetches what is missing and returns the digest of the whole; the hasher follows the
// ranges as they become complete.
func (g *fetching) fetchAll(ctx context.Context) (string, error) {
	eg, ctx := errgroup.WithContext(ctx)
	for range g.d.opt.Parallel {
		eg.Go(func() error { return g.fetchParts(ctx) })
	}
	sum := blake3.New(32, nil)
	eg.Go(func() error {
		buf := make([]byte, bufferSize)
		for n := range int64(len(g.board.parts)) {
			if !g.board.await(ctx, n) {
				return context.Cause(ctx)
			}
			offset, length := g.span(n)
			if _, err := io.CopyBuffer(sum, struct{ io.Reader }{io.NewSectionReader(g.file, offset, length)}, buf); err != nil {
				return err
			}
		}
		return nil
	})
	err := eg.Wait()
	return hex.EncodeToString(sum.Sum(nil)), err
}

func (g *fetching) span(n int64) (offset, length int64) {
	offset = n * g.side.PartSize
	return offset, min(g.side.PartSize, g.node.Size-offset)
}

func (g *fetching) fetchParts(ctx context.Context) error {
	for {
		n, _, ok := g.board.take(ctx)
		if !ok {
			return context.Cause(ctx)
		}
		if err := g.fetchPart(ctx, n); err != nil {
			return err
		}
		g.board.sent(n)
		if err := g.side.saveNowAndThen(g.board); err != nil {
			return err
		}
	}
}

// fetchPart fetches range n. A cut goes on where it was cut.
func (g *fetching) fetchPart(ctx context.Context, n int64) error {
	offset, length := g.span(n)
	for failures := 0; length > 0; {
		got, err := g.fetchSome(ctx, offset, length)
		offset, length = offset+got, length-got
		if got > 0 {
			g.patience.touch()
			failures = 0
		}
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		failures++
		if err := g.d.c.pause(ctx, g.patience, judge(err), failures, err); err != nil {
			return err
		}
	}
	return nil
}

// fetchSome is one attempt; it returns how many bytes are in the file.
func (g *fetching) fetchSome(ctx context.Context, offset, length int64) (int64, error) {
	r := Range{Offset: offset, Length: length, ETag: g.etag()}
	if offset == 0 && length == g.node.Size {
		r.Length = 0 // the whole: a proxy may cache it
	}
	body, err := g.d.c.Open(ctx, g.node.ID, r)
	if err != nil {
		return 0, err
	}
	defer letGo(body)
	if r.Length == 0 && body.Size >= 0 && body.Size != g.node.Size {
		return 0, ErrChanged
	}
	to := io.NewOffsetWriter(g.file, offset)
	from := &downReader{io.LimitReader(body, length), func(n int64) { g.meter.add(n); g.moved.Add(n) }, nil}
	got, err := io.CopyBuffer(struct{ io.Writer }{to}, from, make([]byte, bufferSize))
	switch {
	case from.err != nil:
		return got, asCut(ctx, from.err)
	case err != nil:
		return got, err // the local disk
	case got < length:
		return got, &cutError{err: io.ErrUnexpectedEOF, sent: true}
	}
	return got, nil
}

// finish makes the bytes durable and gives them their time and name.
func (g *fetching) finish(part string) error {
	g.meter.state(StateVerifying)
	name := filepath.Base(g.name)
	if err := g.file.Sync(); err != nil {
		return err
	}
	if err := g.dated(part); err != nil {
		return err
	}
	if err := g.side.remove(); err != nil { // not later: it may be that of another download then
		return err
	}
	if err := g.dir.Rename(part, name); err != nil {
		return errors.Join(err, g.side.save(g.board))
	}
	if err := g.file.Close(); err != nil { // not before: others may write to what is not locked
		return err
	}
	if runtime.GOOS == "windows" { // which may set the time of the last write once more with Close
		if err := g.dated(name); err != nil {
			return err
		}
	}
	return errors.Join(syncFolder(g.dir), stays(g.root, filepath.Dir(g.name), g.dir))
}

func (g *fetching) dated(name string) error {
	if g.node.Mtime.IsZero() {
		return nil
	}
	return g.dir.Chtimes(name, g.node.Mtime, g.node.Mtime)
}

// downReader counts, and keeps the network's error apart from the disk's.
type downReader struct {
	io.Reader
	count func(int64)
	err   error
}

func (r *downReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 {
		r.count(int64(n))
	}
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}
