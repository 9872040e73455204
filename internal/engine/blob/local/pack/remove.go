package pack

import (
	"cmp"
	"errors"
	"os"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/slothead"
)

// Remove durably frees slots of one pack. gone had content. missing had none: they were removed
// before or are elsewhere. err is for the other slots, such as one with an unreadable header, which
// does not prevent the removal of the others.
func (p *Packs) Remove(slots []blob.Slot) (gone, missing []blob.Slot, err error) {
	if len(slots) == 0 {
		return nil, nil, nil
	}
	name := slots[0].Pack
	path := p.path(name)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil, slots, nil
	}
	if err != nil {
		return nil, nil, err
	}
	var (
		cut  []blob.Slot // of missing: freed again, because a crash may have interrupted the first time
		errs []error
	)
	for _, at := range slots {
		_, err := headOf(f, at)
		switch {
		case err == nil:
			gone = append(gone, at)
			continue
		case drive.IsKind(err, drive.NotFound):
			var mine bool
			if mine, err = unused(f, at); mine {
				cut = append(cut, at)
			}
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		missing = append(missing, at)
	}
	for _, s := range mergeRanges(slices.Concat(gone, cut)) {
		if err := p.disk.Free(f, s.First*Block, s.Blocks*Block); err != nil {
			return nil, nil, errors.Join(err, f.Close())
		}
	}
	if err := errors.Join(p.disk.SyncFreed(f), f.Close()); err != nil {
		return nil, nil, err
	}
	return gone, missing, errors.Join(blob.JoinFirst(errs), p.removeEmpty(name, path))
}

// unused reports whether no content occupies a block of the slot. A slot that was never given out
// may overlap others.
func unused(f *os.File, at blob.Slot) (bool, error) {
	id, err := slothead.PackID(at.Pack)
	if err != nil {
		return false, nil //nolint:nilerr // such a pack was never given
	}
	var b [HeaderSize]byte
	for first := max(0, at.First-blocksFor(MaxContent)+1); first < at.First+at.Blocks; first++ {
		n, err := f.ReadAt(b[:], first*Block)
		if err != nil && !isEOF(err) {
			return false, err
		}
		h, ok, err := readHead(b[:n], id, first)
		if err != nil || ok && first+blocksFor(h.Size) > at.First {
			return false, err
		}
	}
	return true, nil
}

// mergeRanges returns the block ranges of slots of one pack, with adjacent ones merged.
func mergeRanges(slots []blob.Slot) (all []blob.Slot) {
	sorted := slices.SortedFunc(slices.Values(slots), func(a, b blob.Slot) int { return cmp.Compare(a.First, b.First) })
	for _, s := range sorted {
		if n := len(all); n > 0 && all[n-1].First+all[n-1].Blocks >= s.First {
			all[n-1].Blocks = max(all[n-1].Blocks, s.First+s.Blocks-all[n-1].First)
			continue
		}
		all = append(all, s)
	}
	return all
}
