package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/local/pack"
)

// packDisk lets package pack use the directory of the contents (pack.Disk).
type packDisk struct{ d *Dir }

var _ pack.Disk = packDisk{}

// Path returns the path of the file called name in a shard.
func (p packDisk) Path(shard, name string) string {
	return filepath.Join(p.d.root, blobsDir, shard, name)
}

// MakeDir durably makes the shard that path is in.
func (p packDisk) MakeDir(path string) error { return p.d.makeShard(path) }

// SyncName makes the name of a new file durable by syncing its shard directory. It does nothing on
// a file system where syncing the file covers its name.
func (p packDisk) SyncName(f *os.File) error {
	if p.d.syncCoversName {
		return nil
	}
	return p.d.syncShard(filepath.Dir(f.Name()))
}

// SyncData makes the bytes and length of a file durable.
func (packDisk) SyncData(f *os.File) error { return syncData(f) }

// SyncFreed makes freed ranges of a file durable, so that a crash does not bring their bytes back.
func (packDisk) SyncFreed(f *os.File) error { return f.Sync() }

// SyncDir makes the entries of a shard durable.
func (p packDisk) SyncDir(dir string) error { return p.d.syncShard(dir) }

// Free frees a range of a file, which then reads as zeros.
func (packDisk) Free(f *os.File, off, n int64) error { return free(f, off, n) }

// NextData returns the offset of the next bytes that may not be zeros, or io.EOF.
func (packDisk) NextData(f *os.File, off int64) (int64, error) { return nextData(f, off) }

// ReserveName reserves a slot for new content if it is small and packs are used; else it returns
// own (blob.Store).
func (s *Store) ReserveName(own string, size drive.ByteSize) string {
	if !s.d.usePacks {
		return own
	}
	return s.d.packs.ReserveName(own, int64(size))
}

// errExists reports that content of this name exists.
var errExists = errors.New("content of this name is there already")

// putInPack writes the body to its slot. done is false if this process has not given out the slot:
// the name comes from another store, and the content becomes a file.
func (s *Store) putInPack(ctx context.Context, at blob.Slot, body blob.Body) (_ blob.Part, done bool, err error) {
	taken, ok := s.d.packs.OpenSlot(at)
	if !ok {
		return blob.Part{}, false, nil
	}
	defer taken.Close()
	buf := s.d.buffers.getFrame()
	defer s.d.buffers.putFrame(buf)
	n, part, err := blob.ReadSmall(ctx, body, buf[pack.HeaderSize:])
	if err == nil {
		err = taken.Write(buf[:pack.HeaderSize+n])
	}
	if err != nil {
		return blob.Part{}, true, err
	}
	return part, true, nil
}

// isPacked reports whether a slot of a pack contains content called name; false if the name is not
// that of a slot or the pack cannot be read.
func (s *Store) isPacked(name string) bool {
	at, ok := blob.SlotOf(name)
	if !ok {
		return false
	}
	_, err := s.d.packs.Size(at)
	return err == nil
}

// openSlot reads the content of a slot into memory and returns it as an Object, damaged or not. It
// fails with NotFound if the slot is empty or the pack is missing.
func (s *Store) openSlot(at blob.Slot) (blob.Object, error) {
	b, err := s.d.packs.Read(at)
	if err != nil {
		return nil, fmt.Errorf("open content: %w", err)
	}
	return blob.MemoryObject(b), nil // the slot may be freed while the object is open
}

// quarantineSlot writes the content of a slot to a file at the path that to returns, and frees the
// slot. Missing content is not an error.
func (s *Store) quarantineSlot(at blob.Slot, to func() (path string, err error)) error {
	b, err := s.d.packs.Read(at)
	if drive.IsKind(err, drive.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	path, err := to()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	if err := syncDirs(filepath.Dir(path), filepath.Dir(filepath.Dir(path))); err != nil {
		return err
	}
	_, _, err = s.d.packs.Remove([]blob.Slot{at})
	return err
}

// PackFiles accesses the packs below a directory that is not opened as a Dir, such as those of a
// backup. Write and Prune require that no Dir has the directory open.
type PackFiles struct{}

// Path returns the path of the pack that contains the content called name; false if such content is
// not in a pack.
func (PackFiles) Path(root, name string) (string, bool) {
	at, ok := blob.SlotOf(name)
	if !ok {
		return "", false
	}
	shard, _ := blob.ShardOf(name)
	return filepath.Join(root, blobsDir, shard, at.Pack+pack.Suffix), true
}

// Read returns content from its pack; NotFound if it is not in a pack.
func (p PackFiles) Read(root, name string) ([]byte, error) {
	path, ok := p.Path(root, name)
	if !ok {
		return nil, drive.Fail(drive.NotFound)
	}
	at, _ := blob.SlotOf(name)
	return pack.ReadFile(path, at)
}

// Write writes content to the pack that its name determines. The pack's directory must exist. The
// caller must sync the file and its directory. It returns NotFound if name is not that of a slot,
// or of a slot of another size.
func (p PackFiles) Write(root, name string, content []byte) error {
	path, ok := p.Path(root, name)
	if !ok {
		return drive.Fail(drive.NotFound)
	}
	at, _ := blob.SlotOf(name)
	return pack.WriteFile(path, at, content)
}

// Prune frees the contents for which keep returns false from a pack below root, and removes an
// empty pack. file is the base name of the pack. It returns the number of freed contents; ok is
// false if file is not a pack.
func (PackFiles) Prune(ctx context.Context, root, file string, keep func(name string) bool) (freed int64, ok bool, err error) {
	name, ok := pack.NameOfFile(file)
	if !ok {
		return 0, false, nil
	}
	packs := pack.New(packDisk{&Dir{root: root}}, slog.Default())
	var drop []blob.Slot
	err = packs.Each(ctx, name, func(at blob.Slot, _ int64) error {
		if !keep(at.Name()) {
			drop = append(drop, at)
		}
		return nil
	})
	if err == nil {
		var gone []blob.Slot
		gone, _, err = packs.Remove(drop)
		freed = int64(len(gone))
	}
	return freed, true, errors.Join(err, packs.Close())
}

// packName returns the name of the pack that an entry of a shard is; ok is false if it is none.
func packName(shard string, e fs.DirEntry) (name string, ok bool) {
	name, ok = pack.NameOfFile(e.Name())
	in, _ := blob.ShardOf(name)
	return name, ok && in == shard && e.Type().IsRegular()
}
