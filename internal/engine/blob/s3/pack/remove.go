package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/slothead"
)

// maxRewriting is the number of packs rewritten concurrently, each in memory.
const maxRewriting = 8

// MaxWriteRatio is the largest ratio of bytes written to bytes freed at which a frugal Remove
// rewrites a pack.
const MaxWriteRatio = 3

// Outcome is the result of a Remove.
type Outcome int

// Results of Remove.
const (
	Gone   Outcome = iota // the slots are durably gone from the pack, or were missing
	Unsent                // the pack was never uploaded; its slots were dropped from memory
	Kept                  // with frugal: nothing was removed, because that would write too much
)

// Remove durably removes slots of one pack, including reserved ones without content. With frugal,
// it rewrites the pack only within the ratio MaxWriteRatio, and returns Kept otherwise. The Outcome
// is valid only without an error. Remove returns errDamaged if another content of the pack cannot
// be read, and Unavailable if the pack keeps changing.
func (p *Packs) Remove(ctx context.Context, slots []blob.Slot, frugal bool) (Outcome, error) {
	if len(slots) == 0 {
		return Gone, nil
	}
	pack := slots[0].Pack
	if unsent, err := p.removeFromMemory(ctx, pack, slots); unsent || err != nil {
		return Unsent, err
	}
	done, err := p.locks.lock(ctx, pack)
	if err != nil {
		return Gone, err
	}
	defer done()
	for range maxTries {
		outcome, err := p.removeOnce(ctx, pack, slots, frugal)
		if !errors.Is(err, ErrChanged) {
			return outcome, err
		}
	}
	return Gone, rewrittenTooOften(pack)
}

// removeFromMemory removes slots from memory, after waiting for a running put of their pack. unsent
// reports that the pack has not been put.
func (p *Packs) removeFromMemory(ctx context.Context, pack string, slots []blob.Slot) (unsent bool, err error) {
	for {
		p.mu.Lock()
		k := p.open[pack]
		if k == nil {
			p.mu.Unlock()
			return false, nil
		}
		if !k.sent || k.err != nil {
			for _, at := range slots {
				p.freeSlotLocked(k, at.First)
			}
			p.discardEmptyLocked(k)
			p.sendIfCompleteLocked(k)
			unsent = k.err == nil // after an error the object may exist
			p.mu.Unlock()
			return unsent, nil
		}
		p.mu.Unlock()
		if err := p.wait(ctx, k); err != nil {
			return false, err
		}
	}
}

// discardEmptyLocked forgets a pack without contents and reserved slots, unless its upload has
// begun and not failed. For any other pack it does nothing. The caller holds p.mu.
func (p *Packs) discardEmptyLocked(k *pack) {
	switch {
	case len(k.slots) > 0 || len(k.pending) > 0:
	case k.err != nil:
		delete(p.open, k.name)
	case !k.sent:
		if p.current == k {
			p.current = nil
		}
		k.full, k.sent = true, true
		delete(p.open, k.name)
		close(k.done)
	}
}

// Several instances may remove slots of one pack at the same time, and any of them may die. Objects
// are not changed in place, because a copy of the bucket, or its older versions, would then lack
// contents that an older dump of the database refers to. Instead, each instance puts a new object
// and deletes its sources:
//
//	find      all objects of the pack; the new object gets the contents of all of them, except the removed ones
//	create    the new object under a random name
//	find      if a source is missing, another instance has rewritten the pack, and the new object may contain what
//	          it has removed: delete the new object and begin again
//	delete    the sources
//	find      if there is another object beside the new one, begin again
//
// An instance deletes an object only after it has put one with all live contents, so one such
// object always exists. An instance returns only after it has seen that no object contains the
// removed slots. Another instance that is about to put an object made it from sources that are
// deleted by then, which it detects.

