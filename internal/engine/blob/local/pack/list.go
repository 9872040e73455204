package pack

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/blob/slothead"
)

// NameOf returns the name of the pack whose file has that name; false: it is none of a pack.
func NameOf(file string) (name string, ok bool) {
	name, ok = strings.CutSuffix(file, Suffix)
	if !ok || !strings.HasPrefix(name, blob.PutPrefix) {
		return "", false
	}
	if _, slot := blob.SlotOf(name); slot { // a content is none
		return "", false
	}
	_, ok = blob.ShardOf(name)
	return name, ok
}

// Each calls fn for each content of a pack, in the order of the slots. One that is gone has none,
// and one that a crash has left with nothing is removed.
func (p *Packs) Each(ctx context.Context, name string, fn func(at blob.Slot, size int64) error) error {
	id, err := slothead.IDOf(name)
	if err != nil {
		return err
	}
	path := p.path(name)
	f, err := os.Open(path)
	if err != nil {
		return unlessGone(err)
	}
	none := true
	err = errors.Join(p.each(f, func(b []byte, first int64) (next int64, err error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		h, ok, err := readHead(b, id, first)
		if err != nil || !ok {
			return first + 1, err
		}
		size, err := sizeIn(f, first, h)
		if err != nil {
			return 0, err
		}
		none = false
		at := blob.Slot{Pack: name, First: first, Blocks: blocksFor(h.Size)}
		return first + at.Blocks, fn(at, size)
	}), f.Close())
	if err == nil && none {
		err = p.removeEmpty(name, path)
	}
	return err
}

// each calls fn with the first bytes of each block that is asked for and may not be zeros.
func (p *Packs) each(f *os.File, fn func(b []byte, first int64) (next int64, err error)) error {
	var b [HeadSize]byte
	for first := int64(0); ; {
		off, err := p.disk.Data(f, first*Block)
		if isEOF(err) {
			return nil
		}
		if err != nil {
			return err
		}
		first = max(first, off/Block)
		n, err := p.readAt(f, b[:], first*Block)
		if err != nil && !isEOF(err) { // of one content: who looks for it gets the error
			p.log.Error("a block of a pack of small contents cannot be read", "pack", f.Name(), "block", first, "error", err)
			first++
			continue
		}
		if n == 0 {
			return nil
		}
		if first, err = fn(b[:n], first); err != nil {
			return err
		}
	}
}

// onlyZeros reports whether a file has nothing else. Some may be written down: where the disk
// cannot free a range, and in a copy that was made without regard to holes.
func (p *Packs) onlyZeros(f *os.File) (bool, error) {
	b := make([]byte, 16*Block)
	for off := int64(0); ; {
		at, err := p.disk.Data(f, off)
		if isEOF(err) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		n, err := f.ReadAt(b, at)
		if err != nil && !isEOF(err) {
			return false, err
		}
		if slices.ContainsFunc(b[:n], func(c byte) bool { return c != 0 }) {
			return false, nil
		}
		if n == 0 {
			return true, nil
		}
		off = at + int64(n)
	}
}
