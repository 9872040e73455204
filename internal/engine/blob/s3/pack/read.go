package pack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/slothead"
)

// maxTries bounds the attempts of an operation whose pack is rewritten concurrently.
const maxTries = 8

// Read returns the content of a slot. whole reports whether its checksum matches. It returns
// NotFound if the content is neither in memory, nor in the pack's first object, nor in the objects
// found by Locate.
func (p *Packs) Read(ctx context.Context, at blob.Slot) (b []byte, whole bool, err error) {
	err = p.withSlot(ctx, at, at.Blocks*Unit, func(id uuid.UUID, slot []byte) (found bool, err error) {
		got, intact, err := content(slot, id, at)
		if got != nil {
			b, whole = got, intact
		}
		return intact, err
	})
	if b != nil && drive.IsKind(err, drive.NotFound) { // all copies are damaged
		err = nil
	}
	return b, whole, err
}

// Size returns the size of a slot's content in bytes, or NotFound like Read.
func (p *Packs) Size(ctx context.Context, at blob.Slot) (size int64, err error) {
	err = p.withSlot(ctx, at, slothead.HeaderSize, func(id uuid.UUID, slot []byte) (found bool, err error) {
		h, ok, err := slothead.ReadHeader(slot, id)
		size = int64(h.Size)
		return ok && h.First == at.First && unitsFor(h.Size) == at.Blocks, err
	})
	return size, err
}

// withSlot calls accept with the first n bytes of the slot from memory, or from each object until
// is returns true. It returns NotFound if accept never returned true.
func (p *Packs) withSlot(ctx context.Context, at blob.Slot, n int64, accept func(id uuid.UUID, slot []byte) (bool, error)) error {
	id, err := slothead.PackID(at.Pack)
	if err != nil || at.First < indexUnits {
		return drive.Wrap(err, drive.NotFound)
	}
	b, err := p.inMemory(at)
	if err != nil {
		return err
	}
	if b != nil {
		return notFoundUnless(accept(id, b))
	}
	for range maxTries {
		objects, moved := p.objectsOf(at.Pack)
		found, stale, err := p.tryObjects(ctx, objects, at, func(object string, at int64) (bool, error) {
			b, err := p.objects.Read(ctx, object, at*Unit, n)
			if err != nil {
				return false, err
			}
			return accept(id, b)
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
	return rewrittenTooOften(at.Pack)
}

// rewrittenTooOften returns the Unavailable error for a pack that is rewritten faster than it can
// be read.
func rewrittenTooOften(pack string) error {
	return drive.Wrap(fmt.Errorf("pack %s is rewritten again and again", pack), drive.Unavailable)
}

// tryObjects calls try with each possible location of a slot in objects, until try returns true: in
// the pack's first object the unit of the slot's name, otherwise the unit from the index. stale
// reports that one of the objects is missing.
func (p *Packs) tryObjects(ctx context.Context, objects []string, at blob.Slot, try func(object string, at int64) (bool, error)) (found, stale bool, err error) {
	for _, object := range objects {
		if object == ObjectName(at.Pack) {
			found, err = try(object, at.First)
		}
		if err == nil && !found {
			var entries []entry
			entries, _, err = p.readIndex(ctx, at.Pack, object)
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

// maxMoved bounds the number of rewritten packs with cached object names.
const maxMoved = 4096

// objectsOf returns the cached objects of a pack and true if the pack is known to be rewritten;
// else the object with the pack's own name and false. It asks the store for nothing.
func (p *Packs) objectsOf(pack string) (objects []string, moved bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if objects = p.moved[pack]; len(objects) > 0 {
		return objects, true
	}
	return []string{ObjectName(pack)}, false
}

// Locate lists the objects of a pack, caches them, and reports whether the pack was rewritten. A
// missing pack is cached for a moment, because contents from another store have names of packs that
// do not exist and are read one after the other.
func (p *Packs) Locate(ctx context.Context, pack string) (moved bool, err error) {
	if p.isMissing(pack) {
		return false, nil
	}
	objects, err := p.find(ctx, pack)
	if err == nil {
		moved = p.cacheObjects(pack, objects)
	}
	return moved, err
}

// missingTTL is how long a missing pack is cached. It is much shorter than the grace period of
// deletions, within which no pack is both put and rewritten.
const missingTTL = time.Second

// isMissing reports whether the pack was found missing less than missingTTL ago. Only the last
// missing pack is remembered.
func (p *Packs) isMissing(pack string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.missing == pack && time.Since(p.missingSince) < missingTTL
}

// cacheObjects caches the objects of a pack that a listing returned, and reports whether the pack
// was rewritten: other objects than the one with its own name. Without objects, the pack is
// remembered as missing. A full cache is emptied.
func (p *Packs) cacheObjects(pack string, objects []string) (moved bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(objects) == 0 {
		p.missing, p.missingSince = pack, time.Now()
	}
	if len(objects) == 0 || len(objects) == 1 && objects[0] == ObjectName(pack) {
		delete(p.moved, pack)
		return false
	}
	if len(p.moved) >= maxMoved {
		clear(p.moved)
	}
	p.moved[pack] = objects
	return true
}

// find lists the names of the objects of a pack, which are several while it is being rewritten;
// none and no error if the pack is missing.
func (p *Packs) find(ctx context.Context, pack string) ([]string, error) {
	all, err := p.objects.Find(ctx, ObjectName(pack))
	return slices.DeleteFunc(all, func(object string) bool { of, ok := NameOfObject(object); return !ok || of != pack }), err
}

// notFoundUnless returns NotFound if found is false and err is nil.
func notFoundUnless(found bool, err error) error {
	if err == nil && !found {
		return drive.Fail(drive.NotFound)
	}
	return err
}

// find returns the entry of a slot; false if there is none.
func find(entries []entry, at blob.Slot) (entry, bool) {
	for _, e := range entries {
		if e.first == at.First && e.units() == at.Blocks {
			return e, true
		}
	}
	return entry{}, false
}

// readIndex returns the entries of an object of a pack. whole is false if the index is damaged and
// the entries come from a scan of the object.
func (p *Packs) readIndex(ctx context.Context, pack, object string) (entries []entry, whole bool, err error) {
	id, err := slothead.PackID(pack)
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

// Content is a content of a pack.
type Content struct {
	Slot blob.Slot // in bytes
	Size int64
}

// List returns the contents of a pack in the bucket. objects are its objects from a listing. A pack
// that is gone has none.
func (p *Packs) List(ctx context.Context, pack string, objects []string) ([]Content, error) {
	for range maxTries {
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
	return nil, rewrittenTooOften(pack)
}
