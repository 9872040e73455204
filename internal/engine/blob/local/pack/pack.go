package pack

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/google/uuid"

	"example.org/smartdrive/internal/base/wholesync"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/slothead"
)

// Disk is the file system that packs are stored on.
type Disk interface {
	// Path returns the path of the file called name in a shard.
	Path(shard, name string) string
	// MakeDir durably makes the parent directory of path.
	MakeDir(path string) error
	// SyncName makes the name of a new file durable, unless SyncData does that.
	SyncName(f *os.File) error
	// SyncData makes the bytes and length of a file durable.
	SyncData(f *os.File) error
	// SyncFreed makes earlier calls of Free durable.
	SyncFreed(f *os.File) error
	// SyncDir makes the entries of a directory durable.
	SyncDir(dir string) error
	// Free frees n bytes at off; they read as zeros.
	Free(f *os.File, off, n int64) error
	// NextData returns the offset of the next bytes from off on that may not be zeros, or io.EOF.
	NextData(f *os.File, off int64) (int64, error)
}

// Packs manages the packs of a directory. It is safe for concurrent use.
type Packs struct {
	disk      Disk
	log       *slog.Logger
	maxBlocks int64                                              // maximum blocks of a pack
	readAt    func(f *os.File, b []byte, off int64) (int, error) // (*os.File).ReadAt, or a fault in tests
	ends      sync.WaitGroup                                     // running calls of end
	readers   readers

	mu      sync.Mutex       // guards the fields below and those of each pack
	current *pack            // the pack that accepts contents; nil: none
	open    map[string]*pack // packs that are not durable, by name
}

// pack is a pack being written, or waiting for its last sync.
type pack struct {
	name, path string
	id         uuid.UUID

	fileMu sync.Mutex       // held across I/O while the file is created, synced or closed
	syncs  wholesync.Shared // syncs of the file, shared by concurrent callers

	// Guarded by Packs.mu.
	next     int64          // first free block
	reserved map[int64]bool // slots that are reserved and have no content yet, by first block
	writing  int            // number of slots being written
	full     bool           // no more slots are reserved
	file     *os.File       // nil: not created yet, or closed
	err      error          // error of a sync: contents may not be durable, whatever a later sync returns
}

// New returns the Packs of a directory.
func New(disk Disk, log *slog.Logger) *Packs {
	return &Packs{disk: disk, log: log, maxBlocks: maxBlocks, readAt: (*os.File).ReadAt, open: map[string]*pack{}, readers: readers{files: map[string]*reader{}}}
}

// Close syncs all open packs, waits for syncs in the background, and closes the files. It returns
// their errors joined. No other method may be running or called later.
func (p *Packs) Close() error {
	p.mu.Lock()
	p.current = nil
	var left []*pack
	for _, k := range p.open {
		k.full = true
		clear(k.reserved)
		left = append(left, k)
	}
	p.mu.Unlock()
	p.ends.Wait()
	var errs []error
	for _, k := range left {
		errs = append(errs, p.end(k))
	}
	p.ends.Wait() // a sync may have failed just now
	p.readers.close()
	return errors.Join(errs...)
}

// ReserveName reserves a slot for content of size bytes and returns its name. It returns own, which
// no other content may use, if the content is too large. If the result is a slot, the caller must
// OpenSlot it; until then the pack stays open.
func (p *Packs) ReserveName(own string, size int64) string {
	id, err := slothead.PackID(own)
	if size < 0 || size > MaxContent || err != nil {
		return own
	}
	n := blocksFor(int(size))
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := p.current; k != nil && (k.full || k.next+n > p.maxBlocks) {
		k.full, p.current = true, nil
		p.endIfDoneLocked(k)
	}
	if p.current == nil {
		p.current = &pack{name: own, path: p.path(own), id: id, reserved: map[int64]bool{}}
		p.open[own] = p.current
	}
	k := p.current
	at := blob.Slot{Pack: k.name, First: k.next, Blocks: n}
	k.next += n
	k.reserved[at.First] = true
	return at.Name()
}

// path returns the path of a pack's file.
func (p *Packs) path(name string) string {
	shard, _ := blob.ShardOf(name)
	return p.disk.Path(shard, name+Suffix)
}

// SlotWriter is a slot that the caller is writing.
type SlotWriter struct {
	p  *Packs
	k  *pack     // the pack of the slot
	at blob.Slot // the slot being written
}

// OpenSlot begins to write a slot. It returns false if ReserveName has not reserved the slot or it
// was taken before. The caller must call Close.
func (p *Packs) OpenSlot(at blob.Slot) (*SlotWriter, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.open[at.Pack]
	if k == nil || !k.reserved[at.First] {
		return nil, false
	}
	delete(k.reserved, at.First)
	k.writing++
	return &SlotWriter{p, k, at}, true
}

// Close ends the writing of the slot; it must be called once. If the pack is full and this was its
// last writer, the pack is synced and closed in the background.
func (t *SlotWriter) Close() {
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	t.k.writing--
	t.p.endIfDoneLocked(t.k)
}

