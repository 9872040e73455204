package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/blob/local/pack"
)

// packed is how packs see the directory of the contents.
type packed struct{ d *Dir }

var _ pack.Disk = packed{}

// Place implements pack.Disk.
func (p packed) Place(shard, name string) string {
	return filepath.Join(p.d.root, blobsDir, shard, name)
}

// MakeDir implements pack.Disk.
func (p packed) MakeDir(path string) error { return p.d.makeShard(path) }

// SyncName implements pack.Disk.
func (p packed) SyncName(f *os.File) error {
	if p.d.named {
		return nil
	}
	return p.d.syncShard(filepath.Dir(f.Name()))
}

// SyncData implements pack.Disk.
func (packed) SyncData(f *os.File) error { return syncData(f) }

// SyncFreed implements pack.Disk.
func (packed) SyncFreed(f *os.File) error { return f.Sync() }

// SyncDir implements pack.Disk.
func (p packed) SyncDir(dir string) error { return p.d.syncShard(dir) }

// Free implements pack.Disk.
func (packed) Free(f *os.File, off, n int64) error { return free(f, off, n) }

// Data implements pack.Disk.
func (packed) Data(f *os.File, off int64) (int64, error) { return nextData(f, off) }

// Name implements blob.Store.
func (s *Store) Name(own string, size drive.ByteSize) string {
	if !s.d.packing {
		return own
	}
	return s.d.packs.Name(own, int64(size))
}

// errThere refuses content whose name has some.
var errThere = errors.New("content of this name is there already")

// layInPack writes what the body yields to its slot. done is false where the slot is none of this
// process: another store has given the name, and it is that of a file here.
func (s *Store) layInPack(ctx context.Context, at blob.Slot, body blob.Body) (_ blob.Part, done bool, err error) {
	taken, ok := s.d.packs.Take(at)
	if !ok {
		return blob.Part{}, false, nil
	}
	defer taken.Done()
	buf := s.d.buffers.takeFrame()
	defer s.d.buffers.giveFrame(buf)
	n, part, err := blob.ReadLittle(ctx, body, buf[pack.HeadSize:])
	if err == nil {
		err = taken.Write(buf[:pack.HeadSize+n])
	}
	if err != nil {
		return blob.Part{}, true, err
	}
	return part, true, nil
}

// inSlot reports whether content of that name lies in a pack.
func (s *Store) inSlot(name string) bool {
	at, ok := blob.SlotOf(name)
	if !ok {
		return false
	}
	_, err := s.d.packs.Size(at)
	return err == nil
}

// openSlot opens what lies in a slot.
func (s *Store) openSlot(at blob.Slot) (blob.Object, error) {
	b, err := s.d.packs.Read(at)
	if err != nil {
		return nil, fmt.Errorf("open content: %w", err)
	}
	return blob.InMemory(b), nil // it may be removed while somebody reads it
}

// setAside writes what lies in a slot to a file, and frees the slot. That nothing lies there is no
// error.
func (s *Store) setAside(at blob.Slot, to func() (path string, err error)) error {
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

// Packed accesses the packs below a directory without opening it as a Dir, such as those of a
// backup. Write and Prune require that no Dir has the directory open.
type Packed struct{}

// Path returns the path of the pack that a content of that name lies in, if it lies in one; false:
// the name is none of such a content.
func (Packed) Path(root, name string) (string, bool) {
	at, ok := blob.SlotOf(name)
	if !ok {
		return "", false
	}
	shard, _ := blob.ShardOf(name)
	return filepath.Join(root, blobsDir, shard, at.Pack+pack.Suffix), true
}

// Read reads a content that lies in a pack. One that does not is NotFound.
func (p Packed) Read(root, name string) ([]byte, error) {
	path, ok := p.Path(root, name)
	if !ok {
		return nil, drive.Fail(drive.NotFound)
	}
	at, _ := blob.SlotOf(name)
	return pack.ReadFile(path, at)
}

// Write writes a content to the pack that its name tells of, whose directory must exist. It is
// durable when the caller has synced the file and its directory. NotFound: the name tells of no
// pack, or not of content of that size.
func (p Packed) Write(root, name string, content []byte) error {
	path, ok := p.Path(root, name)
	if !ok {
		return drive.Fail(drive.NotFound)
	}
	at, _ := blob.SlotOf(name)
	return pack.WriteFile(path, at, content)
}

// Prune frees the contents of the pack in that file of which keep says no, and removes a pack that
// has none any more. It returns how many were freed; false: the file is no pack.
func (Packed) Prune(ctx context.Context, root, file string, keep func(name string) bool) (freed int64, ok bool, err error) {
	name, ok := pack.NameOf(file)
	if !ok {
		return 0, false, nil
	}
	packs := pack.New(packed{&Dir{root: root}}, slog.Default())
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

// packOf returns the name of the pack that an entry of a shard is; false: it is none.
func packOf(shard string, e fs.DirEntry) (name string, ok bool) {
	name, ok = pack.NameOf(e.Name())
	in, _ := blob.ShardOf(name)
	return name, ok && in == shard && e.Type().IsRegular()
}
