package pack

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/slothead"
	"example.org/smartdrive/internal/testkit/depth"
)

// bucket is an in-memory object store with faults.
type bucket struct {
	mu      sync.Mutex
	objects map[string][]byte
	written int64 // bytes
	deleted map[string][]byte

	fails  func() bool // asked before and after each request; nil: nothing fails
	before func()      // called before something is put or deleted; nil: nothing
	again  func()      // called before objects are found or read; nil: nothing
}

func newBucket() *bucket { return &bucket{objects: map[string][]byte{}, deleted: map[string][]byte{}} }

var errBucket = drive.Wrap(errors.New("the bucket has failed"), drive.Unavailable)

func (b *bucket) lost() bool { return b.fails != nil && b.fails() }

// Create implements Objects. If its reply is lost, its cleanup may fail too.
func (b *bucket) Create(_ context.Context, object string, content []byte) error {
	b.runOther(&b.before)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.objects[object] != nil || b.deleted[object] != nil {
		return errors.New("an object is put twice")
	}
	if b.lost() {
		return errBucket
	}
	b.objects[object] = slices.Clone(content)
	b.written += int64(len(content))
	if !b.lost() {
		return nil
	}
	if !b.lost() {
		delete(b.objects, object)
	}
	return errBucket
}

// runOther runs a function of another process, once.
func (b *bucket) runOther(what *func()) {
	b.mu.Lock()
	do := *what
	*what = nil
	b.mu.Unlock()
	if do != nil {
		do()
	}
}

// Read implements Objects.
func (b *bucket) Read(_ context.Context, object string, off, n int64) ([]byte, error) {
	b.runOther(&b.again)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost() {
		return nil, errBucket
	}
	content, there := b.objects[object]
	if !there {
		return nil, drive.Fail(drive.NotFound)
	}
	size := int64(len(content))
	return slices.Clone(content[min(off, size):min(off+n, size)]), nil
}

// Find implements Objects.
func (b *bucket) Find(_ context.Context, prefix string) (found []string, err error) {
	b.runOther(&b.again)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost() {
		return nil, errBucket
	}
	for _, object := range slices.Sorted(maps.Keys(b.objects)) {
		if strings.HasPrefix(object, prefix) {
			found = append(found, object)
		}
	}
	return found, nil
}

// Delete implements Objects.
func (b *bucket) Delete(_ context.Context, object string) error {
	b.runOther(&b.before)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost() {
		return errBucket
	}
	if content, there := b.objects[object]; there {
		b.deleted[object] = content
		delete(b.objects, object)
	}
	if b.lost() {
		return errBucket
	}
	return nil
}

// packs returns the packs that have objects, and their objects.
func (b *bucket) packs() map[string][]string {
	all := map[string][]string{}
	for _, object := range slices.Sorted(maps.Keys(b.objects)) {
		name, _ := NameOfObject(object)
		all[name] = append(all[name], object)
	}
	return all
}

// readAt reads content after locating its pack.
func readAt(ctx context.Context, p *Packs, at blob.Slot) ([]byte, bool, error) {
	b, whole, err := p.Read(ctx, at)
	if drive.IsKind(err, drive.NotFound) {
		if moved, locateErr := p.Locate(ctx, at.Pack); locateErr != nil || !moved {
			return nil, false, cmp.Or(locateErr, err)
		}
		return p.Read(ctx, at)
	}
	return b, whole, err
}

// reopen returns the Packs of another process.
func (b *bucket) reopen() *Packs {
	p := New(b)
	p.maxUnits = indexUnits + 200
	return p
}

func own() string { return "put-7-" + drive.NewID[drive.UploadID]().String() }

