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

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/slothead"
)

// Objects is the object store of packs. An object is created once, never changes, and is deleted.
type Objects interface {
	// Create stores a new object, durably when it returns nil, and fails if the object exists. On
	// an error it deletes what it may have stored, if possible.
	Create(ctx context.Context, object string, b []byte) error
	// Read returns up to n bytes from off on; fewer at the end of the object. A missing object is
	// NotFound.
	Read(ctx context.Context, object string, off, n int64) ([]byte, error)
	// Find returns the names of the existing objects with that prefix.
	Find(ctx context.Context, prefix string) ([]string, error)
	// Delete deletes an object; a missing one is not an error.
	Delete(ctx context.Context, object string) error
}

// ErrChanged reports that another instance has changed the objects of a pack since they were
// listed.
var ErrChanged = errors.New("the objects of a pack have changed meanwhile")

// maxPending bounds the bytes of reserved slots that are not durable yet.
const maxPending = 16 << 20

// Packs manages the packs of a bucket. It is safe for concurrent use.
type Packs struct {
	objects      Objects
	maxUnits     int64         // maximum units of a pack
	rewriteSlots chan struct{} // semaphore for packs that are in memory to be rewritten
	locks        packLocks     // packs being changed by this process

	mu           sync.Mutex          // guards the fields below and those of each pack
	current      *pack               // the pack that accepts contents; nil: none
	open         map[string]*pack    // packs that are not durable, by name
	missing      string              // name of the last pack found to have no object
	missingSince time.Time           // when it was not found
	budget       int64               // bytes that may still be reserved
	moved        map[string][]string // last known objects of rewritten packs, by name of the pack
}

// pack is a pack that is not durable yet, or whose put has failed.
type pack struct {
	name string
	id   uuid.UUID
	done chan struct{} // closed when the put has ended

	// Guarded by Packs.mu.
	next     int64            // first free unit
	reserved int              // number of reserved slots
	pending  map[int64]int64  // units of slots that are reserved and have no content yet, by first unit
	slots    map[int64][]byte // header and content of slots, by first unit; nil once the pack is durable
	full     bool             // no more slots are reserved
	sent     bool             // the put has begun: no more contents are accepted
	err      error            // error of the put; the pack is not durable
}

// New returns the Packs of a bucket.
func New(objects Objects) *Packs {
	return &Packs{
		objects: objects, maxUnits: maxUnits, open: map[string]*pack{}, budget: maxPending, rewriteSlots: make(chan struct{}, maxRewriting),
		locks: packLocks{packs: map[string]chan struct{}{}}, moved: map[string][]string{},
	}
}

// ReserveName reserves a slot for content of size bytes and returns its name. It returns own, which
// no other content may use, if the content is too large or no memory is left. If the result is a
// slot, the caller must call Add or Remove.
func (p *Packs) ReserveName(own string, size int64) string {
	id, err := slothead.PackID(own)
	if size < 0 || size > slothead.MaxContent || err != nil {
		return own
	}
	n := unitsFor(int(size))
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.budget < n*Unit {
		return own
	}
	if k := p.current; k != nil && (k.next+n > p.maxUnits || k.reserved == maxContents) {
		k.full, p.current = true, nil
		p.sendIfCompleteLocked(k)
	}
	if p.current == nil {
		p.current = &pack{
			name: own, id: id, next: indexUnits, done: make(chan struct{}), pending: map[int64]int64{}, slots: map[int64][]byte{},
		}
		p.open[own] = p.current
	}
	k := p.current
	at := blob.Slot{Pack: k.name, First: k.next, Blocks: n}
	k.next += n
	k.reserved++
	k.pending[at.First] = n
	p.budget -= n * Unit
	return at.Name()
}

// IsReserved reports whether this process has reserved the slot and no content has been added to it
// yet.
func (p *Packs) IsReserved(at blob.Slot) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.open[at.Pack]
	return k != nil && k.pending[at.First] == at.Blocks && at.Blocks > 0
}

