package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/base/wholesync"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/blob/slothead"
)

// tempSuffix ends the names of files that are being written; a crash leaves them, and the next run
// overwrites them.
const tempSuffix = ".new"

func writeFile(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// replace renames durably.
func replace(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncDir(filepath.Dir(to))
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func syncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil // directories cannot be synced there
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// placeOf returns where content lies below a blobs directory. Names come from a database that may
// have been tampered with: only those that a store gives are taken.
func placeOf(file string) (string, error) {
	shard, ok := blob.ShardOf(file)
	if !ok {
		return "", fmt.Errorf("%q is not a name for content", file)
	}
	return filepath.Join(shard, file), nil
}

func isContent(name string) bool {
	_, err := placeOf(name)
	return err == nil
}

// Moved counts what was transferred.
type Moved struct {
	Linked int64          `json:"linked"`
	Copied int64          `json:"copied"`
	Bytes  drive.ByteSize `json:"bytes"` // of copies
}

// state says how a content is where somebody has looked.
type state int

const (
	sound state = iota
	missing
	damaged // there with another size or checksum
)

// outcome says what bring has found and left.
type outcome struct {
	source state // of the content at from; sound where bring had no reason to look
	result state // of the content at to
}

// carrier brings contents from one directory of blobs to another. Those that share a file with
// others there get one of their own: what shares it today may be punched out of it tomorrow, so a
// link to it keeps nothing.
//
// Every content is compared with its checksum before it is linked and while it is copied. One that
// is damaged at from replaces nothing; where to has none, it is copied as it is.
type carrier struct {
	from, to string
	copies   bool // links are not wanted, or not possible
	reread   bool // compare what to has already, and what from has of it, with its checksum, and not only its size
	watch    bool // look whether from still has what to has already
	packs    Packs
	touched  map[string]bool // directories of to
	written  map[string]bool // packs of to that have contents which may not be durable yet
	moved    Moved

	whole   *os.File           // the directory of contents at to, opened before anything is written that a sync of it makes durable; nil: not yet
	unnamed map[string]outcome // by the path that is given to what was written beside it once it is synced: what has its name is durable, whoever finds it
}

// bring makes a content be there. A damaged one that is there already is handed to aside before a
// sound one takes its place.
func (c *carrier) bring(ctx context.Context, b content, aside func(path string) error) (outcome, error) {
	place, err := placeOf(b.file)
	if err != nil {
		return outcome{}, err
	}
	from, to := filepath.Join(c.from, blobsDir, place), filepath.Join(c.to, blobsDir, place)
	if o, brought := c.unnamed[to]; brought {
		return o, nil
	}
	had, err := c.look(ctx, c.to, b, c.reread || b.marked)
	if err != nil {
		return outcome{}, err
	}
	if had == sound {
		if !c.watch {
			return outcome{}, nil
		}
		source, err := c.look(ctx, c.from, b, c.reread || b.marked)
		return outcome{source: source}, err
	}
	err = c.touch(filepath.Dir(to))
	if err != nil {
		return outcome{}, err
	}
	return c.fetch(ctx, b, move{from: from, to: to, had: had, aside: aside})
}

// look finds out how a content is below root. read says that a file is read and compared with its
// checksum; what lies in a pack always is.
func (c *carrier) look(ctx context.Context, root string, b content, read bool) (state, error) {
	place, err := placeOf(b.file)
	if err != nil {
		return missing, err
	}
	path := filepath.Join(root, blobsDir, place)
	size, err := sizeOf(path)
	switch {
	case drive.IsKind(err, drive.NotFound):
		text, err := c.packs.Read(root, b.file)
		switch {
		case drive.IsKind(err, drive.NotFound):
			return missing, nil
		case errors.Is(err, syscall.EIO):
			return damaged, nil
		}
		if root == c.to { // a run that was stopped may have written it
			c.wrote(b)
		}
		return b.stateOf(text), err
	case err != nil:
		return missing, err
	case size != b.size:
		return damaged, nil
	case !read:
		return sound, nil
	}
	found, err := readAll(ctx, path, b, io.Discard)
	if errors.Is(err, fs.ErrNotExist) { // it has gone just now
		return missing, nil
	}
	return found, err
}

// move is a content on its way.
type move struct {
	from, to string
	had      state // of what to has
	aside    func(path string) error
}

// takes reports whether to is better off with a content of that state.
func (m move) takes(s state) bool { return s == sound || m.had == missing }

// clear moves a damaged file out of the way.
func (m move) clear() error {
	if m.had != damaged {
		return nil
	}
	if err := m.aside(m.to); !errors.Is(err, fs.ErrNotExist) { // a damaged content may lie in a pack, which a file comes before
		return err
	}
	return nil
}

// outcome is what a move of a content comes to.
func (m move) outcome(source state) outcome {
	if m.takes(source) {
		return outcome{source, source}
	}
	return outcome{source, m.had}
}

// fetch moves a content that to lacks, or has damaged.
func (c *carrier) fetch(ctx context.Context, b content, m move) (outcome, error) {
	size, err := sizeOf(m.from)
	switch {
	case drive.IsKind(err, drive.NotFound):
		return c.fetchSmall(b, m, func() ([]byte, error) { return c.packs.Read(c.from, b.file) })
	case err != nil:
		return outcome{}, err
	case size != b.size:
		return outcome{damaged, m.had}, nil
	}
	o, err := c.fetchFile(ctx, b, m)
	if errors.Is(err, fs.ErrNotExist) { // it has gone just now
		return outcome{missing, m.had}, nil
	}
	return o, err
}

func (c *carrier) fetchFile(ctx context.Context, b content, m move) (outcome, error) {
	if !c.copies {
		source, err := readAll(ctx, m.from, b, io.Discard)
		if err != nil || !m.takes(source) {
			return m.outcome(source), err
		}
		if err := m.clear(); err != nil {
			return outcome{}, err
		}
		err = os.Link(m.from, m.to)
		if err == nil {
			c.moved.Linked++
			return m.outcome(source), nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			return outcome{}, err
		}
		c.copies = true // another file system, or one without links
	}
	if b.size > slothead.MaxContent {
		return c.copy(ctx, b, m)
	}
	return c.fetchSmall(b, m, func() ([]byte, error) { return os.ReadFile(m.from) })
}

// readAll reads a file to its end, writes what it has to w, and compares it with its checksum. A
// file that its disk cannot read is damaged.
func readAll(ctx context.Context, path string, b content, w io.Writer) (state, error) {
	f, err := os.Open(path)
	if err != nil {
		return missing, err
	}
	defer func() { _ = f.Close() }()
	var sum digest.CRC32
	n, err := copyAll(ctx, io.MultiWriter(&sum, w), f)
	if err != nil {
		return missing, fmt.Errorf("copy %s: %w", path, err)
	}
	if n != int64(b.size) || sum.Sum32() != b.crc { // also where its disk cannot read on
		return damaged, nil
	}
	return sound, nil
}

// stateOf compares the bytes of a content with its row.
func (b content) stateOf(text []byte) state {
	var sum digest.CRC32
	_, _ = sum.Write(text)
	if drive.ByteSize(len(text)) != b.size || sum.Sum32() != b.crc {
		return damaged
	}
	return sound
}

// fetchSmall writes a small content to its pack, or to a file of its own: where its name tells of
// no pack, and in place of a damaged one.
func (c *carrier) fetchSmall(b content, m move, read func() ([]byte, error)) (outcome, error) {
	text, err := read()
	switch {
	case drive.IsKind(err, drive.NotFound):
		return outcome{missing, m.had}, nil
	case errors.Is(err, syscall.EIO):
		return outcome{damaged, m.had}, nil
	case err != nil:
		return outcome{}, err
	}
	o := m.outcome(b.stateOf(text))
	if !m.takes(o.source) {
		return o, nil
	}
	if m.had == missing {
		err := c.packs.Write(c.to, b.file, text)
		if err == nil {
			c.wrote(b)
			c.moved.Copied++
			c.moved.Bytes += b.size
		}
		if !drive.IsKind(err, drive.NotFound) {
			return o, err
		}
	}
	if err := m.clear(); err != nil {
		return outcome{}, err
	}
	return o, c.writeSmall(m.to, text, o)
}

// wrote notes that the pack of a content is to be synced.
func (c *carrier) wrote(b content) {
	if path, ok := c.packs.Path(c.to, b.file); ok {
		c.written[path], c.touched[filepath.Dir(path)] = true, true
	}
}

// maxUnnamed is how many small contents wait for one sync: what a run that is stopped has to do
// again.
const maxUnnamed = 4096

// writeSmall writes a small content to a file. It becomes durable, and gets its name, together with
// others.
func (c *carrier) writeSmall(to string, b []byte, o outcome) (err error) {
	if c.whole == nil {
		if c.whole, err = os.Open(filepath.Join(c.to, blobsDir)); err != nil { // which may be a link to another disk
			return err
		}
		c.unnamed = map[string]outcome{}
	}
	if err := os.WriteFile(to+tempSuffix, b, 0o600); err != nil { //nolint:gosec // placeOf takes only names that a store gives
		return err
	}
	c.moved.Copied++
	c.moved.Bytes += drive.ByteSize(len(b))
	c.unnamed[to] = o
	if len(c.unnamed) < maxUnnamed {
		return nil
	}
	return c.nameSmall()
}

func sizeOf(path string) (drive.ByteSize, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, drive.Wrap(err, drive.NotFound)
	case err != nil:
		return 0, err
	case !info.Mode().IsRegular():
		return 0, fmt.Errorf("%s is not a file", path)
	}
	return drive.ByteSize(info.Size()), nil
}

func (c *carrier) touch(dir string) error {
	if c.touched[dir] {
		return nil
	}
	c.touched[dir] = true
	return os.MkdirAll(dir, 0o700)
}

// copy copies a large content to a file, which has its name once it is durable.
func (c *carrier) copy(ctx context.Context, b content, m move) (outcome, error) {
	temp := m.to + tempSuffix
	source, err := copyFile(ctx, m.from, temp, b)
	if err != nil || !m.takes(source) {
		return m.outcome(source), errors.Join(err, unlessNotExist(os.Remove(temp)))
	}
	if err := m.clear(); err != nil {
		return outcome{}, err
	}
	c.moved.Copied++
	c.moved.Bytes += b.size
	return m.outcome(source), os.Rename(temp, m.to)
}

// copyFile copies a file durably, and compares what it reads with the checksum of a content.
func copyFile(ctx context.Context, from, to string, b content) (state, error) {
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return missing, err
	}
	source, err := readAll(ctx, from, b, dst)
	return source, errors.Join(err, dst.Sync(), dst.Close())
}

func unlessNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// copyAll copies in pieces, so that ctx can end it, up to where src cannot be read.
func copyAll(ctx context.Context, dst io.Writer, src io.Reader) (total int64, err error) {
	b := make([]byte, 1<<20)
	for {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		n, err := src.Read(b)
		if n > 0 {
			if _, err := dst.Write(b[:n]); err != nil {
				return total, err
			}
			total += int64(n)
		}
		if err == io.EOF || errors.Is(err, syscall.EIO) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// sync makes what was brought durable, with its names. Bytes of what was linked are already, or
// those of a small file are in the log beside the blobs, from which a start writes them to the file
// that is linked here.
func (c *carrier) sync() error {
	if err := c.nameSmall(); err != nil {
		return err
	}
	for path := range c.written {
		if err := syncFile(path); err != nil {
			return err
		}
	}
	clear(c.written)
	for dir := range c.touched {
		if err := syncDir(dir); err != nil {
			return err
		}
	}
	clear(c.touched)
	if err := syncDir(filepath.Join(c.to, blobsDir)); err != nil {
		return err
	}
	return syncDir(c.to)
}

func (c *carrier) nameSmall() error {
	if c.whole == nil {
		return nil
	}
	paths := c.unnamed
	err := syncWritten(c.whole, paths)
	if err = errors.Join(err, c.close()); err != nil {
		return err
	}
	for path := range paths {
		if err := os.Rename(path+tempSuffix, path); err != nil {
			return err
		}
	}
	return nil
}

// syncWritten makes durable what writeSmall has written.
func syncWritten(whole *os.File, paths map[string]outcome) error {
	if wholesync.Can(whole) {
		return wholesync.Sync(whole)
	}
	for path := range paths {
		if err := syncFile(path + tempSuffix); err != nil {
			return err
		}
	}
	return nil
}

// close lets go of what was not synced.
func (c *carrier) close() error {
	whole := c.whole
	if whole == nil {
		return nil
	}
	c.whole, c.unnamed = nil, nil
	return whole.Close()
}
