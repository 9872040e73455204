package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/blob/slothead"
)

// maxRewriting is how many packs are in memory at a time to be replaced.
const maxRewriting = 8

// Remove durably removes slots of one pack, also what was named and never laid. unsent reports that
// the pack was never in the bucket: what is not in memory any more is nowhere.
func (p *Packs) Remove(ctx context.Context, slots []blob.Slot) (unsent bool, err error) {
	if len(slots) == 0 {
		return false, nil
	}
	pack := slots[0].Pack
	if unsent, err = p.forget(ctx, pack, slots); unsent || err != nil {
		return unsent, err
	}
	done, err := p.busy.take(ctx, pack)
	if err != nil {
		return false, err
	}
	defer done()
	for range tries {
		err := p.without(ctx, pack, slots)
		if !errors.Is(err, ErrChanged) {
			return false, err
		}
	}
	return false, drive.Wrap(fmt.Errorf("pack %s is replaced again and again", pack), drive.Unavailable)
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

// without takes slots out of a pack in the bucket.
func (p *Packs) without(ctx context.Context, pack string, slots []blob.Slot) error {
	entries, tag, whole, err := p.index(ctx, pack)
	if drive.IsKind(err, drive.NotFound) {
		return nil
	}
	if err == nil && !whole { // what is damaged besides it may still be brought back by hand
		err = fmt.Errorf("remove from pack %s: %w", pack, errDamaged)
	}
	if err != nil {
		return err
	}
	kept := slices.DeleteFunc(slices.Clone(entries), func(e entry) bool { return slices.Contains(slots, e.slot(pack)) })
	switch len(kept) {
	case len(entries):
		return nil
	case 0:
		return p.objects.Delete(ctx, pack) // packs only lose what they have
	}
	select {
	case p.rewriting <- struct{}{}:
		defer func() { <-p.rewriting }()
	case <-ctx.Done():
		return drive.Wrap(ctx.Err(), drive.Unavailable)
	}
	object, err := p.read(ctx, pack, tag, kept)
	if err != nil {
		return goneOr(err)
	}
	if !isOf(object, pack, entries) {
		return ErrChanged
	}
	smaller, err := only(object, pack, kept)
	if err != nil {
		return err
	}
	return goneOr(p.objects.Replace(ctx, pack, smaller, tag))
}

// goneOr returns ErrChanged for an object that is not there any more.
func goneOr(err error) error {
	if drive.IsKind(err, drive.NotFound) {
		return ErrChanged
	}
	return err
}

// read returns the object of a pack. Where a slot does not have its sum it is read once more: if
// the way from the store has changed it, the next one may be better, and what is damaged in the
// store stays as it is.
func (p *Packs) read(ctx context.Context, pack, tag string, kept []entry) ([]byte, error) {
	object, _, err := p.objects.Read(ctx, pack, 0, MaxSize, tag)
	if err != nil || sound(object, pack, kept) {
		return object, err
	}
	again, _, err := p.objects.Read(ctx, pack, 0, MaxSize, tag)
	if err == nil && !sound(again, pack, kept) && !bytes.Equal(object, again) {
		err = drive.Wrap(fmt.Errorf("pack %s is read differently each time", pack), drive.Unavailable)
	}
	return again, err
}

// isOf reports whether an object has that index. A store that compares no tags may have given
// another object than the one whose index was read, with its slots elsewhere.
func isOf(object []byte, pack string, entries []entry) bool {
	id, err := slothead.IDOf(pack)
	if err != nil {
		return false
	}
	its, err := readIndex(object, id)
	return err == nil && slices.Equal(its, entries)
}

// sound reports whether slots have the sums that were written with them.
func sound(object []byte, pack string, slots []entry) bool {
	id, err := slothead.IDOf(pack)
	if err != nil {
		return false
	}
	for _, e := range slots {
		b, ok := e.in(object)
		if !ok {
			return false
		}
		if _, whole, err := content(b, id, e.slot(pack)); err != nil || !whole {
			return false
		}
	}
	return true
}

// only returns the object of a pack that has nothing but those slots, each as it is.
func only(object []byte, pack string, kept []entry) ([]byte, error) {
	id, err := slothead.IDOf(pack)
	if err != nil {
		return nil, err
	}
	smaller := make([]byte, IndexSize, len(object))
	moved := make([]entry, len(kept))
	for i, e := range kept {
		b, ok := e.in(object)
		if !ok {
			return nil, fmt.Errorf("pack %s is cut off: it has %d bytes", pack, len(object))
		}
		moved[i] = entry{first: e.first, at: int64(len(smaller)) / Unit, size: e.size}
		smaller = append(smaller, b...)
	}
	putIndex(smaller, id, moved)
	return smaller, nil
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
