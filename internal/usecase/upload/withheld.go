package upload

import (
	"context"
	"io"

	"example.org/smartdrive/internal/engine/blob"
)

// A body with a declared digest counts as a whole or not at all. Its bytes are written to their
// place as they arrive, but enter the journal only when the last byte has arrived and the digest
// matches. This needs no more memory than any other body, and the space was reserved for the upload
// anyway.
//
//	crash ...                    effect
//	before the digest matched    the body is lost
//	between two journal entries  the entries made so far count; they were verified with the rest
//
// Its writers stay registered throughout, so a park, seal or fence must end this request first.

// withheld is a piece, the bytes that extend one part, that is written but not journaled, with what
// its commit needs. It must be committed or discarded.
type withheld struct {
	blob.PendingExtend
	e    blob.Extend
	row  Row
	tail *blob.Tail
	w    *partWriter
}

// runVerified stores a body whose bytes count only if all of them match the declared digest
// (request.Verify). It commits all withheld pieces, or discards all after an error of the body or
// DigestMismatch. If a commit fails, the pieces before it stay. r.offset is then the end of the
// committed pieces.
func (r *appendRun) runVerified(ctx context.Context, body io.Reader) error {
	err := r.run(ctx, io.TeeReader(body, r.request.Verify))
	if err == nil {
		err = r.request.Verify.Verify()
	}
	r.offset = r.request.Offset
	for i, w := range r.withheld {
		if err == nil {
			err = r.commitWithheld(ctx, w)
		} else {
			w.Discard(ctx)
			w.tail.Close()
		}
		r.upload.unregisterWriter(w.e.N, w.w)
		r.withheld[i] = withheld{}
	}
	return err
}

// withhold stores the piece e in the staging without journaling it and adds it to r.withheld. The
// caller must later call commitWithheld or discard the piece. On an error nothing is added.
func (r *appendRun) withhold(ctx context.Context, row Row, e blob.Extend, body blob.Body, tail *blob.Tail, w *partWriter) (blob.Part, error) {
	h, err := r.appender.staging.PrepareExtend(ctx, row.Ref(), e, body)
	if err != nil {
		return blob.Part{}, err
	}
	part := h.Part()
	if part.Size == e.Whole {
		tail.Close() // the part is complete, and there may be thousands of parts
	}
	r.withheld = append(r.withheld, withheld{h, e, row, tail, w})
	return part, nil
}

// commitWithheld journals a withheld piece, even if ctx has ended, and advances r.offset to its
// end. On an error, interpreted by handleWriteError, the piece is discarded.
func (r *appendRun) commitWithheld(ctx context.Context, w withheld) error {
	part := w.Part()
	if err := w.Commit(context.WithoutCancel(ctx)); err != nil {
		w.tail.Close()
		_, err = r.appender.receiver.handleWriteError(ctx, r.upload, w.row, err, true)
		return err
	}
	r.noteStored(ctx, part, w.e, w.tail, w.w)
	r.offset = endOf(part, r.partSize)
	return nil
}
