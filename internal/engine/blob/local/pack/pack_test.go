package pack

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/testkit/depth"
)

// disk is a directory that records what was synced.
type disk struct {
	t   *testing.T
	dir string

	mu     sync.Mutex
	synced map[string][]byte // by path: what a file has for certain
	named  map[string]bool   // files whose name is durable
	fails  func() bool       // nil: nothing does
	gaps   map[string]bool   // files that have lost something: the disk tells of it once
}

func newDisk(t *testing.T) *disk {
	return &disk{t: t, dir: t.TempDir(), synced: map[string][]byte{}, named: map[string]bool{}, gaps: map[string]bool{}}
}

var errDisk = errors.New("the disk has failed")

func (d *disk) Path(shard, name string) string { return filepath.Join(d.dir, shard, name) }

func (d *disk) MakeDir(path string) error { return os.MkdirAll(filepath.Dir(path), 0o700) }

func (d *disk) SyncName(f *os.File) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fails != nil && d.fails() {
		return errDisk
	}
	d.named[f.Name()] = true
	return nil
}

// SyncData records the content of the file as durable, unless the disk has failed before.
func (d *disk) SyncData(f *os.File) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fails != nil && d.fails() {
		d.gaps[f.Name()] = true
		return errDisk
	}
	now, err := readAll(f)
	if err == nil && !d.gaps[f.Name()] {
		d.synced[f.Name()] = now
	}
	return err
}

// SyncFreed removes the freed ranges from the durable content.
func (d *disk) SyncFreed(f *os.File) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fails != nil && d.fails() {
		return errDisk
	}
	now, err := readAll(f)
	was := d.synced[f.Name()]
	for at := 0; at < len(was); at += Block {
		if at >= len(now) || allZero(now[at:min(at+Block, len(now))]) {
			clear(was[at:min(at+Block, len(was))])
		}
	}
	return err
}

// readAll returns the content of an open file, even if it was removed.
func readAll(f *os.File) ([]byte, error) { return io.ReadAll(io.NewSectionReader(f, 0, 1<<40)) }

func allZero(b []byte) bool { return !bytes.ContainsFunc(b, func(r rune) bool { return r != 0 }) }

func (d *disk) SyncDir(string) error { return nil }

func (d *disk) Free(f *os.File, off, n int64) error {
	_, err := f.WriteAt(make([]byte, n), off)
	return err
}

// NextData returns the next offset block by block.
func (d *disk) NextData(f *os.File, off int64) (int64, error) {
	b, err := readAll(f)
	if err != nil {
		return 0, err
	}
	for ; off < int64(len(b)); off += Block {
		if !allZero(b[off:min(off+Block, int64(len(b)))]) {
			return off, nil
		}
	}
	return 0, io.EOF
}

func (d *disk) open() *Packs {
	p := New(d, slog.New(slog.DiscardHandler))
	p.maxBlocks = 40
	return p
}

// powerLoss returns the disk after a power loss: any unsynced sectors may have been written, and a
// file with an unsynced name may be missing.
func (d *disk) powerLoss(rng *rand.Rand) *disk {
	after := newDisk(d.t)
	d.mu.Lock()
	defer d.mu.Unlock()
	paths, err := filepath.Glob(filepath.Join(d.dir, "??", "*"))
	noError(d.t, err)
	for _, path := range paths {
		now, err := os.ReadFile(path)
		noError(d.t, err)
		was := d.synced[path]
		if !d.named[path] && rng.IntN(2) == 0 {
			continue
		}
		now = append(now, make([]byte, max(0, len(was)-len(now)))...)
		was = append(slices.Clone(was), make([]byte, max(0, len(now)-len(was)))...)
		const sector = 512
		for at := 0; at < len(now); at += sector {
			if end := min(at+sector, len(now)); rng.IntN(2) == 0 {
				copy(now[at:end], was[at:end])
			}
		}
		to := filepath.Join(after.dir, filepath.Base(filepath.Dir(path)), filepath.Base(path))
		noError(d.t, os.MkdirAll(filepath.Dir(to), 0o700))
		noError(d.t, os.WriteFile(to, now, 0o600))
	}
	return after
}

func own() string { return "put-7-" + drive.NewID[drive.UploadID]().String() }

// layContent writes content to a slot and returns its name.
func layContent(t *testing.T, p *Packs, content []byte) (string, error) {
	t.Helper()
	name := p.ReserveName(own(), int64(len(content)))
	taken, ok := p.OpenSlot(slot(t, name))
	if !ok {
		t.Fatalf("%s is not to be had", name)
	}
	defer taken.Close()
	return name, taken.Write(append(make([]byte, HeaderSize), content...))
}

func slot(t *testing.T, name string) blob.Slot {
	t.Helper()
	at, ok := blob.SlotOf(name)
	if !ok {
		t.Fatalf("%q is no name of a slot", name)
	}
	return at
}

