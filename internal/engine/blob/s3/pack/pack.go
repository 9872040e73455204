package pack

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/blob/slothead"
)

// Objects are what packs lie in. An object is put once and never changes; it only goes.
type Objects interface {
	// Create stores an object where there is none, durably when it returns nil. On an error it
	// takes away what it may have stored, as far as it can.
	Create(ctx context.Context, object string, b []byte) error
	// Read returns up to n bytes from off on, fewer at the end. A missing object is NotFound.
	Read(ctx context.Context, object string, off, n int64) ([]byte, error)
	// Find returns the objects whose names begin with that prefix, as they are at the moment.
	Find(ctx context.Context, prefix string) ([]string, error)
	// Delete deletes an object; a missing one is no error.
	Delete(ctx context.Context, object string) error
}

// ErrChanged reports that the objects of a pack are not those that were found a moment ago.
var ErrChanged = errors.New("the objects of a pack have changed meanwhile")

// maxHeld is how many bytes may be named and not durable.
const maxHeld = 16 << 20

// Packs are those of a bucket. They are safe for concurrent use.
type Packs struct {
	objects   Objects
	most      int64         // units of a pack
	rewriting chan struct{} // holds a token for each pack that is in memory to be replaced
	busy      busy

	mu      sync.Mutex // guards what follows, and what pack says
	current *pack      // takes contents; nil: none does
	open    map[string]*pack
	missing string              // a pack of which there was no object
	missed  time.Time           // when
	room    int64               // bytes that may still be named
	moved   map[string][]string // objects of packs that were rewritten, as they were found last
}

// pack is one that is not durable yet, or could not be made so.
type pack struct {
	name string
	id   uuid.UUID
	done chan struct{} // closed when it is durable, or never will be

	// Guarded by Packs.mu.
	next    int64            // the first unit that nobody has
	named   int              // contents that have a place
	awaited map[int64]int64  // units of slots that have a name and no content yet, by their first
	slots   map[int64][]byte // those that have content, by their first unit
	full    bool             // no more names are given
	sent    bool             // nothing more is laid
	err     error            // why it is not durable
}

// New returns the packs of a bucket.
func New(objects Objects) *Packs {
	return &Packs{
		objects: objects, most: maxUnits, open: map[string]*pack{}, room: maxHeld, rewriting: make(chan struct{}, maxRewriting),
		busy: busy{packs: map[string]chan struct{}{}}, moved: map[string][]string{},
	}
}

// Name takes a slot for content of that size, and returns its name. own is one that nobody else
// uses; it is returned where the content is too large, or there is no memory for it. Lay or Remove
// must follow.
func (p *Packs) Name(own string, size int64) string {
	id, err := slothead.IDOf(own)
	if size < 0 || size > slothead.MaxContent || err != nil {
		return own
	}
	n := unitsFor(int(size))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.room < n*Unit {
		return own
	}
	if k := p.current; k != nil && (k.next+n > p.most || k.named == maxContents) {
		k.full, p.current = true, nil
		p.sendSoonLocked(k)
	}
	if p.current == nil {
		p.current = &pack{
			name: own, id: id, next: indexUnits, done: make(chan struct{}), awaited: map[int64]int64{}, slots: map[int64][]byte{},
		}
		p.open[own] = p.current
	}
	k := p.current
	at := blob.Slot{Pack: k.name, First: k.next, Blocks: n}
	k.next += n
	k.named++
	k.awaited[at.First] = n
	p.room -= n * Unit
	return at.Name()
}

// Awaits reports whether a slot may still be laid.
func (p *Packs) Awaits(at blob.Slot) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.open[at.Pack]
	return k != nil && k.awaited[at.First] == at.Blocks && at.Blocks > 0
}

// Lay keeps content, which b has behind room for the head, until a Settle. false: its pack has gone
// without it.
func (p *Packs) Lay(at blob.Slot, b []byte) (bool, error) {
	if unitsFor(len(b)-slothead.HeadSize) != at.Blocks {
		return false, fmt.Errorf("content of %d bytes in a slot of %d units", len(b)-slothead.HeadSize, at.Blocks)
	}
	id, err := slothead.IDOf(at.Pack)
	if err != nil {
		return false, err
	}
	slothead.Seal(b, id, at.First)
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.open[at.Pack]
	if k == nil || k.awaited[at.First] != at.Blocks {
		return false, nil
	}
	delete(k.awaited, at.First)
	k.slots[at.First] = b
	p.sendSoonLocked(k)
	return true, nil
}

