package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// Store is a blob.Store of files and packs in the directory blobs of a Dir.
type Store struct{ d *Dir }

var _ blob.Store = (*Store)(nil)

// Caps reports that the free space is known, and which contents PutUnsynced handles well
// (blob.Store).
func (s *Store) Caps() blob.StoreCaps {
	caps := blob.StoreCaps{ReportsFree: true}
	if s.d.usePacks || s.d.fs.usable() {
		caps.SmallMax = loggedSize
	}
	return caps
}

// Presign always fails: a directory has no URLs.
func (s *Store) Presign(context.Context, string, blob.Link) (string, error) {
	return "", errors.New("a directory has no links")
}

// Put stores new content durably. It writes under the final name. A crash leaves a torn file, but
// no row refers to it before Put has returned; the auditor handles put- files of an older
// generation.
func (s *Store) Put(ctx context.Context, name string, body blob.Body) (blob.Part, error) {
	return s.store(ctx, name, body, func(f *os.File, small []byte) error {
		if err := s.d.syncNew(f, name, small); err != nil {
			return err
		}
		return s.d.checkMounted()
	})
}

// store creates the file of a new name, writes body to it, and calls then with the open file. small
// is the whole content if it fits a small buffer, else nil. On any error the file is removed.
func (s *Store) store(ctx context.Context, name string, body blob.Body, then func(f *os.File, small []byte) error) (blob.Part, error) {
	path, err := s.d.blobPath(name)
	if err != nil {
		return blob.Part{}, fmt.Errorf("put %q: no name for content", name)
	}
	if s.isPacked(name) {
		return blob.Part{}, fmt.Errorf("put: %w", errExists)
	}
	if err := s.d.makeShard(path); err != nil {
		return blob.Part{}, fmt.Errorf("put: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if err != nil {
		return blob.Part{}, fmt.Errorf("put: %w", classify(err))
	}
	buf := s.d.buffers.getSmall()
	defer s.d.buffers.putSmall(buf)
	part, small, err := s.writeBody(ctx, f, body, buf)
	if err == nil {
		err = then(f, small)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		rerr := os.Remove(path)
		if rerr = errors.Join(rerr, s.d.wal.Discard(name)); rerr != nil {
			s.d.log.Warn("torn content of a failed put not removed; the auditor finds it", "name", name, "error", rerr)
		}
		return blob.Part{}, fmt.Errorf("put: %w", classify(err))
	}
	return part, nil
}

// writeBody writes body to f through buf, without a sync. It returns the content if it fits buf,
// else nil.
func (s *Store) writeBody(ctx context.Context, f *os.File, body blob.Body, buf *[smallBuffer]byte) (_ blob.Part, small []byte, err error) {
	c := copier{to: f, limit: int64(drive.MaxFileSize), buffers: s.d.buffers, small: buf}
	n, err := c.copy(ctx, body)
	if err != nil {
		return blob.Part{}, nil, err
	}
	part, err := body.Finish()
	if err == nil && int64(part.Size) != n {
		err = fmt.Errorf("body of %d bytes gave %d", part.Size, n)
	}
	if err != nil {
		return blob.Part{}, nil, err
	}
	if c.fitsSmall {
		small = buf[:n]
	}
	return part, small, nil
}

// Open opens content; missing content is NotFound. A file takes precedence over the slot of the
// same name, because it replaces a damaged one.
func (s *Store) Open(_ context.Context, name string) (blob.Object, error) {
	path, err := s.d.blobPath(name)
	if err != nil {
		return nil, err
	}
	var obj blob.Object
	if at, ok := blob.SlotOf(name); ok && notExist(path) {
		obj, err = s.openSlot(at)
	} else {
		obj, err = openObject(path)
	}
	if err != nil {
		return nil, s.d.confirmMissing(err)
	}
	return obj, nil
}

// object is an open file with the size it had when it was opened.
type object struct {
	*os.File
	size drive.ByteSize
}

// Size returns the size that the file had when it was opened.
func (o object) Size() drive.ByteSize { return o.size }

// openObject opens a regular file for reading. It fails with NotFound if the file is missing or not
// a regular one. The caller must close the Object.
func openObject(path string) (blob.Object, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open content: %w", classify(err))
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = drive.Fail(drive.NotFound)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open content: %w", err), f.Close())
	}
	return object{f, drive.ByteSize(info.Size())}, nil
}

// Stat returns the size of content, in a file of its own or in a slot of a pack, without reading it
// (blob.Store). It fails with NotFound if there is none.
func (s *Store) Stat(_ context.Context, name string) (drive.ByteSize, error) {
	path, err := s.d.blobPath(name)
	if err != nil {
		return 0, err
	}
	info, err := os.Lstat(path)
	if at, ok := blob.SlotOf(name); ok && errors.Is(err, fs.ErrNotExist) {
		size, err := s.d.packs.Size(at)
		return drive.ByteSize(size), s.d.confirmMissing(err)
	}
	if err != nil {
		return 0, s.d.confirmMissing(fmt.Errorf("stat content: %w", classify(err)))
	}
	if !info.Mode().IsRegular() {
		return 0, drive.Fail(drive.NotFound)
	}
	return drive.ByteSize(info.Size()), nil
}

// Remove deletes content; missing content is not an error. The removal is durable, because content
// that reappeared after a power loss would have no row.
func (s *Store) Remove(ctx context.Context, name string) error {
	_, err := s.RemoveAll(context.WithoutCancel(ctx), []string{name})
	return err
}

// Free returns the free bytes of the file system (blob.Store).
func (s *Store) Free(context.Context) (drive.ByteSize, error) {
	return FreeSpace(s.d.root)
}

// FreeSpace returns how many bytes this process may still write to the file system of dir.
func FreeSpace(dir string) (drive.ByteSize, error) {
	n, err := freeBytes(dir)
	if err != nil {
		return 0, fmt.Errorf("free space: %w", err)
	}
	return drive.ByteSize(n), nil
}