func fill(rng *rand.Rand) []byte {
	b := make([]byte, rng.IntN(MaxContent+1))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestDiskFailureAtAnyCallLosesNothing injects failures and power losses: acknowledged contents
// exist, removed ones do not, and listed ones have the bytes that were written.
func TestDiskFailureAtAnyCallLosesNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(depth.Pick(30, 100, 3000)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng, faults := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
			d := newDisk(t)
			if seed%3 > 0 {
				d.fails = func() bool { return faults.IntN(12) == 0 }
			}
			p := d.open()
			written, stored, removed := map[string][]byte{}, map[string][]byte{}, map[string]bool{}
			var waiting []string
			for range 1 + rng.IntN(120) {
				switch rng.IntN(8) {
				case 0:
					for name := range stored {
						for range 2 { // who removes does it again
							if _, _, err := p.Remove([]blob.Slot{slot(t, name)}); err == nil {
								removed[name] = true
							}
						}
						delete(stored, name)
						break
					}
				case 1, 2:
					if rest, err := p.Sync(waiting); err == nil {
						for _, name := range waiting {
							stored[name] = written[name]
						}
						for _, name := range rest {
							if _, err := p.Size(slot(t, name)); err != nil {
								t.Errorf("%s is nowhere: %v", name, err)
							}
						}
					}
					waiting = nil
				case 3:
					if rng.IntN(4) == 0 && len(waiting) == 0 {
						_ = p.Close()
						p = d.open()
					}
				default:
					b := fill(rng)
					name, err := layContent(t, p, b)
					written[name] = b
					if err == nil {
						waiting = append(waiting, name)
					}
				}
			}
			d.checkContents(p, stored, written, removed)
			after := d.powerLoss(rng)
			q := after.open()
			after.checkContents(q, stored, written, removed)
			noError(t, q.Close())
			_ = p.Close()
		})
	}
}

// checkContents compares the stored contents with those that must and may exist.
func (d *disk) checkContents(p *Packs, stored, written map[string][]byte, removed map[string]bool) {
	d.t.Helper()
	for name, want := range stored {
		if got, err := p.Read(slot(d.t, name)); err != nil || !bytes.Equal(got, want) {
			d.t.Errorf("%s has %d bytes, %v, and not %d", name, len(got), err, len(want))
		}
	}
	for name := range removed {
		if _, err := p.Read(slot(d.t, name)); !drive.IsKind(err, drive.NotFound) {
			d.t.Errorf("%s was removed: %v", name, err)
		}
	}
	shown := map[string]bool{}
	paths, err := filepath.Glob(filepath.Join(d.dir, "??", "*"))
	noError(d.t, err)
	for _, path := range paths {
		name, ok := NameOfFile(filepath.Base(path))
		if !ok {
			d.t.Fatalf("%s is no pack", path)
		}
		noError(d.t, p.Each(d.t.Context(), name, func(at blob.Slot, size int64) error {
			shown[at.Name()] = true
			if b, ok := written[at.Name()]; !ok || int64(len(b)) != size || removed[at.Name()] {
				d.t.Errorf("%s of %d bytes is shown", at.Name(), size)
			}
			return nil
		}))
	}
	for name := range stored {
		if !shown[name] {
			d.t.Errorf("%s is not shown", name)
		}
	}
}

// TestConcurrentOperations lays, syncs, reads and removes concurrently; no file may be left or
// open.
func TestConcurrentOperations(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	p := d.open()
	var writers sync.WaitGroup
	for writer := range uint64(16) {
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(writer, 3))
			for range depth.Pick(10, 40, 200) {
				has := map[string][]byte{}
				for range 1 + rng.IntN(5) {
					b := fill(rng)
					name, err := layContent(t, p, b)
					if err != nil {
						t.Error(err)
						return
					}
					has[name] = b
				}
				if _, err := p.Sync(slices.Collect(maps.Keys(has))); err != nil {
					t.Error(err)
				}
				packs := map[string][]blob.Slot{}
				for name, want := range has {
					at := slot(t, name)
					packs[at.Pack] = append(packs[at.Pack], at)
					if got, err := p.Read(at); err != nil || !bytes.Equal(got, want) {
						t.Errorf("%s: %d bytes, %v", name, len(got), err)
					}
				}
				for _, slots := range packs {
					if _, missing, err := p.Remove(slots); err != nil || len(missing) > 0 {
						t.Errorf("removed but %v, %v", missing, err)
					}
				}
			}
		})
	}
	writers.Wait()
	noError(t, p.Close())
	left, err := filepath.Glob(filepath.Join(d.dir, "??", "*"))
	if err != nil || len(left) > 0 || len(p.open) > 0 || len(p.readers.files) > 0 {
		t.Errorf("left are %v, %v; open are %v and %v", left, err, p.open, p.readers.files)
	}
}