// removeOnce makes one attempt to remove slots from a pack: it puts an object without them and
// deletes the old objects; if no slot is left it only deletes. It returns Gone also if the slots
// were missing, Kept with frugal if it would write too much. It fails with ErrChanged if another
// instance changes the pack, and with errDamaged if another content cannot be read.
func (p *Packs) removeOnce(ctx context.Context, pack string, slots []blob.Slot, frugal bool) (Outcome, error) {
	objects, err := p.find(ctx, pack)
	if err != nil {
		return Gone, err
	}
	in, err := p.sources(ctx, pack, objects)
	if err != nil {
		return Gone, err
	}
	kept := union(in)
	all := unitsOf(kept)
	kept = slices.DeleteFunc(kept, func(e entry) bool { return slices.Contains(slots, e.slot(pack)) })
	left := unitsOf(kept)
	switch {
	case left == all:
		return Gone, nil
	case frugal && left > 0 && indexUnits+left > MaxWriteRatio*(all-left):
		return Kept, nil
	}
	if i := slices.IndexFunc(in, func(s source) bool { return !s.whole }); i >= 0 { // a damaged slot may still be repaired by hand
		return Gone, fmt.Errorf("remove from pack %s: %w", pack, errDamaged)
	}
	var made []string
	if len(kept) > 0 {
		fresh, err := p.rewrite(ctx, pack, in, kept)
		if err != nil {
			return Gone, err
		}
		made = []string{fresh}
	}
	return Gone, p.deleteOld(ctx, pack, objects, made)
}

// rewrite puts a new object with the entries kept and returns its name; the caller then deletes the
// old objects. It fails with ErrChanged if one of in has disappeared afterwards, and has deleted
// the new object then. It waits for a free place among concurrent rewrites, and fails with
// Unavailable if ctx ends first.
func (p *Packs) rewrite(ctx context.Context, pack string, in []source, kept []entry) (fresh string, err error) {
	select {
	case p.rewriteSlots <- struct{}{}:
		defer func() { <-p.rewriteSlots }()
	case <-ctx.Done():
		return "", drive.Wrap(ctx.Err(), drive.Unavailable)
	}
	object, err := p.merge(ctx, pack, in, kept)
	if err != nil {
		return "", err
	}
	fresh = newObjectName(pack)
	if err := p.objects.Create(ctx, fresh, object); err != nil {
		return "", err
	}
	now, err := p.find(ctx, pack)
	if err != nil {
		return "", err // the new object stays and is merged by the next removal
	}
	for _, s := range in {
		if !slices.Contains(now, s.object) {
			return "", errors.Join(ErrChanged, p.objects.Delete(context.WithoutCancel(ctx), fresh))
		}
	}
	return fresh, nil
}

// deleteOld deletes the objects old of a pack, which those in made replace, and caches the names of
// the objects left. It returns ErrChanged unless exactly made are left, because another instance
// changed the pack; the caller must then try again.
func (p *Packs) deleteOld(ctx context.Context, pack string, old, made []string) error {
	for _, object := range old {
		if err := p.objects.Delete(ctx, object); err != nil {
			return err
		}
	}
	now, err := p.find(ctx, pack)
	if err != nil {
		return err
	}
	p.cacheObjects(pack, now)
	if !slices.Equal(now, made) {
		return ErrChanged
	}
	return nil
}

// source is an object of a pack that is being rewritten, with its decoded index.
type source struct {
	object  string  // name of the object
	entries []entry // of the index, or found by scan
	whole   bool    // the index is intact
}

// sources reads the indexes of the objects of a pack, in the same order. It returns ErrChanged if
// one of them is missing, because another instance has replaced it. A damaged index is no error;
// see source.whole.
func (p *Packs) sources(ctx context.Context, pack string, objects []string) ([]source, error) {
	in := make([]source, len(objects))
	for i, object := range objects {
		entries, whole, err := p.readIndex(ctx, pack, object)
		if err != nil {
			return nil, changedIfNotFound(err)
		}
		in[i] = source{object: object, entries: entries, whole: whole}
	}
	return in, nil
}

// union returns the entries of all sources, sorted by slot. Of several entries for one slot, it
// keeps that of the first source.
func union(in []source) (all []entry) {
	for _, s := range in {
		all = append(all, s.entries...)
	}
	slices.SortStableFunc(all, func(a, b entry) int { return int(a.first - b.first) })
	return slices.CompactFunc(all, func(a, b entry) bool { return a.first == b.first })
}