// layContent adds content to a pack and returns its name.
func layContent(t *testing.T, p *Packs, content []byte) string {
	t.Helper()
	name := p.ReserveName(own(), int64(len(content)))
	if ok, err := p.Add(slot(t, name), append(make([]byte, slothead.HeaderSize), content...)); !ok || err != nil {
		t.Fatalf("%s is not laid: %v", name, err)
	}
	return name
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
	b := make([]byte, rng.IntN(slothead.MaxContent/(1+rng.IntN(20))+1))
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

// model records what processes have done to a bucket.
type model struct {
	t       *testing.T
	b       *bucket
	rng     *rand.Rand
	p       []*Packs
	written map[string][]byte // whatever was laid
	waiting []map[string]bool // for each process: laid and not settled
	stored  map[string]bool   // settled, and nobody has tried to remove it
	removed map[string]bool
	faulty  bool
}

func (m *model) step() {
	i := m.rng.IntN(len(m.p))
	p, waiting := m.p[i], m.waiting[i]
	switch m.rng.IntN(10) {
	case 0, 1:
		names := slices.Sorted(maps.Keys(waiting))
		err := p.Sync(m.t.Context(), names)
		for _, name := range names {
			if err == nil {
				m.stored[name] = true
			} else {
				m.remove(p, []string{name})
			}
		}
		clear(waiting)
	case 2:
		some := m.sample(m.stored, 6)
		if m.rng.IntN(2) == 0 { // while another one does so, too
			other, more := m.p[1-i], m.sample(m.stored, 6)
			when := &m.b.before
			if m.rng.IntN(2) == 0 {
				when = &m.b.again
			}
			*when = func() { m.remove(other, more) }
		}
		m.remove(p, some)
		m.b.before, m.b.again = nil, nil
	case 3:
		some := m.sample(waiting, 2)
		m.remove(p, some)
		for _, name := range some {
			delete(waiting, name)
		}
	case 4:
		if m.rng.IntN(4) == 0 { // it dies, and all that it had in memory with it
			m.p[i] = m.b.reopen()
			clear(waiting)
		}
	default:
		b := fill(m.rng)
		name := layContent(m.t, p, b)
		m.written[name] = b
		waiting[name] = true
	}
}

// sample returns up to most consecutive names.
func (m *model) sample(from map[string]bool, most int) []string {
	names := slices.Sorted(maps.Keys(from))
	if len(names) == 0 {
		return nil
	}
	at := m.rng.IntN(len(names))
	return names[at:min(at+1+m.rng.IntN(most), len(names))]
}

// remove retries a removal, a limited number of times.
func (m *model) remove(p *Packs, names []string) {
	packs := map[string][]blob.Slot{}
	for _, name := range names {
		delete(m.stored, name)
		at := slot(m.t, name)
		packs[at.Pack] = append(packs[at.Pack], at)
	}
	for _, slots := range packs {
		for range 3 {
			if _, err := p.Remove(m.t.Context(), slots, false); err == nil {
				for _, at := range slots {
					m.removed[at.Name()] = true
				}
				break
			}
		}
	}
}

// checkContents compares the stored contents with those that must and may exist.
func (m *model) checkContents(p *Packs) {
	m.t.Helper()
	for name := range m.stored {
		if got, whole, err := readAt(m.t.Context(), p, slot(m.t, name)); err != nil || !whole || !bytes.Equal(got, m.written[name]) {
			m.t.Errorf("%s has %d bytes, %v, and not %d", name, len(got), err, len(m.written[name]))
		}
		if n, err := p.Size(m.t.Context(), slot(m.t, name)); err != nil || int(n) != len(m.written[name]) {
			m.t.Errorf("%s is %d long, %v, and not %d", name, n, err, len(m.written[name]))
		}
	}
	for name := range m.removed {
		if _, _, err := readAt(m.t.Context(), p, slot(m.t, name)); !m.faulty && !drive.IsKind(err, drive.NotFound) {
			m.t.Errorf("%s was removed: %v", name, err)
		}
	}
	shown := map[string]bool{}
	for pack, objects := range m.b.packs() {
		list, err := p.List(m.t.Context(), pack, objects)
		noError(m.t, err)
		for _, c := range list {
			name := c.Slot.Name()
			if b, ok := m.written[name]; !ok || int64(len(b)) != c.Size || shown[name] {
				m.t.Errorf("%s of %d bytes is shown", name, c.Size)
			}
			shown[name] = true
		}
	}
	for name := range m.stored {
		if !shown[name] {
			m.t.Errorf("%s is not shown", name)
		}
	}
}

// TestBucketFailureAtAnyCallLosesNothing injects failures, crashes and concurrent removals: settled
// contents exist, removed ones do not, and listed ones have the bytes that were written.
func TestBucketFailureAtAnyCallLosesNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(depth.Pick(100, 500, 5000)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng, faults := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
			b := newBucket()
			if seed%3 > 0 {
				b.fails = func() bool { return faults.IntN(15) == 0 }
			}
			m := &model{
				faulty: b.fails != nil, t: t, b: b, rng: rng, p: []*Packs{b.reopen(), b.reopen()}, written: map[string][]byte{},
				waiting: []map[string]bool{{}, {}}, stored: map[string]bool{}, removed: map[string]bool{},
			}
			for range 1 + rng.IntN(150) {
				m.step()
			}
			for i, p := range m.p {
				m.remove(p, slices.Sorted(maps.Keys(m.waiting[i])))
			}
			b.mu.Lock()
			b.fails = nil
			b.mu.Unlock()
			m.checkContents(b.reopen())
			for _, p := range m.p {
				m.checkContents(p)
				wantEmptyMemory(t, p)
			}
		})
	}
}

