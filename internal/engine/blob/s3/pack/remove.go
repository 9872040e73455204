package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/google/uuid"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/blob/slothead"
)

// maxRewriting is how many packs are in memory at a time to be replaced.
const maxRewriting = 8

// MaxRewritten bounds what Reclaim writes: at most so many bytes for each that it frees.
const MaxRewritten = 3

// Outcome says what has become of slots that were to be removed.
type Outcome int

// What Remove and Reclaim report of a slot.
const (
	Gone   Outcome = iota // durably
	Unsent                // the pack was never in the bucket: what is not in memory any more is nowhere
	Kept                  // to free them is not worth what it would write
)

// Remove durably removes slots of one pack, also what was named and never laid. frugal: only if at
// most MaxRewritten times as much is to be written.
func (p *Packs) Remove(ctx context.Context, slots []blob.Slot, frugal bool) (Outcome, error) {
	if len(slots) == 0 {
		return Gone, nil
	}
	pack := slots[0].Pack
	if unsent, err := p.forget(ctx, pack, slots); unsent || err != nil {
		return Unsent, err
	}
	done, err := p.busy.take(ctx, pack)
	if err != nil {
		return Gone, err
	}
	defer done()
	for range tries {
		outcome, err := p.without(ctx, pack, slots, frugal)
		if !errors.Is(err, ErrChanged) {
			return outcome, err
		}
	}
	return Gone, changing(pack)
}

// forget removes slots from memory. unsent reports that their pack is not on its way.
func (p *Packs) forget(ctx context.Context, pack string, slots []blob.Slot) (unsent bool, err error) {
	for {
		p.mu.Lock()
		k := p.open[pack]
		if k == nil {
			p.mu.Unlock()
			return false, nil
		}
		if !k.sent || k.err != nil {
			for _, at := range slots {
				p.forgetLocked(k, at.First)
			}
			p.endEmptyLocked(k)
			p.sendSoonLocked(k)
			unsent = k.err == nil // else nobody knows what has come of its request
			p.mu.Unlock()
			return unsent, nil
		}
		p.mu.Unlock()
		if err := p.wait(ctx, k); err != nil {
			return false, err
		}
	}
}