// sendSoonLocked sends a pack that is full and has all that it will.
func (p *Packs) sendSoonLocked(k *pack) {
	if k.full && len(k.awaited) == 0 {
		p.sendLocked(k)
	}
}

// sendLocked begins to make a pack durable as it is. Who comes too late finds it gone.
func (p *Packs) sendLocked(k *pack) {
	if k.sent {
		return
	}
	k.full, k.sent = true, true
	if p.current == k {
		p.current = nil
	}
	for first := range k.awaited {
		p.forgetLocked(k, first)
	}
	go p.send(k) // ends with its request
}

// forgetLocked gives back the memory of a slot; false: it has none.
func (p *Packs) forgetLocked(k *pack, first int64) bool {
	n, named := k.awaited[first]
	b, laid := k.slots[first]
	if laid {
		n = unitsFor(len(b) - slothead.HeadSize)
	}
	delete(k.awaited, first)
	delete(k.slots, first)
	if k.err == nil { // else it was given back at once
		p.room += n * Unit
	}
	return named || laid
}

// send puts a pack into the bucket.
func (p *Packs) send(k *pack) {
	err := p.put(k)
	p.mu.Lock()
	defer p.mu.Unlock()
	for first, b := range k.slots {
		p.room += unitsFor(len(b)-slothead.HeadSize) * Unit
		k.slots[first] = nil
	}
	if k.err = err; err == nil || len(k.slots) == 0 {
		delete(p.open, k.name)
	}
	close(k.done)
}

// put is send without its end. A panic in it is an error of those who wait for it.
func (p *Packs) put(k *pack) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic while a pack is put: %v\n%s", v, debug.Stack())
		}
	}()
	if object := p.assemble(k); object != nil {
		return p.objects.Create(context.Background(), ObjectOf(k.name), object)
	}
	return nil
}

// assemble returns the object of a pack, nil: it has nothing.
func (p *Packs) assemble(k *pack) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	var entries []entry
	end := int64(0)
	for first, b := range k.slots {
		e := entry{first: first, at: first, size: len(b) - slothead.HeadSize}
		entries, end = append(entries, e), max(end, first+e.units())
	}
	if len(entries) == 0 {
		return nil
	}
	slices.SortFunc(entries, func(a, b entry) int { return int(a.first - b.first) })
	object := make([]byte, end*Unit)
	putIndex(object, k.id, entries)
	for first, b := range k.slots {
		n := copy(object[first*Unit:], b)
		k.slots[first] = object[first*Unit : first*Unit+int64(n)] // and not in memory twice
	}
	return object
}

// Settle makes contents durable that were laid. Those that lie in no pack of which this process
// knows are durable, or elsewhere.
func (p *Packs) Settle(ctx context.Context, names []string) error {
	var packs []*pack
	p.mu.Lock()
	for _, name := range names {
		at, _ := blob.SlotOf(name)
		k := p.open[at.Pack]
		if k == nil {
			continue
		}
		if _, laid := k.slots[at.First]; laid && !slices.Contains(packs, k) {
			packs = append(packs, k)
			p.sendLocked(k)
		}
	}
	p.mu.Unlock()
	for _, k := range packs {
		if err := p.wait(ctx, k); err != nil {
			return err
		}
		if k.err != nil { // it is not written to once done is closed
			return k.err
		}
	}
	return nil
}

func (p *Packs) wait(ctx context.Context, k *pack) error {
	select {
	case <-k.done:
		return nil
	case <-ctx.Done():
		return drive.Wrap(ctx.Err(), drive.Unavailable)
	}
}

// inMemory returns the slot of a content that is not durable; nil: it is none. One whose pack could
// not be put is neither there nor missing: the error is that of its pack, as in Settle.
func (p *Packs) inMemory(at blob.Slot) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.open[at.Pack]
	if k == nil {
		return nil, nil
	}
	b, laid := k.slots[at.First]
	if laid && k.err != nil {
		return nil, k.err
	}
	return b, nil
}