// wantEmptyMemory checks that no content is left in memory.
func wantEmptyMemory(t *testing.T, p *Packs) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.budget != maxPending || len(p.open) > 0 || p.current != nil || len(p.locks.packs) > 0 || len(p.rewriteSlots) > 0 {
		t.Errorf("room for %d bytes, %d packs are open", p.budget, len(p.open))
	}
}

// TestConcurrentOperations lays, settles, reads and removes concurrently in two processes; no
// object may be left.
func TestConcurrentOperations(t *testing.T) {
	t.Parallel()
	b := newBucket()
	both := []*Packs{b.reopen(), b.reopen()}
	var writers sync.WaitGroup
	for writer := range uint64(16) {
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(writer, 3))
			p, other := both[writer%2], both[(writer+1)%2]
			for range depth.Pick(10, 40, 200) {
				has := map[string][]byte{}
				for range 1 + rng.IntN(5) {
					content := fill(rng)
					name := p.ReserveName(own(), int64(len(content)))
					at, _ := blob.SlotOf(name)
					ok, err := p.Add(at, append(make([]byte, slothead.HeaderSize), content...))
					if err != nil {
						t.Error(err)
					}
					if ok { // else its pack has gone without it
						has[name] = content
					}
				}
				if err := p.Sync(t.Context(), slices.Collect(maps.Keys(has))); err != nil {
					t.Error(err)
				}
				for name, want := range has {
					at, _ := blob.SlotOf(name)
					if got, _, err := readAt(t.Context(), other, at); err != nil || !bytes.Equal(got, want) {
						t.Errorf("%s: %d bytes, %v", name, len(got), err)
					}
				}
				for name := range has {
					at, _ := blob.SlotOf(name)
					if _, err := other.Remove(t.Context(), []blob.Slot{at}, false); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	writers.Wait()
	if len(b.objects) > 0 {
		t.Errorf("%d objects are left", len(b.objects))
	}
	for _, p := range both {
		wantEmptyMemory(t, p)
	}
}

// TestPendingContentsAreBounded checks that contents get their own name when memory is full, and
// that settled, removed and failed contents free memory.
func TestPendingContentsAreBounded(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(*Packs, *bucket, []string) error{
		"settled": func(p *Packs, _ *bucket, names []string) error { return p.Sync(t.Context(), names) },
		"removed": func(p *Packs, _ *bucket, names []string) error {
			for _, name := range names {
				if _, err := p.Remove(t.Context(), []blob.Slot{slot(t, name)}, false); err != nil {
					return err
				}
			}
			return nil
		},
		"failed": func(p *Packs, b *bucket, names []string) error {
			b.fails = func() bool { return true }
			err := p.Sync(t.Context(), names)
			b.fails = nil
			if !errors.Is(err, errBucket) {
				t.Errorf("settled: %v", err)
			}
			if err := p.Sync(t.Context(), names); !errors.Is(err, errBucket) {
				t.Errorf("settled, but it is not there: %v", err)
			}
			for _, name := range names {
				if _, err := p.Remove(t.Context(), []blob.Slot{slot(t, name)}, false); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			b := newBucket()
			p := New(b)
			p.budget = 2 * unitsFor(1000) * Unit
			names := []string{layContent(t, p, make([]byte, 1000)), p.ReserveName(own(), 1000)}
			name := own()
			if got := p.ReserveName(name, 1); got != name {
				t.Errorf("%s has a place in memory", got)
			}
			if got, _, err := p.Read(t.Context(), slot(t, names[0])); err != nil || len(got) != 1000 {
				t.Errorf("what is in memory has %d bytes, %v", len(got), err)
			}
			noError(t, end(p, b, names))
			if p.budget != 2*unitsFor(1000)*Unit || len(p.open) > 0 {
				t.Errorf("room for %d bytes, %d packs are open", p.budget, len(p.open))
			}
			if ok, err := p.Add(slot(t, names[1]), make([]byte, slothead.HeaderSize+1000)); ok || err != nil {
				t.Errorf("laid into a pack that has gone: %v", err)
			}
		})
	}
}

// TestFullPackIsSent checks that a full pack is put without a Sync.
func TestFullPackIsSent(t *testing.T) {
	t.Parallel()
	b := newBucket()
	p := b.reopen()
	first := layContent(t, p, make([]byte, slothead.MaxContent))
	k := p.current
	for p.current == k {
		layContent(t, p, make([]byte, slothead.MaxContent))
	}
	<-k.done
	if n, err := b.reopen().Size(t.Context(), slot(t, first)); err != nil || n != slothead.MaxContent {
		t.Errorf("%d bytes, %v", n, err)
	}
	if len(b.objects[ObjectName(k.name)]) > int(p.maxUnits)*Unit {
		t.Errorf("the pack has %d bytes", len(b.objects[ObjectName(k.name)]))
	}
}

// TestForeignSlotNamesAreNotFound reads and removes slots that were never reserved.
func TestForeignSlotNamesAreNotFound(t *testing.T) {
	t.Parallel()
	b := newBucket()
	p := b.reopen()
	names := []string{layContent(t, p, make([]byte, 1500)), layContent(t, p, make([]byte, 1500)), layContent(t, p, make([]byte, 1500))}
	noError(t, p.Sync(t.Context(), names))
	at := slot(t, names[0])
	for _, forged := range []blob.Slot{
		{Pack: at.Pack, First: at.First, Blocks: 9},
		{Pack: at.Pack, First: at.First + 1, Blocks: at.Blocks},
		{Pack: at.Pack, First: 0, Blocks: 8},
		{Pack: at.Pack, First: 0xffff, Blocks: 0xff},
		{Pack: own(), First: at.First, Blocks: at.Blocks},
		{Pack: "put-7-../x", First: 8, Blocks: 1},
	} {
		if p.IsReserved(forged) {
			t.Errorf("%s can be laid", forged.Name())
		}
		if _, _, err := p.Read(t.Context(), forged); !drive.IsKind(err, drive.NotFound) {
			t.Errorf("%s is read: %v", forged.Name(), err)
		}
		if _, err := p.Size(t.Context(), forged); !drive.IsKind(err, drive.NotFound) {
			t.Errorf("%s has a size: %v", forged.Name(), err)
		}
		if _, err := p.Remove(t.Context(), []blob.Slot{forged}, false); err != nil && forged.Pack == at.Pack {
			t.Errorf("%s is removed: %v", forged.Name(), err)
		}
	}
	for _, name := range names {
		if n, err := p.Size(t.Context(), slot(t, name)); err != nil || n != 1500 {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
}

// TestFailedPackReturnsItsError checks that contents of a pack that could not be put are not
// NotFound before they are removed; readers get the error of Sync.
func TestFailedPackReturnsItsError(t *testing.T) {
	t.Parallel()
	b := newBucket()
	p := New(b)
	names := []string{layContent(t, p, []byte("one")), layContent(t, p, []byte("other"))}
	b.fails = func() bool { return true }
	if err := p.Sync(t.Context(), names[:1]); !errors.Is(err, errBucket) {
		t.Errorf("settle: %v", err)
	}
	b.fails = nil
	at := slot(t, names[1])
	if _, err := p.Size(t.Context(), at); !errors.Is(err, errBucket) {
		t.Errorf("size: %v", err)
	}
	for _, name := range names {
		if _, err := p.Remove(t.Context(), []blob.Slot{slot(t, name)}, false); err != nil {
			t.Error(err)
		}
	}
	if _, err := p.Size(t.Context(), at); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("size of what was removed: %v", err)
	}
	wantEmptyMemory(t, p)
}

// fillPack settles as many contents as a pack holds.
func fillPack(t *testing.T, p *Packs, size int) (names []string) {
	t.Helper()
	for range maxContents {
		names = append(names, layContent(t, p, make([]byte, size)))
	}
	noError(t, p.Sync(t.Context(), names))
	return names
}

// TestFrugalRemoveBoundsWrites checks that frugal removals in any order write at most MaxWriteRatio
// times what they free, and leave at most a third of the live bytes as garbage.
func TestFrugalRemoveBoundsWrites(t *testing.T) {
	t.Parallel()
	b := newBucket()
	p := New(b)
	names := fillPack(t, p, 1000)
	put, freed := b.written, int64(0)
	var dead []blob.Slot
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(len(names)) {
		dead = append(dead, slot(t, names[i]))
		outcome, err := p.Remove(t.Context(), dead, true)
		noError(t, err)
		if outcome == Gone {
			freed += int64(len(dead)) * unitsFor(1000) * Unit
			dead = nil
		}
		if written := b.written - put; written > MaxWriteRatio*freed {
			t.Fatalf("%d bytes were written to free %d", written, freed)
		}
	}
	if len(dead) > 0 || len(b.objects) > 0 {
		t.Errorf("%d contents and %d objects are left", len(dead), len(b.objects))
	}
	t.Logf("%d bytes in %d objects were written to free %d", b.written-put, len(b.deleted)-1, freed)
}

// TestDeletedObjectsKeepRemovedContents checks that everything ever settled can be read with the
// deleted objects, which versions or a copy of the bucket keep.
func TestDeletedObjectsKeepRemovedContents(t *testing.T) {
	t.Parallel()
	b := newBucket()
	p := New(b)
	names := fillPack(t, p, 100)
	for some := range slices.Chunk(names[:200], 40) {
		var slots []blob.Slot
		for _, name := range some {
			slots = append(slots, slot(t, name))
		}
		if outcome, err := p.Remove(t.Context(), slots, false); outcome != Gone || err != nil {
			t.Fatalf("%v, %v", outcome, err)
		}
	}
	last := b.packs()[slot(t, names[0]).Pack]
	if _, _, err := readAt(t.Context(), New(b), slot(t, names[0])); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("what was removed is there: %v", err)
	}
	maps.Copy(b.objects, b.deleted)
	p = New(b)
	for _, name := range names {
		if got, whole, err := readAt(t.Context(), p, slot(t, name)); err != nil || !whole || len(got) != 100 {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	pack, all := slot(t, names[0]).Pack, b.packs()[slot(t, names[0]).Pack]
	if list, err := p.List(t.Context(), pack, all); err != nil || len(list) != len(names) {
		t.Errorf("%d contents are listed, %v", len(list), err)
	}
	// One is removed after the restore: the others stay, also those that the last object lacked.
	if _, err := p.Remove(t.Context(), []blob.Slot{slot(t, names[0])}, false); err != nil {
		t.Error(err)
	}
	for _, name := range names[1:] {
		if _, whole, err := readAt(t.Context(), New(b), slot(t, name)); err != nil || !whole {
			t.Errorf("%s: %v", name, err)
		}
	}
	if now := b.packs()[pack]; len(now) != 1 || slices.Equal(now, last) {
		t.Errorf("objects are %v", now)
	}
}