// endEmptyLocked lets go of a pack that has nothing, and that nobody waits for.
func (p *Packs) endEmptyLocked(k *pack) {
	switch {
	case len(k.slots) > 0 || len(k.awaited) > 0:
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

// Several may remove from one pack at the same time, and any of them may die. No object is changed
// in place: a copy of a bucket, or its versions, would lose what an older dump of the database
// names. So each puts an object without what it removes, and deletes those that it was made of:
//
//	find      all objects of the pack; what any of them has is kept, but for what is to go
//	create    a new one under a name that nobody else uses
//	find      has one of those that it was made of gone? Somebody else has rewritten the pack, and
//	          what they have removed may be in the new one: it is deleted, and all begins again
//	delete    those that it was made of
//	find      is there another one beside the new one? Then all begins again
//
// Whoever deletes an object has put one before that has all of it that lives, so there always is
// one that has. Whoever returns has seen that nothing has what they removed; what another one is
// about to put was made of objects that are gone by then, which that one finds out.

// without rewrites a pack without slots.
func (p *Packs) without(ctx context.Context, pack string, slots []blob.Slot, frugal bool) (Outcome, error) {
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
	case frugal && left > 0 && indexUnits+left > MaxRewritten*(all-left):
		return Kept, nil
	}
	if i := slices.IndexFunc(in, func(s source) bool { return !s.whole }); i >= 0 { // what is damaged besides the index may still be brought back by hand
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
	return Gone, p.supersede(ctx, pack, objects, made)
}

// rewrite puts an object with the entries that are kept, if those that it is made of are there
// still.
func (p *Packs) rewrite(ctx context.Context, pack string, in []source, kept []entry) (fresh string, err error) {
	select {
	case p.rewriting <- struct{}{}:
		defer func() { <-p.rewriting }()
	case <-ctx.Done():
		return "", drive.Wrap(ctx.Err(), drive.Unavailable)
	}
	object, err := p.merged(ctx, pack, in, kept)
	if err != nil {
		return "", err
	}
	fresh = later(pack)
	if err := p.objects.Create(ctx, fresh, object); err != nil {
		return "", err
	}
	now, err := p.find(ctx, pack)
	if err != nil {
		return "", err // it stays beside the others, and goes with them next time
	}
	for _, s := range in {
		if !slices.Contains(now, s.object) {
			return "", errors.Join(ErrChanged, p.objects.Delete(context.WithoutCancel(ctx), fresh))
		}
	}
	return fresh, nil
}

// supersede deletes the objects that one was made of, nil: none.
func (p *Packs) supersede(ctx context.Context, pack string, old, made []string) error {
	for _, object := range old {
		if err := p.objects.Delete(ctx, object); err != nil {
			return err
		}
	}
	now, err := p.find(ctx, pack)
	if err != nil {
		return err
	}
	p.remember(pack, now)
	if !slices.Equal(now, made) {
		return ErrChanged
	}
	return nil
}

// source is an object of a pack, and what its index tells.
type source struct {
	object  string
	entries []entry
	whole   bool // the index is
}

// sources reads the indexes of objects. ErrChanged: one of them is gone.
func (p *Packs) sources(ctx context.Context, pack string, objects []string) ([]source, error) {
	in := make([]source, len(objects))
	for i, object := range objects {
		entries, whole, err := p.index(ctx, pack, object)
		if err != nil {
			return nil, goneOr(err)
		}
		in[i] = source{object: object, entries: entries, whole: whole}
	}
	return in, nil
}

// union returns the entries of all sources, those of one slot once, in the order of the slots.
func union(in []source) (all []entry) {
	for _, s := range in {
		all = append(all, s.entries...)
	}
	slices.SortStableFunc(all, func(a, b entry) int { return int(a.first - b.first) })
	return slices.CompactFunc(all, func(a, b entry) bool { return a.first == b.first })
}

func unitsOf(entries []entry) (n int64) {
	for _, e := range entries {
		n += e.units()
	}
	return n
}

// goneOr returns ErrChanged for an object that is not there any more.
func goneOr(err error) error {
	if drive.IsKind(err, drive.NotFound) {
		return ErrChanged
	}
	return err
}

// merged returns an object that has nothing but those entries, each as a source has it: one with
// the sum that was written with it, where there is one.
func (p *Packs) merged(ctx context.Context, pack string, in []source, kept []entry) ([]byte, error) {
	id, err := slothead.IDOf(pack)
	if err != nil {
		return nil, err
	}
	slots := map[int64][]byte{} // by their first unit
	sound := map[int64]bool{}
	for _, s := range in {
		object, err := p.read(ctx, pack, s)
		if err != nil {
			return nil, err
		}
		for _, e := range s.entries {
			b, ok := e.in(object)
			if !ok {
				return nil, fmt.Errorf("object %s is cut off: it has %d bytes", s.object, len(object))
			}
			if slots[e.first] == nil || !sound[e.first] {
				slots[e.first], sound[e.first] = b, isSound(b, id, e.slot(pack))
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

// read returns an object of a pack. Where a slot does not have its sum it is read once more: if the
// way from the store has changed it, the next one may be better, and what is damaged in the store
// stays as it is.
func (p *Packs) read(ctx context.Context, pack string, s source) ([]byte, error) {
	object, err := p.objects.Read(ctx, s.object, 0, MaxSize)
	if err != nil || allSound(object, pack, s.entries) {
		return object, goneOr(err)
	}
	again, err := p.objects.Read(ctx, s.object, 0, MaxSize)
	if err == nil && !allSound(again, pack, s.entries) && !bytes.Equal(object, again) {
		err = drive.Wrap(fmt.Errorf("object %s is read differently each time", s.object), drive.Unavailable)
	}
	return again, goneOr(err)
}

// allSound reports whether slots have the sums that were written with them.
func allSound(object []byte, pack string, slots []entry) bool {
	id, err := slothead.IDOf(pack)
	if err != nil {
		return false
	}
	for _, e := range slots {
		if b, ok := e.in(object); !ok || !isSound(b, id, e.slot(pack)) {
			return false
		}
	}
	return true
}

func isSound(b []byte, id uuid.UUID, at blob.Slot) bool {
	_, whole, err := content(b, id, at)
	return err == nil && whole
}

// busy are packs that somebody of this process changes: another one would find them changed.
type busy struct {
	mu    sync.Mutex
	packs map[string]chan struct{} // closed when its holder is done
}

// take waits until nobody changes a pack. done must follow.
func (b *busy) take(ctx context.Context, pack string) (done func(), err error) {
	for {
		b.mu.Lock()
		held := b.packs[pack]
		if held == nil {
			held = make(chan struct{})
			b.packs[pack] = held
			b.mu.Unlock()
			return func() { b.give(pack, held) }, nil
		}
		b.mu.Unlock()
		select {
		case <-held:
		case <-ctx.Done():
			return nil, drive.Wrap(ctx.Err(), drive.Unavailable)
		}
	}
}

func (b *busy) give(pack string, held chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.packs, pack)
	close(held)
}