// unitsOf returns the sum of the lengths of entries.
func unitsOf(entries []entry) (n int64) {
	for _, e := range entries {
		n += e.units()
	}
	return n
}

// changedIfNotFound returns ErrChanged for NotFound, because another instance has replaced the
// object; else err, nil included.
func changedIfNotFound(err error) error {
	if drive.IsKind(err, drive.NotFound) {
		return ErrChanged
	}
	return err
}

// merge returns the bytes of a new object with the entries kept. Of several copies of a slot it
// takes one with a matching checksum, if there is one.
func (p *Packs) merge(ctx context.Context, pack string, in []source, kept []entry) ([]byte, error) {
	id, err := slothead.PackID(pack)
	if err != nil {
		return nil, err
	}
	slots := map[int64][]byte{} // by first unit
	intact := map[int64]bool{}
	for _, s := range in {
		object, err := p.readObject(ctx, pack, s)
		if err != nil {
			return nil, err
		}
		for _, e := range s.entries {
			b, ok := e.slotBytes(object)
			if !ok {
				return nil, fmt.Errorf("object %s is cut off: it has %d bytes", s.object, len(object))
			}
			if slots[e.first] == nil || !intact[e.first] {
				slots[e.first], intact[e.first] = b, isIntact(b, id, e.slot(pack))
			}
		}
	}
	smaller := make([]byte, IndexSize, MaxSize)
	moved := make([]entry, len(kept))
	for i, e := range kept {
		moved[i] = entry{first: e.first, at: int64(len(smaller)) / Unit, size: e.size}
		smaller = append(smaller, slots[e.first]...)
	}
	putIndex(smaller, id, moved)
	return smaller, nil
}

// readObject returns a whole object. If a checksum does not match, it reads once more, because the
// transfer may have changed the bytes. If both reads differ, it returns Unavailable; damage in the
// store is returned as it is.
func (p *Packs) readObject(ctx context.Context, pack string, s source) ([]byte, error) {
	object, err := p.objects.Read(ctx, s.object, 0, MaxSize)
	if err != nil || allIntact(object, pack, s.entries) {
		return object, changedIfNotFound(err)
	}
	again, err := p.objects.Read(ctx, s.object, 0, MaxSize)
	if err == nil && !allIntact(again, pack, s.entries) && !bytes.Equal(object, again) {
		err = drive.Wrap(fmt.Errorf("object %s is read differently each time", s.object), drive.Unavailable)
	}
	return again, changedIfNotFound(err)
}

// allIntact reports whether every slot in slots lies within object and its checksum matches; false
// if pack is not the name of a pack, true without slots.
func allIntact(object []byte, pack string, slots []entry) bool {
	id, err := slothead.PackID(pack)
	if err != nil {
		return false
	}
	for _, e := range slots {
		if b, ok := e.slotBytes(object); !ok || !isIntact(b, id, e.slot(pack)) {
			return false
		}
	}
	return true
}

// isIntact reports whether b is the slot at of the pack id, with a matching header and checksum.
func isIntact(b []byte, id uuid.UUID, at blob.Slot) bool {
	_, whole, err := content(b, id, at)
	return err == nil && whole
}

// packLocks serializes changes of a pack within this process, which would otherwise conflict.
type packLocks struct {
	mu    sync.Mutex
	packs map[string]chan struct{} // closed when the holder is done
}

// lock waits until no other call in this process holds the lock of the pack, and acquires it. The
// caller must call done once. If ctx ends first it returns Unavailable and a nil done. It does not
// exclude other instances.
func (b *packLocks) lock(ctx context.Context, pack string) (done func(), err error) {
	for {
		b.mu.Lock()
		held := b.packs[pack]
		if held == nil {
			held = make(chan struct{})
			b.packs[pack] = held
			b.mu.Unlock()
			return func() { b.unlock(pack, held) }, nil
		}
		b.mu.Unlock()
		select {
		case <-held:
		case <-ctx.Done():
			return nil, drive.Wrap(ctx.Err(), drive.Unavailable)
		}
	}
}

// unlock unlocks a pack.
func (b *packLocks) unlock(pack string, held chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.packs, pack)
	close(held)
}
