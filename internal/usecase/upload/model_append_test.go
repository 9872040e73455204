package upload_test

import (
	"bytes"
	"fmt"
	"io"

	"pgregory.net/rapid"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload"
)

// append queries the offset and continues from there, as clients do. A promised offset must never
// shrink.
func (h *history) append(rt *rapid.T, it *item) {
	file, who := it.file(original), h.who[it.who]
	n := rapid.SampledFrom([]int{0, 1, 1000, mib / 2, mib, 2 * mib}).Draw(rt, "bytes")
	cut := rapid.IntRange(0, 3).Draw(rt, "cut") == 0
	declare := it.open && rapid.IntRange(0, 4).Draw(rt, "declare") == 0
	fits := h.fits(rt, it)
	var at, end int
	reached := false
	faulty, err := h.under(rt, fmt.Sprintf("append %d bytes to %s, cut %v", n, it.path, cut), func() error {
		p, err := h.Offset(rt.Context(), who, it.id)
		if err != nil {
			return err
		}
		at, end = int(p.Offset), int(p.Offset)
		if p.State != upload.Active && p.State != upload.Parked {
			return drive.Fail(drive.WrongState)
		}
		if declare {
			if err := h.DeclareSize(rt.Context(), who, it.id, drive.ByteSize(it.size)); err != nil {
				return err
			}
		}
		part := file[at:min(at+n, len(file))]
		var body io.Reader = bytes.NewReader(part)
		if cut {
			body = io.MultiReader(bytes.NewReader(part[:len(part)/2]), failing{})
		}
		it.mayFill(at, at+len(part))
		got, err := h.Append(rt.Context(), who, it.id, upload.Append{Offset: p.Offset, Size: drive.ByteSize(len(part))}, body)
		end = max(end, int(got))
		_, acked := it.acked[(end-1)/it.partSize()]
		reached = end > at && acked
		if err == nil && end != at+len(part) {
			rt.Fatalf("an append of %d bytes at %d ends at %d", len(part), at, end)
		}
		return err
	})
	switch {
	case err == nil, faulty:
	case cut && drive.IsKind(err, drive.BadRequest), !it.isOpen():
	case drive.IsKind(err, drive.Quota) && !fits:
	case drive.IsKind(err, drive.OffsetMismatch) && reached: // a part that was there: it goes on behind it
	default:
		rt.Fatalf("append: %v", err)
	}
	if it.isOpen() && at == end && err != nil {
		return // the upload may not even have been asked
	}
	if it.isOpen() && at < it.kept {
		rt.Fatalf("P2: the offset of %s is %d, it was %d", it.path, at, it.kept)
	}
	it.keep(end)
}

// mayFill records that parts of these bytes may exist, whatever the reply says.
func (it *item) mayFill(from, to int) {
	for n := from / it.partSize(); n*it.partSize() < to; n++ {
		it.mayHave(n, 0)
	}
}

// keep records a promised offset. Parts of known length before it are complete; the rest is a tail.
func (it *item) keep(offset int) {
	it.kept = max(it.kept, offset)
	for n := range it.parts() {
		end := (n + 1) * it.partSize()
		if end <= it.kept || !it.open && it.kept == it.size {
			it.acked[n] = 0
			delete(it.lost, n)
		}
	}
}
