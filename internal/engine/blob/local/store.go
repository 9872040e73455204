package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// Store implements blob.Store.
type Store struct{ d *Dir }

var _ blob.Store = (*Store)(nil)

// Caps implements blob.Store: nobody but this process serves what lies in a directory.
func (s *Store) Caps() blob.StoreCaps {
	caps := blob.StoreCaps{Bounded: true}
	if s.d.packing || s.d.whole.able() {
		caps.Little = loggedSize
	}
	return caps
}

// Presign implements blob.Store.
func (s *Store) Presign(context.Context, string, blob.Link) (string, error) {
	return "", errors.New("a directory has no links")
}

// Put implements blob.Store. The bytes are written under their final name: a crash leaves a torn
// file, but no row names it before Put has returned, and the auditor knows what to do with a put-
// file of an older generation.
func (s *Store) Put(ctx context.Context, name string, body blob.Body) (blob.Part, error) {
	return s.store(ctx, name, body, func(f *os.File, small []byte) error {
		if err := s.d.syncNew(f, name, small); err != nil {
			return err
		}
		return s.d.inPlace()
	})
}

// store makes the file of a new name, writes what the body yields, and calls then; small is all of
// it if that is not more than a small buffer holds, and else nil. On any error nothing stays.
func (s *Store) store(ctx context.Context, name string, body blob.Body, then func(f *os.File, small []byte) error) (blob.Part, error) {
	path, err := s.d.blobPath(name)
	if err != nil {
		return blob.Part{}, fmt.Errorf("put %q: no name for content", name)
	}
	if s.inSlot(name) {
		return blob.Part{}, fmt.Errorf("put: %w", errThere)
	}
	if err := s.d.makeShard(path); err != nil {
		return blob.Part{}, fmt.Errorf("put: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if err != nil {
		return blob.Part{}, fmt.Errorf("put: %w", classify(err))
	}
	buf := s.d.buffers.takeSmall()
	defer s.d.buffers.giveSmall(buf)
	part, small, err := s.fill(ctx, f, body, buf)
	if err == nil {
		err = then(f, small)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		rerr := os.Remove(path)
		if rerr = errors.Join(rerr, s.d.wal.Forget(name)); rerr != nil {
			s.d.log.Warn("torn content not removed", "name", name, "error", rerr)
		}
		return blob.Part{}, fmt.Errorf("put: %w", classify(err))
	}
	return part, nil
}

// fill writes what the body yields, by way of buf, and syncs nothing. It returns all of it if buf
// has held it, and else nil.
func (s *Store) fill(ctx context.Context, f *os.File, body blob.Body, buf *[smallBuffer]byte) (_ blob.Part, small []byte, err error) {
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
	if c.once {
		small = buf[:n]
	}
	return part, small, nil
}

// Open implements blob.Store. A file goes before what lies in a pack under its name: it was brought
// here because that was bad.
func (s *Store) Open(_ context.Context, name string) (blob.Object, error) {
	path, err := s.d.blobPath(name)
	if err != nil {
		return nil, err
	}
	if at, ok := blob.SlotOf(name); ok && missing(path) {
		return s.openSlot(at)
	}
	return openObject(path)
}

// object is an open file with the size that it had when it was opened.
type object struct {
	*os.File
	size drive.ByteSize
}

func (o object) Size() drive.ByteSize { return o.size }

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

// Stat implements blob.Store.
func (s *Store) Stat(_ context.Context, name string) (drive.ByteSize, error) {
	path, err := s.d.blobPath(name)
	if err != nil {
		return 0, err
	}
	info, err := os.Lstat(path)
	if at, ok := blob.SlotOf(name); ok && errors.Is(err, fs.ErrNotExist) {
		size, err := s.d.packs.Size(at)
		return drive.ByteSize(size), err
	}
	if err != nil {
		return 0, fmt.Errorf("stat content: %w", classify(err))
	}
	if !info.Mode().IsRegular() {
		return 0, drive.Fail(drive.NotFound)
	}
	return drive.ByteSize(info.Size()), nil
}

// Remove implements blob.Store. The removal is durable: content that came back after a power loss
// would be bytes that nobody can explain.
func (s *Store) Remove(ctx context.Context, name string) error {
	_, err := s.RemoveAll(context.WithoutCancel(ctx), []string{name})
	return err
}

// Free implements blob.Store.
func (s *Store) Free(context.Context) (drive.ByteSize, error) {
	return Free(s.d.root)
}

// Free returns how many bytes may still be written below a directory.
func Free(dir string) (drive.ByteSize, error) {
	n, err := freeBytes(dir)
	if err != nil {
		return 0, fmt.Errorf("free space: %w", err)
	}
	return drive.ByteSize(n), nil
}
