package pack

import (
	"errors"
	"io"
	"os"
	"sync"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/blob/slothead"
)

// Read returns the content of a slot; one that has none is NotFound. Nothing is said about whether
// the bytes are those that were written: who knows their digest finds out.
func (p *Packs) Read(at blob.Slot) ([]byte, error) {
	r, err := p.reader(at.Pack)
	if err != nil {
		return nil, err
	}
	defer p.readers.release(r)
	return read(r.file, at)
}

// ReadFile is Read without Packs: of a pack whose file has that path.
func ReadFile(path string, at blob.Slot) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, notFound(err)
	}
	b, err := read(f, at)
	return b, errors.Join(err, f.Close())
}

// WriteFile writes content to a slot of the pack whose file has that path, and makes the file if it
// is missing. Nobody else may write to it. NotFound: the slot is none for content of that size.
func WriteFile(path string, at blob.Slot, content []byte) error {
	id, err := slothead.IDOf(at.Pack)
	if err != nil || len(content) > MaxContent || blocksFor(len(content)) != at.Blocks {
		return drive.Wrap(err, drive.NotFound)
	}
	b := make([]byte, at.Blocks*Block) // with zeros behind the content, where a damaged one may have others
	copy(b[HeadSize:], content)
	slothead.Seal(b[:HeadSize+len(content)], id, at.First)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, fileMode)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, at.First*Block)
	return errors.Join(err, f.Close())
}

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
		end := min(HeadSize+h.Size, n) // of a pack that was cut off it has what is there
		if again || digest.CRC32C(b[HeadSize:end]) == h.CRC {
			return b[HeadSize:end:end], nil
		}
		// Its bytes are not what was written, or it is being removed: then its head goes, too.
	}
}

// headIn reads the head of a slot from its first bytes.
func headIn(b []byte, at blob.Slot) (slothead.Head, error) {
	id, err := slothead.IDOf(at.Pack)
	if err != nil {
		return slothead.Head{}, drive.Wrap(err, drive.NotFound)
	}
	h, ok, err := readHead(b, id, at.First)
	if err == nil && (!ok || blocksFor(h.Size) != at.Blocks) {
		err = drive.Fail(drive.NotFound)
	}
	return h, err
}

// Size returns the size of a slot's content in bytes; one that has none is NotFound.
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

// sizeIn returns how many bytes of a content a file has: not all where it was cut off.
func sizeIn(f *os.File, first int64, h slothead.Head) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return min(int64(h.Size), max(0, info.Size()-first*Block-HeadSize)), nil
}

func headOf(f *os.File, at blob.Slot) (slothead.Head, error) {
	var b [HeadSize]byte
	n, err := f.ReadAt(b[:], at.First*Block)
	if err != nil && !isEOF(err) {
		return slothead.Head{}, err
	}
	return headIn(b[:n], at)
}

func (p *Packs) reader(name string) (*reader, error) {
	if _, err := slothead.IDOf(name); err != nil {
		return nil, drive.Wrap(err, drive.NotFound)
	}
	r, err := p.readers.get(p.path(name))
	return r, notFound(err)
}

// notFound tells a file that is not there from one that cannot be opened.
func notFound(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return drive.Wrap(err, drive.NotFound)
	}
	return err
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) }

func unlessGone(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// mostReaders is how many files of packs stay open because somebody has read from them.
const mostReaders = 32

// readers are open files of packs.
type readers struct {
	mu    sync.Mutex
	files map[string]*reader // by path
	ticks int64
}

// reader is one; it is closed when it has left files and nobody uses it.
type reader struct {
	file  *os.File
	path  string
	users int
	used  int64 // when it was asked for last
	left  bool
}

func (r *readers) get(path string) (*reader, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ticks++
	f := r.files[path]
	if f == nil {
		file, err := os.Open(path) // under the lock: it is done once for hundreds of contents
		if err != nil {
			return nil, err
		}
		f = &reader{file: file, path: path}
		r.files[path] = f
		if len(r.files) > mostReaders {
			r.leaveLocked(r.oldestLocked(f))
		}
	}
	f.users++
	f.used = r.ticks
	return f, nil
}

func (r *readers) oldestLocked(but *reader) (oldest *reader) {
	for _, f := range r.files {
		if f != but && (oldest == nil || f.used < oldest.used) {
			oldest = f
		}
	}
	return oldest
}

func (r *readers) release(f *reader) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.users--
	f.closeIfLeft()
}

// forget lets go of the file of a pack that is removed.
func (r *readers) forget(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.files[path]; f != nil {
		r.leaveLocked(f)
	}
}

func (r *readers) leaveLocked(f *reader) {
	delete(r.files, f.path)
	f.left = true
	f.closeIfLeft()
}

func (f *reader) closeIfLeft() {
	if f.left && f.users == 0 {
		_ = f.file.Close() // it was read only
	}
}

func (r *readers) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, f := range r.files {
		r.leaveLocked(f)
	}
}