// TestReadDuringRemoveReturnsAllOrNotFound reads contents that are being removed.
func TestReadDuringRemoveReturnsAllOrNotFound(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	p := d.open()
	want := bytes.Repeat([]byte("x"), MaxContent)
	for range depth.Pick(50, 200, 1000) {
		name, err := layContent(t, p, want)
		noError(t, err)
		var both sync.WaitGroup
		both.Go(func() {
			if got, err := p.Read(slot(t, name)); err != nil && !drive.IsKind(err, drive.NotFound) || err == nil && !bytes.Equal(got, want) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
		both.Go(func() {
			if _, _, err := p.Remove([]blob.Slot{slot(t, name)}); err != nil {
				t.Error(err)
			}
		})
		both.Wait()
	}
	noError(t, p.Close())
}

// TestFailedSyncIsPermanentForPack checks that no content of the pack becomes durable, and that new
// contents go to another pack.
func TestFailedSyncIsPermanentForPack(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	p := d.open()
	first, err := layContent(t, p, []byte("first"))
	noError(t, err)
	d.fails = func() bool { return true }
	if _, err := p.Sync([]string{first}); !errors.Is(err, errDisk) {
		t.Errorf("settled: %v", err)
	}
	d.fails = nil
	if _, err := p.Sync([]string{first}); !errors.Is(err, errDisk) {
		t.Errorf("settled by a second sync, which knows nothing of it: %v", err)
	}
	second, err := layContent(t, p, []byte("second"))
	noError(t, err)
	if _, err := p.Sync([]string{second}); err != nil || slot(t, first).Pack == slot(t, second).Pack {
		t.Errorf("%s after %s: %v", second, first, err)
	}
	if _, missing, err := p.Remove([]blob.Slot{slot(t, first)}); err != nil || len(missing) > 0 {
		t.Errorf("what has failed cannot be removed: %v, %v", missing, err)
	}
}

// TestRemoveOfForeignSlotFreesNothing removes slots that were never reserved.
func TestRemoveOfForeignSlotFreesNothing(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	p := d.open()
	content := bytes.Repeat([]byte("x"), 5000)
	var names []string
	for range 3 {
		name, err := layContent(t, p, content)
		noError(t, err)
		names = append(names, name)
	}
	at := slot(t, names[0])
	for _, forged := range []blob.Slot{
		{Pack: at.Pack, First: 0, Blocks: 6},
		{Pack: at.Pack, First: 1, Blocks: 2},
		{Pack: at.Pack, First: 2, Blocks: 1},
		{Pack: at.Pack, First: 3, Blocks: 1},
		{Pack: at.Pack, First: 9, Blocks: 1},
		{Pack: at.Pack, First: 0xffff, Blocks: 15},
		{Pack: own(), First: 0, Blocks: 2},
		{Pack: "put-7-../../x", First: 0, Blocks: 2},
	} {
		if _, ok := p.OpenSlot(forged); ok {
			t.Errorf("%s can be written", forged.Name())
		}
		if _, err := p.Read(forged); !drive.IsKind(err, drive.NotFound) {
			t.Errorf("%s is read: %v", forged.Name(), err)
		}
		if _, err := p.Size(forged); !drive.IsKind(err, drive.NotFound) {
			t.Errorf("%s has a size: %v", forged.Name(), err)
		}
		if _, missing, err := p.Remove([]blob.Slot{forged}); err != nil || len(missing) != 1 {
			t.Errorf("%s is removed: %v, %v", forged.Name(), missing, err)
		}
	}
	for _, name := range names {
		if b, err := p.Read(slot(t, name)); err != nil || !bytes.Equal(b, content) {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
	for _, name := range []string{own(), "x", "put-7-" + at.Pack} {
		if got := p.ReserveName(name, MaxContent+1); got != name {
			t.Errorf("%s for what is too large", got)
		}
	}
	noError(t, p.Close())
}

// TestPackIsClosedAfterLastWriter checks that a reserved slot without a writer does not keep a pack
// open after Close, but a slot being written does.
func TestPackIsClosedAfterLastWriter(t *testing.T) {
	t.Parallel()
	d := newDisk(t)
	p := d.open()
	name := p.ReserveName(own(), 100)
	late, ok := p.OpenSlot(slot(t, name))
	if !ok {
		t.Fatal("not to be had")
	}
	for range 2 * 40 {
		_, err := layContent(t, p, []byte("others fill the pack"))
		noError(t, err)
	}
	noError(t, late.Write(append(make([]byte, HeaderSize), make([]byte, 100)...)))
	if rest, err := p.Sync([]string{name}); err != nil || len(rest) > 0 {
		t.Errorf("not settled: %v, %v", rest, err)
	}
	late.Close()
	p.ends.Wait()
	p.mu.Lock()
	if open := len(p.open); open > 1 {
		t.Errorf("%d packs are open", open)
	}
	p.mu.Unlock()
	if _, err := p.Read(slot(t, name)); err != nil {
		t.Error(err)
	}
	noError(t, p.Close())
}
