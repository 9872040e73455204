package upload

import (
	"context"
	"io"

	"smartdrive/internal/engine/blob"
)

// A body with a digest counts as a whole or not at all, however long it is. Its bytes go to their
// places as they come, like those of any other; only the journal does not name them before the last
// one has come and the digest agrees. So it needs no more memory than any other body, and room that
// was reserved for the upload in any case.
//
//	dies ...                     and then
//	before the digest agreed     nothing of it has come
//	between two entries          what is entered was verified with the rest: it counts
//
// Each of its parts is being written all the time, so nobody parks, seals or fences the upload
// beside it: it is ended first.

// withheld is what has come for one part and is not in the journal.
type withheld struct {
	blob.Withheld
	e    blob.Extend
	row  Row
	tail *blob.Tail
	w    *partWriter
}

// verified takes in a body of which nothing counts before all of it agrees with what was declared.
func (f *filling) verified(ctx context.Context, body io.Reader) error {
	err := f.run(ctx, io.TeeReader(body, f.a.Verify))
	if err == nil {
		err = f.a.Verify.Verify()
	}
	f.offset = f.a.Offset
	for i, w := range f.withheld {
		if err == nil {
			err = f.enter(ctx, w)
		} else {
			w.Discard(ctx)
			w.tail.Close()
		}
		f.l.endPart(w.e.N, w.w)
		f.withheld[i] = withheld{}
	}
	return err
}

// withhold takes a piece in that does not count yet.
func (f *filling) withhold(ctx context.Context, row Row, e blob.Extend, body blob.Body, tail *blob.Tail, w *partWriter) (blob.Part, error) {
	h, err := f.s.staging.Withhold(ctx, row.Ref(), e, body)
	if err != nil {
		return blob.Part{}, err
	}
	part := h.Part()
	if part.Size == e.Whole {
		tail.Close() // nothing follows in this part: there may be thousands
	}
	f.withheld = append(f.withheld, withheld{h, e, row, tail, w})
	return part, nil
}

// enter makes what was withheld count.
func (f *filling) enter(ctx context.Context, w withheld) error {
	part := w.Part()
	if err := w.Enter(context.WithoutCancel(ctx)); err != nil {
		w.tail.Close()
		_, err = f.s.receiver.notStaged(ctx, f.l, w.row, err, true)
		return err
	}
	f.took(ctx, part, w.e, w.tail, w.w)
	f.offset = endOf(part, f.partSize)
	return nil
}
