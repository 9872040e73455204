package pack

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"github.com/google/uuid"

	"smartdrive/internal/base/wholesync"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/blob/slothead"
)

// Disk is what packs lie on.
type Disk interface {
	// Place returns the path of a file of that name in the directory of its shard.
	Place(shard, name string) string
	// MakeDir makes the directory that a path needs, durably.
	MakeDir(path string) error
	// SyncName makes the name of a new file durable, as far as a sync of its bytes does not.
	SyncName(f *os.File) error
	// SyncData makes the bytes and the length of a file durable.
	SyncData(f *os.File) error
	// SyncFreed makes durable what Free has done to a file.
	SyncFreed(f *os.File) error
	// SyncDir makes the entries of a directory durable.
	SyncDir(dir string) error
	// Free gives n bytes at off back to the disk: zeros are read there.
	Free(f *os.File, off, n int64) error
	// Data returns where bytes are that may not be zeros, from off on: io.EOF where there are none
	// any more.
	Data(f *os.File, off int64) (int64, error)
}

// Packs are those of a directory. They are safe for concurrent use.
type Packs struct {
	disk    Disk
	log     *slog.Logger
	most    int64 // blocks of a pack
	readAt  func(f *os.File, b []byte, off int64) (int, error)
	ending  sync.WaitGroup
	readers readers

	mu      sync.Mutex // guards what follows, and what pack says
	current *pack      // takes contents; nil: none does
	open    map[string]*pack
}

// pack is one that is written to, or that waits for its last sync.
type pack struct {
	name, path string
	id         uuid.UUID

	handling sync.Mutex // held across I/O while the file is made, synced or closed
	syncing  wholesync.Shared

	// Guarded by Packs.mu.
	next    int64          // the first block that nobody has
	awaited map[int64]bool // slots that have a name and no content yet, by their first block
	writing int            // slots that somebody writes
	full    bool
	file    *os.File // nil: nothing was written, or nothing will be any more
	err     error    // of a sync: what the pack has may not be durable, whatever a later one says
}

// New returns the packs of a directory.
func New(disk Disk, log *slog.Logger) *Packs {
	return &Packs{disk: disk, log: log, most: maxBlocks, readAt: (*os.File).ReadAt, open: map[string]*pack{}, readers: readers{files: map[string]*reader{}}}
}

// Close makes what was written durable. No call may be in it any more.
func (p *Packs) Close() error {
	p.mu.Lock()
	p.current = nil
	var left []*pack
	for _, k := range p.open {
		k.full = true
		clear(k.awaited)
		left = append(left, k)
	}
	p.mu.Unlock()
	p.ending.Wait()
	var errs []error
	for _, k := range left {
		errs = append(errs, p.end(k))
	}
	p.ending.Wait() // a sync may have failed just now
	p.readers.close()
	return errors.Join(errs...)
}

// Name takes a slot for content of that size, and returns its name. own is one that nobody else
// uses; it is returned where the content is too large.
func (p *Packs) Name(own string, size int64) string {
	id, err := slothead.IDOf(own)
	if size < 0 || size > MaxContent || err != nil {
		return own
	}
	n := blocksFor(int(size))
	p.mu.Lock()
	defer p.mu.Unlock()
	if k := p.current; k != nil && (k.full || k.next+n > p.most) {
		k.full, p.current = true, nil
		p.endSoonLocked(k)
	}
	if p.current == nil {
		p.current = &pack{name: own, path: p.path(own), id: id, awaited: map[int64]bool{}}
		p.open[own] = p.current
	}
	k := p.current
	at := blob.Slot{Pack: k.name, First: k.next, Blocks: n}
	k.next += n
	k.awaited[at.First] = true
	return at.Name()
}

func (p *Packs) path(name string) string {
	shard, _ := blob.ShardOf(name)
	return p.disk.Place(shard, name+Suffix)
}

// Taken is a slot that its caller writes.
type Taken struct {
	p  *Packs
	k  *pack
	at blob.Slot
}

// Take begins to write the slot of that name; false: Name has not given it, or it was taken. Done
// must follow.
func (p *Packs) Take(at blob.Slot) (*Taken, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.open[at.Pack]
	if k == nil || !k.awaited[at.First] {
		return nil, false
	}
	delete(k.awaited, at.First)
	k.writing++
	return &Taken{p, k, at}, true
}

