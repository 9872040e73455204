package pack

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/blob/slothead"
)

// tries is how often in a row a pack may have been replaced while it was being read or replaced.
const tries = 8

// Read returns the content of a slot; one that has none is NotFound. whole reports whether it has
// the sum that was written with it.
func (p *Packs) Read(ctx context.Context, at blob.Slot) (b []byte, whole bool, err error) {
	err = p.slot(ctx, at, at.Blocks*Unit, func(id uuid.UUID, slot []byte) (found bool, err error) {
		b, whole, err = content(slot, id, at)
		return b != nil, err
	})
	return b, whole, err
}

// Size returns the size of a slot's content in bytes; one that has none is NotFound.
func (p *Packs) Size(ctx context.Context, at blob.Slot) (size int64, err error) {
	err = p.slot(ctx, at, slothead.HeadSize, func(id uuid.UUID, slot []byte) (found bool, err error) {
		h, ok, err := slothead.Read(slot, id)
		size = int64(h.Size)
		return ok && h.First == at.First && unitsFor(h.Size) == at.Blocks, err
	})
	return size, err
}

// slot calls is with the first n bytes of a slot: as it is in memory, where its name says, and,
// where it is not that one, where the index does.
func (p *Packs) slot(ctx context.Context, at blob.Slot, n int64, is func(id uuid.UUID, slot []byte) (bool, error)) error {
	id, err := slothead.IDOf(at.Pack)
	if err != nil || at.First < indexUnits {
		return drive.Wrap(err, drive.NotFound)
	}
	b, err := p.inMemory(at)
	if err != nil {
		return err
	}
	if b != nil {
		return judged(is(id, b))
	}
	b, _, err = p.objects.Read(ctx, at.Pack, at.First*Unit, n, "")
	if err != nil {
		return err
	}
	if found, err := is(id, b); found || err != nil {
		return err
	}
	asked := int64(0) // where it was not, although the index told so
	for range tries {
		entries, tag, _, err := p.index(ctx, at.Pack)
		if err != nil {
			return err
		}
		e, ok := find(entries, at)
		if !ok || e.at == asked { // else it was moved on, and the store compares no tags
			return drive.Fail(drive.NotFound)
		}
		b, _, err := p.objects.Read(ctx, at.Pack, e.at*Unit, n, tag)
		if errors.Is(err, ErrChanged) {
			continue
		}
		if err != nil {
			return err
		}
		if found, err := is(id, b); found || err != nil {
			return err
		}
		asked = e.at
	}
	return drive.Wrap(fmt.Errorf("pack %s is replaced again and again", at.Pack), drive.Unavailable)
}

func judged(found bool, err error) error {
	if err == nil && !found {
		return drive.Fail(drive.NotFound)
	}
	return err
}

func find(entries []entry, at blob.Slot) (entry, bool) {
	for _, e := range entries {
		if e.first == at.First && e.units() == at.Blocks {
			return e, true
		}
	}
	return entry{}, false
}

// index returns what a pack has, and its tag. Where the index is not whole the object is looked
// through.
func (p *Packs) index(ctx context.Context, pack string) (entries []entry, tag string, whole bool, err error) {
	id, err := slothead.IDOf(pack)
	if err != nil {
		return nil, "", false, drive.Wrap(err, drive.NotFound)
	}
	b, tag, err := p.objects.Read(ctx, pack, 0, IndexSize, "")
	if err != nil {
		return nil, "", false, err
	}
	if entries, err = readIndex(b, id); !errors.Is(err, errDamaged) {
		return entries, tag, true, err
	}
	if b, tag, err = p.objects.Read(ctx, pack, 0, MaxSize, ""); err != nil {
		return nil, "", false, err
	}
	entries, err = scan(b, id)
	return entries, tag, false, err
}

// Content is what a pack has in a slot.
type Content struct {
	Slot blob.Slot
	Size int64
}

// List returns what a pack in the bucket has. One that is gone has none.
func (p *Packs) List(ctx context.Context, pack string) ([]Content, error) {
	entries, _, _, err := p.index(ctx, pack)
	if drive.IsKind(err, drive.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list pack %s: %w", pack, err)
	}
	all := make([]Content, len(entries))
	for i, e := range entries {
		all[i] = Content{e.slot(pack), int64(e.size)}
	}
	return all, nil
}