// Write puts the header into the first HeaderSize bytes of b, which the caller leaves free before
// the content, and writes b to the slot; the content may be lost until Packs.Sync with the slot's
// name has returned nil. It fails if the content does not take exactly the reserved blocks, on a
// disk error, and after a failed sync of the pack; it has then freed what it wrote, unless its
// error includes one of Disk.Free. The caller must call Close in either case.
func (t *SlotWriter) Write(b []byte) error {
	if blocksFor(len(b)-HeaderSize) != t.at.Blocks {
		return fmt.Errorf("content of %d bytes in a slot of %d blocks", len(b)-HeaderSize, t.at.Blocks)
	}
	f, err := t.p.fileOf(t.k)
	if err != nil {
		return err
	}
	slothead.PutHeader(b, t.k.id, t.at.First)
	if _, err := f.WriteAt(b, t.at.First*Block); err != nil {
		return errors.Join(err, t.p.disk.Free(f, t.at.First*Block, t.at.Blocks*Block))
	}
	return nil
}

// fileOf returns the file of a pack. On the first call it creates the file with a durable name; if
// that fails, nothing remains. Concurrent calls create it once.
func (p *Packs) fileOf(k *pack) (*os.File, error) {
	if f, err := p.file(k); f != nil || err != nil { // without the lock that a running sync holds
		return f, err
	}
	k.fileMu.Lock()
	defer k.fileMu.Unlock()
	if f, err := p.file(k); f != nil || err != nil {
		return f, err
	}
	if err := p.disk.MakeDir(k.path); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(k.path, os.O_CREATE|os.O_EXCL|os.O_RDWR, fileMode)
	if err != nil {
		return nil, err
	}
	if err := p.disk.SyncName(f); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(k.path))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	k.file = f
	return f, nil
}

// file returns the file of a pack, nil if it is not created yet, and the error of its failed sync,
// after which the pack accepts no contents.
func (p *Packs) file(k *pack) (*os.File, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return k.file, k.err
}

// fileMode is the mode of a pack's file.
const fileMode = 0o600

// Sync makes the contents called names durable by syncing their packs, one sync per pack. rest are
// the names that are in no open pack: their pack is full and durable, or they are files of their
// own, which the caller syncs. On an error nothing is known about any of them.
func (p *Packs) Sync(names []string) (rest []string, err error) {
	var packs []*pack
	p.mu.Lock()
	for _, name := range names {
		at, _ := blob.SlotOf(name)
		k := p.open[at.Pack]
		switch {
		case k == nil:
			rest = append(rest, name)
		case len(packs) == 0 || packs[len(packs)-1] != k: // names of one pack are mostly consecutive
			packs = append(packs, k)
		}
	}
	p.mu.Unlock()
	for _, k := range packs {
		if err := p.sync(k); err != nil {
			return nil, err
		}
	}
	return rest, nil
}

// sync syncs a pack. Concurrent callers share the next sync. A failure makes the pack full and its
// error permanent.
func (p *Packs) sync(k *pack) error {
	return k.syncs.Do(func() error {
		k.fileMu.Lock()
		defer k.fileMu.Unlock()
		f, err := p.file(k)
		if f == nil || err != nil { // empty, or closed and durable
			return err
		}
		if err = p.disk.SyncData(f); err != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			k.err, k.full = err, true // ReserveName begins another pack
			p.endIfDoneLocked(k)
		}
		return err
	})
}

// endIfDoneLocked starts to sync and close a full pack in the background if it has no more writers
// and no reserved slots; else it does nothing. A failed sync is logged. The caller holds p.mu.
func (p *Packs) endIfDoneLocked(k *pack) {
	ended := p.open[k.name] != k || k.err != nil && k.file == nil
	if !k.full || k.writing > 0 || len(k.reserved) > 0 || ended {
		return
	}
	p.ends.Go(func() {
		if err := p.end(k); err != nil {
			p.log.Error("sync of a pack failed; its small files may be lost in a power failure: check the disk", "pack", k.name, "error", err)
		}
	})
}

// end syncs and closes a pack without writers, and removes its file if it contains only zeros. If
// the sync fails, the pack stays in p.open while it has contents, so that they are not taken for
// durable.
func (p *Packs) end(k *pack) error {
	err := p.sync(k)
	k.fileMu.Lock()
	defer k.fileMu.Unlock()
	p.mu.Lock()
	f := k.file
	k.file = nil
	if err == nil {
		delete(p.open, k.name)
	} else {
		k.err = err // also after a sync that panicked
	}
	p.mu.Unlock()
	if f == nil {
		return err
	}
	return errors.Join(err, f.Close(), p.removeEmpty(k.name, k.path))
}

// removeEmpty durably removes the file of a pack that contains only zeros and has no writers; else,
// or if the file is missing, it does nothing and returns nil.
func (p *Packs) removeEmpty(name, path string) error {
	p.mu.Lock()
	k := p.open[name]
	written := k != nil && (k.err == nil || k.file != nil)
	p.mu.Unlock()
	if written {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return ignoreNotExist(err)
	}
	empty, err := p.onlyZeros(f)
	if err = errors.Join(err, f.Close()); err != nil || !empty {
		return err
	}
	p.readers.evict(path)
	if err := ignoreNotExist(os.Remove(path)); err != nil {
		return err
	}
	if k != nil {
		p.mu.Lock()
		delete(p.open, name)
		p.mu.Unlock()
	}
	return p.disk.SyncDir(filepath.Dir(path))
}