// Done ends what Take has begun.
func (t *Taken) Done() {
	t.p.mu.Lock()
	defer t.p.mu.Unlock()
	t.k.writing--
	t.p.endSoonLocked(t.k)
}

// Write writes content, which b has behind HeadSize bytes of room. It may be lost until a Sync. On
// an error nothing stays.
func (t *Taken) Write(b []byte) error {
	if blocksFor(len(b)-HeadSize) != t.at.Blocks {
		return fmt.Errorf("content of %d bytes in a slot of %d blocks", len(b)-HeadSize, t.at.Blocks)
	}
	f, err := t.p.fileOf(t.k)
	if err != nil {
		return err
	}
	slothead.Seal(b, t.k.id, t.at.First)
	if _, err := f.WriteAt(b, t.at.First*Block); err != nil {
		return errors.Join(err, t.p.disk.Free(f, t.at.First*Block, t.at.Blocks*Block))
	}
	return nil
}

// fileOf returns the file of a pack, and makes it for the first content.
func (p *Packs) fileOf(k *pack) (*os.File, error) {
	if f, err := p.made(k); f != nil || err != nil { // while others wait for a sync, too
		return f, err
	}
	k.handling.Lock()
	defer k.handling.Unlock()
	if f, err := p.made(k); f != nil || err != nil {
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

func (p *Packs) made(k *pack) (*os.File, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return k.file, k.err
}

const fileMode = 0o600

// Sync makes contents durable that were written. rest are those that lie in no pack of which this
// process knows: in one that is durable since it was full, or elsewhere.
func (p *Packs) Sync(names []string) (rest []string, err error) {
	var packs []*pack
	p.mu.Lock()
	for _, name := range names {
		at, _ := blob.SlotOf(name)
		k := p.open[at.Pack]
		switch {
		case k == nil:
			rest = append(rest, name)
		case len(packs) == 0 || packs[len(packs)-1] != k: // those of a pack follow each other, nearly always
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

func (p *Packs) sync(k *pack) error {
	return k.syncing.Do(func() error {
		k.handling.Lock()
		defer k.handling.Unlock()
		f, err := p.made(k)
		if f == nil || err != nil { // it has nothing, or all of it is durable
			return err
		}
		if err = p.disk.SyncData(f); err != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			k.err, k.full = err, true // so that Name takes another one
			p.endSoonLocked(k)
		}
		return err
	})
}

// endSoonLocked ends a pack that is full once nobody writes to it.
func (p *Packs) endSoonLocked(k *pack) {
	ended := p.open[k.name] != k || k.err != nil && k.file == nil
	if !k.full || k.writing > 0 || len(k.awaited) > 0 || ended {
		return
	}
	p.ending.Go(func() {
		if err := p.end(k); err != nil {
			p.log.Error("a pack of small contents could not be synced", "pack", k.name, "error", err)
		}
	})
}

// end makes all of a pack durable that nobody writes to any more, and closes it. One that cannot be
// synced stays known as long as it has something, so that nothing of it is taken for durable.
func (p *Packs) end(k *pack) error {
	err := p.sync(k)
	k.handling.Lock()
	defer k.handling.Unlock()
	p.mu.Lock()
	f := k.file
	k.file = nil
	if err == nil {
		delete(p.open, k.name)
	} else {
		k.err = err // also of a sync that has panicked
	}
	p.mu.Unlock()
	if f == nil {
		return err
	}
	return errors.Join(err, f.Close(), p.removeEmpty(k.name, k.path))
}

// removeEmpty removes the file of a pack that nobody writes to, if it has nothing.
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
		return unlessGone(err)
	}
	empty, err := p.onlyZeros(f)
	if err = errors.Join(err, f.Close()); err != nil || !empty {
		return err
	}
	p.readers.forget(path)
	if err := unlessGone(os.Remove(path)); err != nil {
		return err
	}
	if k != nil {
		p.mu.Lock()
		delete(p.open, name)
		p.mu.Unlock()
	}
	return p.disk.SyncDir(filepath.Dir(path))
}
