package pack

import (
	"errors"
	"io"
	"os"
	"sync"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/slothead"
)

// Read returns the content of a slot, or NotFound if it has none. The bytes may be damaged; a
// caller that knows the digest detects that.
func (p *Packs) Read(at blob.Slot) ([]byte, error) {
	r, err := p.reader(at.Pack)
	if err != nil {
		return nil, err
	}
	defer p.readers.release(r)
	return read(r.file, at)
}

// ReadFile reads the content of a slot from the pack with that path; content whose checksum does
// not match is returned as it is. It fails with NotFound if the file does not exist.
func ReadFile(path string, at blob.Slot) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, notFound(err)
	}
	b, err := read(f, at)
	return b, errors.Join(err, f.Close())
}

// WriteFile writes content to a slot of the pack with that path, which it creates if missing,
// without a sync. No other process may write to the file. It returns NotFound if the slot does not
// fit the content.
func WriteFile(path string, at blob.Slot, content []byte) error {
	id, err := slothead.PackID(at.Pack)
	if err != nil || len(content) > MaxContent || blocksFor(len(content)) != at.Blocks {
		return drive.Wrap(err, drive.NotFound)
	}
	b := make([]byte, at.Blocks*Block) // zeros after the content overwrite the rest of a damaged one
	copy(b[HeaderSize:], content)
	slothead.PutHeader(b[:HeaderSize+len(content)], id, at.First)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, fileMode)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, at.First*Block)
	return errors.Join(err, f.Close())
}

// read returns the content of a slot. If the checksum does not match, it reads once more, because a
// concurrent removal would also have removed the header, and then returns the damaged bytes.
func read(f *os.File, at blob.Slot) ([]byte, error) {
	b := make([]byte, at.Blocks*Block)
	for again := false; ; again = true {
		n, err := f.ReadAt(b, at.First*Block)
		if err != nil && !isEOF(err) {
			return nil, err
		}
		h, err := headIn(b[:n], at)
		if err != nil {
			return nil, err
		}
		end := min(HeaderSize+h.Size, n) // a truncated pack has less
		if again || digest.CRC32C(b[HeaderSize:end]) == h.CRC {
			return b[HeaderSize:end:end], nil
		}
		// Damaged, or being removed; in the latter case the header disappears too.
	}
}

// headIn decodes the header of a slot from its first bytes; NotFound if it is not intact.
func headIn(b []byte, at blob.Slot) (slothead.Header, error) {
	id, err := slothead.PackID(at.Pack)
	if err != nil {
		return slothead.Header{}, drive.Wrap(err, drive.NotFound)
	}
	h, ok, err := readHead(b, id, at.First)
	if err == nil && (!ok || blocksFor(h.Size) != at.Blocks) {
		err = drive.Fail(drive.NotFound)
	}
	return h, err
}

// Size returns the size of a slot's content in bytes, or NotFound if it has none.
func (p *Packs) Size(at blob.Slot) (int64, error) {
	r, err := p.reader(at.Pack)
	if err != nil {
		return 0, err
	}
	defer p.readers.release(r)
	h, err := headOf(r.file, at)
	if err != nil {
		return 0, err
	}
	return sizeIn(r.file, at.First, h)
}

// sizeIn returns how many bytes of a content the file contains: fewer than h.Size if the file was
// truncated.
func sizeIn(f *os.File, first int64, h slothead.Header) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return min(int64(h.Size), max(0, info.Size()-first*Block-HeaderSize)), nil
}

// headOf reads the header of a slot. It fails with NotFound if the header is not intact or belongs
// to another slot.
func headOf(f *os.File, at blob.Slot) (slothead.Header, error) {
	var b [HeaderSize]byte
	n, err := f.ReadAt(b[:], at.First*Block)
	if err != nil && !isEOF(err) {
		return slothead.Header{}, err
	}
	return headIn(b[:n], at)
}

// reader returns an open file of a pack; NotFound if the pack is missing. The caller calls
// readers.release.
func (p *Packs) reader(name string) (*reader, error) {
	if _, err := slothead.PackID(name); err != nil {
		return nil, drive.Wrap(err, drive.NotFound)
	}
	r, err := p.readers.get(p.path(name))
	return r, notFound(err)
}

// notFound returns err, wrapped as NotFound if it says that a file does not exist; nil stays nil.
func notFound(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return drive.Wrap(err, drive.NotFound)
	}
	return err
}

// isEOF reports whether err is io.EOF.
func isEOF(err error) bool { return errors.Is(err, io.EOF) }

// ignoreNotExist returns err, or nil for a missing file.
func ignoreNotExist(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// maxReaders is the number of pack files kept open for reading.
const maxReaders = 32

// readers caches open files of packs, least recently used first out.
type readers struct {
	mu    sync.Mutex
	files map[string]*reader // by path
	ticks int64              // counts calls of get
}

// reader is an open file of a pack. It is closed when it has left the cache and has no users.
type reader struct {
	file    *os.File
	path    string
	users   int   // calls that use it
	lastUse int64 // tick of the last use
	evicted bool  // not in the cache any more
}

// get returns the open file at path, from the cache or opened now, and counts the caller as a user
// of it; the caller must call release exactly once. It may evict the least recently used file,
// which is closed when its last user has released it.
func (r *readers) get(path string) (*reader, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ticks++
	f := r.files[path]
	if f == nil {
		file, err := os.Open(path) // under the lock, once per hundreds of contents
		if err != nil {
			return nil, err
		}
		f = &reader{file: file, path: path}
		r.files[path] = f
		if len(r.files) > maxReaders {
			r.evictLocked(r.oldestLocked(f))
		}
	}
	f.users++
	f.lastUse = r.ticks
	return f, nil
}

// oldestLocked returns the least recently used file other than but; nil if there is none. The
// caller holds r.mu.
func (r *readers) oldestLocked(but *reader) (oldest *reader) {
	for _, f := range r.files {
		if f != but && (oldest == nil || f.lastUse < oldest.lastUse) {
			oldest = f
		}
	}
	return oldest
}

// release ends one use of f. If f was evicted and this was its last use, its file is closed.
func (r *readers) release(f *reader) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.users--
	f.closeIfUnused()
}

// evict removes the file at path from the cache and closes it once its last user has called
// release.
func (r *readers) evict(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.files[path]; f != nil {
		r.evictLocked(f)
	}
}

// evictLocked removes f from the cache and closes it once it has no users. The caller holds r.mu.
func (r *readers) evictLocked(f *reader) {
	delete(r.files, f.path)
	f.evicted = true
	f.closeIfUnused()
}

// closeIfUnused closes the file if it was evicted and has no users. The caller holds the mutex of
// the readers.
func (f *reader) closeIfUnused() {
	if f.evicted && f.users == 0 {
		_ = f.file.Close() // opened for reading only
	}
}

// close evicts all files.
func (r *readers) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.files {
		r.evictLocked(f)
	}
}
