package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/blob/slothead"
	"smartdrive/internal/testkit/depth"
)

// bucket is one in memory.
type bucket struct {
	mu      sync.Mutex
	objects map[string][]byte
	tags    map[string]string
	changes int

	blind  bool        // it replaces whatever is there
	deaf   bool        // it reads whatever is there
	fails  func() bool // asked before and after each request; nil: nothing fails
	before func()      // called before something is replaced or deleted; nil: nothing
	again  func()      // called before something is read that has a tag; nil: nothing
}

func newBucket() *bucket { return &bucket{objects: map[string][]byte{}, tags: map[string]string{}} }

var errBucket = drive.Wrap(errors.New("the bucket has failed"), drive.Unavailable)

func (b *bucket) lost() bool { return b.fails != nil && b.fails() }

func (b *bucket) storeLocked(pack string, content []byte) {
	b.changes++
	b.objects[pack], b.tags[pack] = slices.Clone(content), fmt.Sprint(b.changes)
}

// Create implements Objects. Where its reply is lost it may find out nothing.
func (b *bucket) Create(_ context.Context, pack string, content []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, there := b.objects[pack]; there {
		return errors.New("a pack is put twice")
	}
	if b.lost() {
		return errBucket
	}
	b.storeLocked(pack, content)
	if !b.lost() {
		return nil
	}
	if !b.lost() {
		delete(b.objects, pack)
	}
	return errBucket
}

// Replace implements Objects.
func (b *bucket) Replace(_ context.Context, pack string, content []byte, tag string) error {
	b.meanwhile(&b.before)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost() {
		return errBucket
	}
	if _, there := b.objects[pack]; !b.blind && (!there || b.tags[pack] != tag) {
		return ErrChanged
	}
	b.storeLocked(pack, content)
	if b.lost() {
		return errBucket
	}
	return nil
}

// meanwhile lets somebody else do something.
func (b *bucket) meanwhile(what *func()) {
	b.mu.Lock()
	do := *what
	*what = nil
	b.mu.Unlock()
	if do != nil {
		do()
	}
}

