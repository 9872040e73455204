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

// carrier brings contents from one directory of blobs to another. Those that share a file with
// others there get one of their own: what shares it today may be punched out of it tomorrow, so a
// link to it keeps nothing.
type carrier struct {
	from, to string
	copies   bool // links are not wanted, or not possible
	packed   func(blobs, name string) ([]byte, error)
	touched  map[string]bool
	moved    Moved

	whole   *os.File        // the directory of contents at to, opened before anything is written that a sync of it makes durable; nil: not yet
	unnamed map[string]bool // paths that are given to what was written beside them once it is synced: what has its name is durable, whoever finds it
}

// bring makes a file of this size be there. One of another size that is there already is handed to
// aside first. NotFound when the source has none of that size.
func (c *carrier) bring(ctx context.Context, file string, size drive.ByteSize, aside func(path string) error) error {
	place, err := placeOf(file)
	if err != nil {
		return err
	}
	from, to := filepath.Join(c.from, blobsDir, place), filepath.Join(c.to, blobsDir, place)
	if c.unnamed[to] {
		return nil
	}
	there, err := sizeOf(to)
	switch {
	case err == nil && there == size:
		return nil
	case err == nil:
		err = aside(to)
	case drive.IsKind(err, drive.NotFound):
		var b []byte
		if b, err = c.packed(c.to, file); err == nil && drive.ByteSize(len(b)) == size {
			return nil
		}
		err = unlessNotFound(err)
	}
	if err != nil {
		return err
	}
	has, err := sizeOf(from)
	if drive.IsKind(err, drive.NotFound) {
		return c.unpack(file, to, size)
	}
	if err != nil || has != size {
		return errors.Join(err, drive.Wrap(err, drive.NotFound))
	}
	if err := c.touch(filepath.Dir(to)); err != nil {
		return err
	}
	if !c.copies {
		err := os.Link(from, to)
		if err == nil {
			c.moved.Linked++
			return nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			return drive.Wrap(err, drive.NotFound)
		}
		c.copies = true // another file system, or one without links
	}
	if size <= slothead.MaxContent {
		return c.copySmall(from, to, size)
	}
	return c.copy(ctx, from, to, size)
}

func unlessNotFound(err error) error {
	if drive.IsKind(err, drive.NotFound) {
		return nil
	}
	return err
}

// unpack copies a content that lies in a pack to a file of its own.
func (c *carrier) unpack(file, to string, size drive.ByteSize) error {
	b, err := c.packed(c.from, file)
	if err != nil {
		return err
	}
	if drive.ByteSize(len(b)) != size {
		return drive.Fail(drive.NotFound)
	}
	if err := c.touch(filepath.Dir(to)); err != nil {
		return err
	}
	return c.writeSmall(to, b)
}

func (c *carrier) copySmall(from, to string, size drive.ByteSize) error {
	b, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrNotExist) {
		return drive.Wrap(err, drive.NotFound)
	}
	if err == nil && drive.ByteSize(len(b)) != size {
		err = fmt.Errorf("%s has %d bytes, not %d", from, len(b), size)
	}
	if err != nil {
		return err
	}
	return c.writeSmall(to, b)
}

// maxUnnamed is how many small contents wait for one sync: what a run that is stopped has to do
// again.
const maxUnnamed = 4096

// writeSmall writes a small content to a file. It becomes durable, and gets its name, together with
// others.
func (c *carrier) writeSmall(to string, b []byte) (err error) {
	if c.whole == nil {
		if c.whole, err = os.Open(filepath.Join(c.to, blobsDir)); err != nil { // which may be a link to another disk
			return err
		}
		c.unnamed = map[string]bool{}
	}
	if err := os.WriteFile(to+tempSuffix, b, 0o600); err != nil { //nolint:gosec // placeOf takes only names that a store gives
		return err
	}
	c.moved.Copied++
	c.moved.Bytes += drive.ByteSize(len(b))
	c.unnamed[to] = true
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

func (c *carrier) copy(ctx context.Context, from, to string, size drive.ByteSize) error {
	src, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return drive.Wrap(err, drive.NotFound)
	}
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	temp := to + tempSuffix
	dst, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	n, err := copyAll(ctx, dst, src)
	if err == nil && n != int64(size) {
		err = fmt.Errorf("%s has %d bytes, not %d", from, n, size)
	}
	if err = errors.Join(err, dst.Sync(), dst.Close()); err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	c.moved.Copied++
	c.moved.Bytes += size
	return os.Rename(temp, to)
}

// copyAll copies in pieces, so that ctx can end it and the kernel can still do the copying.
func copyAll(ctx context.Context, dst io.Writer, src io.Reader) (total int64, err error) {
	const piece = 64 << 20
	for {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		n, err := io.CopyN(dst, src, piece)
		total += n
		if err == io.EOF {
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
func syncWritten(whole *os.File, paths map[string]bool) error {
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
