package pack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/blob/slothead"
)

// tries is how often in a row a pack may have been rewritten while it was being read or rewritten.
const tries = 8

// Read returns the content of a slot. whole reports whether it has the sum that was written with
// it. NotFound: there is none in memory, in the object that the pack was put as, and in those that
// Locate has found.
func (p *Packs) Read(ctx context.Context, at blob.Slot) (b []byte, whole bool, err error) {
	err = p.slot(ctx, at, at.Blocks*Unit, func(id uuid.UUID, slot []byte) (found bool, err error) {
		got, sound, err := content(slot, id, at)
		if got != nil {
			b, whole = got, sound
		}
		return sound, err
	})
	if b != nil && drive.IsKind(err, drive.NotFound) { // all that there are of it are damaged
		err = nil
	}
	return b, whole, err
}

// Size returns the size of a slot's content in bytes. NotFound is as in Read.
func (p *Packs) Size(ctx context.Context, at blob.Slot) (size int64, err error) {
	err = p.slot(ctx, at, slothead.HeadSize, func(id uuid.UUID, slot []byte) (found bool, err error) {
		h, ok, err := slothead.Read(slot, id)
		size = int64(h.Size)
		return ok && h.First == at.First && unitsFor(h.Size) == at.Blocks, err
	})
	return size, err
}

// slot calls is with the first n bytes of a slot, as it is in memory and in each object, until it
// is satisfied.
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
	for range tries {
		objects, moved := p.objectsOf(at.Pack)
		found, stale, err := p.among(ctx, objects, at, func(object string, at int64) (bool, error) {
			b, err := p.objects.Read(ctx, object, at*Unit, n)
			if err != nil {
				return false, err
			}
			return is(id, b)
		})
		if found || err != nil {
			return err
		}
		if !moved || !stale {
			return drive.Fail(drive.NotFound)
		}
		if _, err := p.Locate(ctx, at.Pack); err != nil {
			return err
		}
	}
	return changing(at.Pack)
}

// changing reports a pack that others rewrite faster than it can be read.
func changing(pack string) error {
	return drive.Wrap(fmt.Errorf("pack %s is rewritten again and again", pack), drive.Unavailable)
}

// among calls try with the places of a slot in objects, until it is satisfied: in the object that
// the pack was put as that which the name tells, and else that which the index tells. stale reports
// that one of the objects is not there any more.
func (p *Packs) among(ctx context.Context, objects []string, at blob.Slot, try func(object string, at int64) (bool, error)) (found, stale bool, err error) {
	for _, object := range objects {
		if object == ObjectOf(at.Pack) {
			found, err = try(object, at.First)
		}
		if err == nil && !found {
			var entries []entry
			entries, _, err = p.index(ctx, at.Pack, object)
			if e, ok := find(entries, at); ok {
				found, err = try(object, e.at)
			}
		}
		switch {
		case drive.IsKind(err, drive.NotFound):
			stale, err = true, nil
		case found || err != nil:
			return found, stale, err
		}
	}
	return false, stale, nil
}

// mostMoved is how many packs of which it is known where they are may be in memory.
const mostMoved = 4096

// objectsOf returns the objects in which a pack lies, as far as is known; moved reports that it was
// rewritten.
func (p *Packs) objectsOf(pack string) (objects []string, moved bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if objects = p.moved[pack]; len(objects) > 0 {
		return objects, true
	}
	return []string{ObjectOf(pack)}, false
}

// Locate finds the objects in which a pack lies, and reports whether it was rewritten. That there
// are none is believed for a moment: contents that came from another store have names of packs,
// too, and are asked for one after the other.
func (p *Packs) Locate(ctx context.Context, pack string) (moved bool, err error) {
	if p.isMissing(pack) {
		return false, nil
	}
	objects, err := p.find(ctx, pack)
	if err == nil {
		moved = p.remember(pack, objects)
	}
	return moved, err
}

// believed is for how long a pack of which there was no object counts as missing. It is much
// shorter than the grace of what is deleted: within it no pack is put and rewritten.
const believed = time.Second

func (p *Packs) isMissing(pack string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.missing == pack && time.Since(p.missed) < believed
}

func (p *Packs) remember(pack string, objects []string) (moved bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(objects) == 0 {
		p.missing, p.missed = pack, time.Now()
	}
	if len(objects) == 0 || len(objects) == 1 && objects[0] == ObjectOf(pack) {
		delete(p.moved, pack)
		return false
	}
	if len(p.moved) >= mostMoved {
		clear(p.moved)
	}
	p.moved[pack] = objects
	return true
}

// find returns the objects of a pack.
func (p *Packs) find(ctx context.Context, pack string) ([]string, error) {
	all, err := p.objects.Find(ctx, ObjectOf(pack))
	return slices.DeleteFunc(all, func(object string) bool { of, ok := Of(object); return !ok || of != pack }), err
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

// index returns what an object of a pack has. Where the index is not whole the object is looked
// through.
func (p *Packs) index(ctx context.Context, pack, object string) (entries []entry, whole bool, err error) {
	id, err := slothead.IDOf(pack)
	if err != nil {
		return nil, false, drive.Wrap(err, drive.NotFound)
	}
	b, err := p.objects.Read(ctx, object, 0, IndexSize)
	if err != nil {
		return nil, false, err
	}
	if entries, err = readIndex(b, id); !errors.Is(err, errDamaged) {
		return entries, true, err
	}
	if b, err = p.objects.Read(ctx, object, 0, MaxSize); err != nil {
		return nil, false, err
	}
	entries, err = scan(b, id)
	return entries, false, err
}

// Content is what a pack has in a slot.
type Content struct {
	Slot blob.Slot
	Size int64
}

// List returns what a pack in the bucket has. objects are those of it that somebody has seen. One
// that is gone has none.
func (p *Packs) List(ctx context.Context, pack string, objects []string) ([]Content, error) {
	for range tries {
		in, err := p.sources(ctx, pack, objects)
		if errors.Is(err, ErrChanged) { // it was rewritten since
			if objects, err = p.find(ctx, pack); err == nil {
				continue
			}
		}
		if err != nil {
			return nil, fmt.Errorf("list pack %s: %w", pack, err)
		}
		var all []Content
		for _, e := range union(in) {
			all = append(all, Content{e.slot(pack), int64(e.size)})
		}
		return all, nil
	}
	return nil, changing(pack)
}