// Read implements Objects.
func (b *bucket) Read(_ context.Context, pack string, off, n int64, tag string) ([]byte, string, error) {
	if tag != "" {
		b.meanwhile(&b.again)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost() {
		return nil, "", errBucket
	}
	object, there := b.objects[pack]
	switch {
	case !there:
		return nil, "", drive.Fail(drive.NotFound)
	case tag != "" && tag != b.tags[pack] && !b.deaf:
		return nil, "", ErrChanged
	}
	size := int64(len(object))
	return slices.Clone(object[min(off, size):min(off+n, size)]), b.tags[pack], nil
}

// Delete implements Objects.
func (b *bucket) Delete(_ context.Context, pack string) error {
	b.meanwhile(&b.before)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost() {
		return errBucket
	}
	delete(b.objects, pack)
	if b.lost() {
		return errBucket
	}
	return nil
}

// reopen returns the packs of another process.
func (b *bucket) reopen() *Packs {
	p := New(b)
	p.most = indexUnits + 200
	return p
}

func own() string { return "put-7-" + drive.NewID[drive.UploadID]().String() }

// lay gives content to a pack, and returns its name.
func lay(t *testing.T, p *Packs, content []byte) string {
	t.Helper()
	name := p.Name(own(), int64(len(content)))
	if ok, err := p.Lay(slot(t, name), append(make([]byte, slothead.HeadSize), content...)); !ok || err != nil {
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

// model is what processes have done to a bucket.
type model struct {
	t       *testing.T
	b       *bucket
	rng     *rand.Rand
	p       []*Packs
	written map[string][]byte // whatever was laid
	waiting []map[string]bool // for each process: laid and not settled
	stored  map[string]bool   // settled, and nobody has tried to remove it
	removed map[string]bool
}

func (m *model) step() {
	i := m.rng.IntN(len(m.p))
	p, waiting := m.p[i], m.waiting[i]
	switch m.rng.IntN(10) {
	case 0, 1:
		names := slices.Sorted(maps.Keys(waiting))
		err := p.Settle(m.t.Context(), names)
		for _, name := range names {
			if err == nil {
				m.stored[name] = true
			} else {
				m.remove(p, []string{name})
			}
		}
		clear(waiting)
	case 2:
		some := m.some(m.stored, 6)
		if m.rng.IntN(2) == 0 { // while another one does so, too
			other, more := m.p[1-i], m.some(m.stored, 6)
			when := &m.b.before
			if m.rng.IntN(2) == 0 {
				when = &m.b.again
			}
			*when = func() { m.remove(other, more) }
		}
		m.remove(p, some)
		m.b.before, m.b.again = nil, nil
	case 3:
		some := m.some(waiting, 2)
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
		name := lay(m.t, p, b)
		m.written[name] = b
		waiting[name] = true
	}
}

// some returns up to most names that follow each other.
func (m *model) some(from map[string]bool, most int) []string {
	names := slices.Sorted(maps.Keys(from))
	if len(names) == 0 {
		return nil
	}
	at := m.rng.IntN(len(names))
	return names[at:min(at+1+m.rng.IntN(most), len(names))]
}

// remove removes until it is done, for a while.
func (m *model) remove(p *Packs, names []string) {
	packs := map[string][]blob.Slot{}
	for _, name := range names {
		delete(m.stored, name)
		at := slot(m.t, name)
		packs[at.Pack] = append(packs[at.Pack], at)
	}
	for _, slots := range packs {
		for range 3 {
			if _, err := p.Remove(m.t.Context(), slots); err == nil {
				for _, at := range slots {
					m.removed[at.Name()] = true
				}
				break
			}
		}
	}
}

// judge compares what is there with what must be, and may be.
func (m *model) judge(p *Packs) {
	m.t.Helper()
	for name := range m.stored {
		if got, whole, err := p.Read(m.t.Context(), slot(m.t, name)); err != nil || !whole || !bytes.Equal(got, m.written[name]) {
			m.t.Errorf("%s has %d bytes, %v, and not %d", name, len(got), err, len(m.written[name]))
		}
		if n, err := p.Size(m.t.Context(), slot(m.t, name)); err != nil || int(n) != len(m.written[name]) {
			m.t.Errorf("%s is %d long, %v, and not %d", name, n, err, len(m.written[name]))
		}
	}
	for name := range m.removed {
		if _, _, err := p.Read(m.t.Context(), slot(m.t, name)); !m.b.blind && !drive.IsKind(err, drive.NotFound) {
			m.t.Errorf("%s was removed: %v", name, err)
		}
	}
	shown := map[string]bool{}
	for pack := range m.b.objects {
		list, err := p.List(m.t.Context(), pack)
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

// Whatever fails, whoever dies, and whoever removes at the same time: what was settled is there,
// what was removed is not, and what is shown is what was written.
func TestTheBucketFailsAtAnyTime(t *testing.T) {
	t.Parallel()
	for seed := range uint64(depth.Pick(100, 500, 5000)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng, faults := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
			b := newBucket()
			b.blind, b.deaf = seed%4 == 3, seed%8 >= 6
			if seed%3 > 0 {
				b.fails = func() bool { return faults.IntN(15) == 0 }
			}
			m := &model{
				t: t, b: b, rng: rng, p: []*Packs{b.reopen(), b.reopen()}, written: map[string][]byte{},
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
			m.judge(b.reopen())
			for _, p := range m.p {
				m.judge(p)
				wantForgotten(t, p)
			}
		})
	}
}

// wantForgotten checks that nothing is left in memory.
func wantForgotten(t *testing.T, p *Packs) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.room != maxHeld || len(p.open) > 0 || p.current != nil || len(p.busy.packs) > 0 || len(p.rewriting) > 0 {
		t.Errorf("room for %d bytes, %d packs are open", p.room, len(p.open))
	}
}

// Many lay, settle, read and remove at once, in two processes. In the end no object is left.
func TestManyAtOnce(t *testing.T) {
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
					name := p.Name(own(), int64(len(content)))
					at, _ := blob.SlotOf(name)
					ok, err := p.Lay(at, append(make([]byte, slothead.HeadSize), content...))
					if err != nil {
						t.Error(err)
					}
					if ok { // else its pack has gone without it
						has[name] = content
					}
				}
				if err := p.Settle(t.Context(), slices.Collect(maps.Keys(has))); err != nil {
					t.Error(err)
				}
				for name, want := range has {
					at, _ := blob.SlotOf(name)
					if got, _, err := other.Read(t.Context(), at); err != nil || !bytes.Equal(got, want) {
						t.Errorf("%s: %d bytes, %v", name, len(got), err)
					}
				}
				for name := range has {
					at, _ := blob.SlotOf(name)
					if _, err := other.Remove(t.Context(), []blob.Slot{at}); err != nil {
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
		wantForgotten(t, p)
	}
}

// What has no place in memory is named as it would be without packs; what is settled, removed or
// has failed makes room.
func TestMemoryHasABound(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(*Packs, *bucket, []string) error{
		"settled": func(p *Packs, _ *bucket, names []string) error { return p.Settle(t.Context(), names) },
		"removed": func(p *Packs, _ *bucket, names []string) error {
			for _, name := range names {
				if _, err := p.Remove(t.Context(), []blob.Slot{slot(t, name)}); err != nil {
					return err
				}
			}
			return nil
		},
		"failed": func(p *Packs, b *bucket, names []string) error {
			b.fails = func() bool { return true }
			err := p.Settle(t.Context(), names)
			b.fails = nil
			if !errors.Is(err, errBucket) {
				t.Errorf("settled: %v", err)
			}
			if err := p.Settle(t.Context(), names); !errors.Is(err, errBucket) {
				t.Errorf("settled, but it is not there: %v", err)
			}
			for _, name := range names {
				if _, err := p.Remove(t.Context(), []blob.Slot{slot(t, name)}); err != nil {
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
			p.room = 2 * unitsFor(1000) * Unit
			names := []string{lay(t, p, make([]byte, 1000)), p.Name(own(), 1000)}
			name := own()
			if got := p.Name(name, 1); got != name {
				t.Errorf("%s has a place in memory", got)
			}
			if got, _, err := p.Read(t.Context(), slot(t, names[0])); err != nil || len(got) != 1000 {
				t.Errorf("what is in memory has %d bytes, %v", len(got), err)
			}
			noError(t, end(p, b, names))
			if p.room != 2*unitsFor(1000)*Unit || len(p.open) > 0 {
				t.Errorf("room for %d bytes, %d packs are open", p.room, len(p.open))
			}
			if ok, err := p.Lay(slot(t, names[1]), make([]byte, slothead.HeadSize+1000)); ok || err != nil {
				t.Errorf("laid into a pack that has gone: %v", err)
			}
		})
	}
}

// A pack goes when it is full, without anybody waiting for it.
func TestAFullPackGoesByItself(t *testing.T) {
	t.Parallel()
	b := newBucket()
	p := b.reopen()
	first := lay(t, p, make([]byte, slothead.MaxContent))
	k := p.current
	for p.current == k {
		lay(t, p, make([]byte, slothead.MaxContent))
	}
	<-k.done
	if n, err := b.reopen().Size(t.Context(), slot(t, first)); err != nil || n != slothead.MaxContent {
		t.Errorf("%d bytes, %v", n, err)
	}
	if len(b.objects[k.name]) > int(p.most)*Unit {
		t.Errorf("the pack has %d bytes", len(b.objects[k.name]))
	}
}

// A name that was never given reads and removes nothing of what others have.
func TestNamesThatWereNotGiven(t *testing.T) {
	t.Parallel()
	b := newBucket()
	p := b.reopen()
	names := []string{lay(t, p, make([]byte, 1500)), lay(t, p, make([]byte, 1500)), lay(t, p, make([]byte, 1500))}
	noError(t, p.Settle(t.Context(), names))
	at := slot(t, names[0])
	for _, forged := range []blob.Slot{
		{Pack: at.Pack, First: at.First, Blocks: 9},
		{Pack: at.Pack, First: at.First + 1, Blocks: at.Blocks},
		{Pack: at.Pack, First: 0, Blocks: 8},
		{Pack: at.Pack, First: 0xffff, Blocks: 0xff},
		{Pack: own(), First: at.First, Blocks: at.Blocks},
		{Pack: "put-7-../x", First: 8, Blocks: 1},
	} {
		if p.Awaits(forged) {
			t.Errorf("%s can be laid", forged.Name())
		}
		if _, _, err := p.Read(t.Context(), forged); !drive.IsKind(err, drive.NotFound) {
			t.Errorf("%s is read: %v", forged.Name(), err)
		}
		if _, err := p.Size(t.Context(), forged); !drive.IsKind(err, drive.NotFound) {
			t.Errorf("%s has a size: %v", forged.Name(), err)
		}
		if _, err := p.Remove(t.Context(), []blob.Slot{forged}); err != nil && forged.Pack == at.Pack {
			t.Errorf("%s is removed: %v", forged.Name(), err)
		}
	}
	for _, name := range names {
		if n, err := p.Size(t.Context(), slot(t, name)); err != nil || n != 1500 {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
}

// A store that compares nothing may give what another instance has just put in place of what the
// index was read of. What is kept is what it was, and what is there is found.
func TestAStoreThatComparesNothing(t *testing.T) {
	t.Parallel()
	for _, deaf := range []bool{true, false} {
		b := newBucket()
		b.blind, b.deaf = deaf, deaf
		one, other := New(b), New(b)
		contents := [][]byte{[]byte("first"), []byte("second"), bytes.Repeat([]byte("third"), 900), []byte("fourth")}
		var slots []blob.Slot
		var names []string
		for _, c := range contents {
			names = append(names, lay(t, one, c))
			slots = append(slots, slot(t, names[len(names)-1]))
		}
		noError(t, one.Settle(t.Context(), names))
		remove := func(p *Packs, at blob.Slot) {
			if _, err := p.Remove(t.Context(), []blob.Slot{at}); err != nil {
				t.Error(err)
			}
		}
		wants := func(i int) {
			t.Helper()
			got, whole, err := one.Read(t.Context(), slots[i])
			if err != nil || !whole || !bytes.Equal(got, contents[i]) {
				t.Errorf("deaf %v: content %d is %d bytes, whole %v, %v", deaf, i, len(got), whole, err)
			}
		}
		b.again = func() { remove(other, slots[0]) }
		remove(one, slots[3])
		wants(1)
		wants(2)
		b.again = func() { remove(other, slots[1]) }
		wants(2)
	}
}

// The contents of a pack that could not be put are not reported as missing before they are removed.
// Whoever asks for one gets the same error as from Settle.
func TestAPackThatFailed(t *testing.T) {
	t.Parallel()
	b := newBucket()
	p := New(b)
	names := []string{lay(t, p, []byte("one")), lay(t, p, []byte("other"))}
	b.fails = func() bool { return true }
	if err := p.Settle(t.Context(), names[:1]); !errors.Is(err, errBucket) {
		t.Errorf("settle: %v", err)
	}
	b.fails = nil
	at := slot(t, names[1])
	if _, err := p.Size(t.Context(), at); !errors.Is(err, errBucket) {
		t.Errorf("size: %v", err)
	}
	for _, name := range names {
		if _, err := p.Remove(t.Context(), []blob.Slot{slot(t, name)}); err != nil {
			t.Error(err)
		}
	}
	if _, err := p.Size(t.Context(), at); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("size of what was removed: %v", err)
	}
	wantForgotten(t, p)
}