// Add stores content in memory in a reserved slot; it may be lost until Sync has returned nil. Add
// writes the header into the first HeaderSize bytes of b, which the caller leaves free, and keeps
// b: the caller must not change it afterwards. It returns false and no error if the slot is not
// reserved anymore, because the pack was sent without this content.
func (p *Packs) Add(at blob.Slot, b []byte) (bool, error) {
	if unitsFor(len(b)-slothead.HeaderSize) != at.Blocks {
		return false, fmt.Errorf("content of %d bytes in a slot of %d units", len(b)-slothead.HeaderSize, at.Blocks)
	}
	id, err := slothead.PackID(at.Pack)
	if err != nil {
		return false, err
	}
	slothead.PutHeader(b, id, at.First)
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.open[at.Pack]
	if k == nil || k.pending[at.First] != at.Blocks {
		return false, nil
	}
	delete(k.pending, at.First)
	k.slots[at.First] = b
	p.sendIfCompleteLocked(k)
	return true, nil
}

// sendIfCompleteLocked starts to upload a pack that is full and has no reserved slot without
// content; else it does nothing. The caller holds p.mu.
func (p *Packs) sendIfCompleteLocked(k *pack) {
	if k.full && len(k.pending) == 0 {
		p.sendLocked(k)
	}
}

// sendLocked starts to upload a pack as it is, in the background, and does nothing if that was
// started before. Slots without content are freed; their Add returns false. The caller holds p.mu.
func (p *Packs) sendLocked(k *pack) {
	if k.sent {
		return
	}
	k.full, k.sent = true, true
	if p.current == k {
		p.current = nil
	}
	for first := range k.pending {
		p.freeSlotLocked(k, first)
	}
	go p.send(k) // ends with its request
}

// freeSlotLocked deletes the reservation and the bytes of a slot from memory, returns them to the
// budget, and reports whether there were any. The caller holds p.mu.
func (p *Packs) freeSlotLocked(k *pack, first int64) bool {
	n, named := k.pending[first]
	b, laid := k.slots[first]
	if laid {
		n = unitsFor(len(b) - slothead.HeaderSize)
	}
	delete(k.pending, first)
	delete(k.slots, first)
	if k.err == nil { // else it was freed when the put failed
		p.budget += n * Unit
	}
	return named || laid
}

// send uploads a pack, sets k.err, releases the memory of its contents and closes k.done. A pack
// with contents whose upload failed stays in p.open, so that Sync of its contents returns the
// error.
func (p *Packs) send(k *pack) {
	err := p.put(k)
	p.mu.Lock()
	defer p.mu.Unlock()
	for first, b := range k.slots {
		p.budget += unitsFor(len(b)-slothead.HeaderSize) * Unit
		k.slots[first] = nil
	}
	if k.err = err; err == nil || len(k.slots) == 0 {
		delete(p.open, k.name)
	}
	close(k.done)
}

// put creates the object of a pack. It converts a panic to an error for the callers that wait for
// the pack.
func (p *Packs) put(k *pack) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic while a pack is put: %v\n%s", v, debug.Stack())
		}
	}()
	if object := p.assemble(k); object != nil {
		return p.objects.Create(context.Background(), ObjectName(k.name), object)
	}
	return nil
}

// assemble returns the bytes of a pack's object, index first; nil if no slot has content. The slots
// in memory then refer to these bytes, which the caller must not change.
func (p *Packs) assemble(k *pack) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	var entries []entry
	end := int64(0)
	for first, b := range k.slots {
		e := entry{first: first, at: first, size: len(b) - slothead.HeaderSize}
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
		k.slots[first] = object[first*Unit : first*Unit+int64(n)] // refer to the object instead of a second copy
	}
	return object
}

// Sync makes contents durable: it sends their packs and waits. Names without a pack in this
// process are durable already or objects of their own. It returns the error of the first failed
// put.
func (p *Packs) Sync(ctx context.Context, names []string) error {
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
		if k.err != nil { // not written after done is closed
			return k.err
		}
	}
	return nil
}

// wait waits until the put of a pack has ended and returns nil, also if the put failed; k.err
// tells. If ctx ends first it returns Unavailable.
func (p *Packs) wait(ctx context.Context, k *pack) error {
	select {
	case <-k.done:
		return nil
	case <-ctx.Done():
		return drive.Wrap(ctx.Err(), drive.Unavailable)
	}
}

// inMemory returns the header and content of a slot that is not durable; nil if there is none. If
// the put of its pack has failed, it returns that error, because the content is neither present nor
// missing.
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
