package pack

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/slothead"
)

// NameOfFile returns the name of the pack with that file name; ok is false if the file is not a
// pack.
func NameOfFile(file string) (name string, ok bool) {
	name, ok = strings.CutSuffix(file, Suffix)
	if !ok || !strings.HasPrefix(name, blob.PutPrefix) {
		return "", false
	}
	if _, slot := blob.SlotOf(name); slot { // a content, not a pack
		return "", false
	}
	_, ok = blob.ShardOf(name)
	return name, ok
}

// Each calls fn for each content of a pack, ordered by slot, and stops at the first error of fn. A
// missing pack has no contents. A pack that a crash has left empty is removed.
func (p *Packs) Each(ctx context.Context, name string, fn func(at blob.Slot, size int64) error) error {
	id, err := slothead.PackID(name)
	if err != nil {
		return err
	}
	path := p.path(name)
	f, err := os.Open(path)
	if err != nil {
		return ignoreNotExist(err)
	}
	none := true
	err = errors.Join(p.eachBlock(f, func(b []byte, first int64) (next int64, err error) {
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

// eachBlock calls fn with the first HeaderSize bytes of a block, or fewer at the end of the file;
// fn returns the next block to look at. Blocks of zeros that are holes are skipped. A block that
// cannot be read is logged and skipped. It stops at the first error of fn.
func (p *Packs) eachBlock(f *os.File, fn func(b []byte, first int64) (next int64, err error)) error {
	var b [HeaderSize]byte
	for first := int64(0); ; {
		off, err := p.disk.NextData(f, first*Block)
		if isEOF(err) {
			return nil
		}
		if err != nil {
			return err
		}
		first = max(first, off/Block)
		n, err := p.readAt(f, b[:], first*Block)
		if err != nil && !isEOF(err) { // affects one content, whose readers get the error
			p.log.Error("block of a pack cannot be read; the small file in it is missing from the listing: check the disk", "pack", f.Name(), "block", first, "error", err)
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

// onlyZeros reports whether a file has only zeros. They may be written out, on a disk that cannot
// free ranges or in a copy that does not keep holes.
func (p *Packs) onlyZeros(f *os.File) (bool, error) {
	b := make([]byte, 16*Block)
	for off := int64(0); ; {
		at, err := p.disk.NextData(f, off)
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
