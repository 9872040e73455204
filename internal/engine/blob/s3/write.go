package s3

import (
	"context"
	"errors"
	"fmt"
	"io"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// Write stores part w.N: it takes a lease in the journal, streams the bytes to the store, and adds
// an entry to the journal.
//
//	dies after ...     is left                            and then
//	the lease          a lease                            it expires, or a Write of this process takes it over
//	the bytes          a part without an entry            held; overwritten by the next try, removed with the upload
//	the entry          an accepted part, unacknowledged   the client sends it again: PartExistsError, compared
func (s *Staging) Write(ctx context.Context, ref blob.Ref, w blob.Write, body blob.Body) (blob.Part, error) {
	if err := ref.CheckWrite(w); err != nil {
		return blob.Part{}, err
	}
	if w.N >= maxParts {
		return blob.Part{}, drive.Fail(drive.PartRange, "limit", maxParts, "sent", w.N)
	}
	if err := ctx.Err(); err != nil {
		return blob.Part{}, fmt.Errorf("write part %d: %w", w.N, err)
	}
	unreserve, err := s.reservePart(ref.ID, w.N, w.Gen)
	if err != nil {
		return blob.Part{}, err
	}
	defer unreserve()
	l, err := s.claim(ctx, ref, w, "write")
	if err != nil {
		return blob.Part{}, fmt.Errorf("write part %d: %w", w.N, err)
	}
	defer s.dropTailPieces(ctx, ref.ID, l.tail)
	e, stored, err := s.sendPart(ctx, ref, w, l, body)
	if err != nil {
		return blob.Part{}, fmt.Errorf("write part %d: %w", w.N, s.abandonWrite(ctx, ref, w, l, stored, err))
	}
	if err := s.accept(ctx, ref, l, e); err != nil {
		return blob.Part{}, fmt.Errorf("write part %d: %w", w.N, err)
	}
	return e.Part, nil
}

// sendPart sends the body to the store and returns its entry. stored reports whether the store may
// have bytes of the part. The lease is renewed from the first byte on, also while a body of
// undeclared length is spooled. If the lease is lost, the request is cancelled.
func (s *Staging) sendPart(ctx context.Context, ref blob.Ref, w blob.Write, l *lease, body blob.Body) (entry, bool, error) {
	e := entry{gen: w.Gen}
	held, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer s.startRenewal(held, l, cancel)()
	part, stored, err := s.b.send(ctx, outgoing{
		body: body, size: w.Size,
		last: func(p blob.Part) error {
			if p.N != w.N {
				return fmt.Errorf("body is part %d, write is of part %d", p.N, w.N)
			}
			return l.checkHeld()
		},
		put: func(_ context.Context, r io.Reader, size int64) error {
			if size == 0 { // an empty part in the store means a dropped one; the entry is enough
				return nil
			}
			var err error
			if e.etag, err = s.b.putPart(held, ref.ID, l.mpu, w.N, r, size); err != nil && context.Cause(held) == errLease {
				return drive.Wrap(errors.Join(errLease, err), drive.Unavailable)
			}
			return err
		},
	})
	part.Session = w.Session
	e.Part, e.time = part, drive.TimeOf(s.b.now())
	return e, stored && part.Size > 0, err
}

// abandonWrite ends a Write whose body failed or was refused by the store, and returns the error to
// report for cause.
func (s *Staging) abandonWrite(ctx context.Context, ref blob.Ref, w blob.Write, l *lease, stored bool, cause error) error {
	left := l.before
	if stored {
		left = max(left, int64(w.Size), 0)
		if w.Size == blob.UnknownSize {
			left = max(left, int64(ref.PartSize))
		}
	}
	if err := s.release(ctx, l, left); err != nil {
		s.b.log.Warn("lease of a part not released; it expires by itself", "upload", ref.ID, "part", w.N, "error", err)
	}
	if _, ok := errors.AsType[*storeError](cause); !ok {
		return cause
	}
	return s.explain(ctx, ref, l, cause)
}

// explain returns the error to report for a part that the store refused: NotFound if the upload was
// removed, Unavailable if the journal names another multipart upload now, and else cause. It checks
// for the multipart upload itself, because some stores only close the connection.
func (s *Staging) explain(ctx context.Context, ref blob.Ref, l *lease, cause error) error {
	ctx, stop := cleanupContext(ctx)
	defer stop()
	if _, err := s.b.listParts(ctx, s.b.contentKey(ref.ID), l.mpu); !drive.IsKind(err, drive.NotFound) {
		return cause
	}
	if err := s.revalidate(ctx, ref); err != nil {
		return err
	}
	return drive.Wrap(cause, drive.Unavailable)
}

// accept journals a part whose bytes are in the store, even if the client is gone. It returns nil
// if the journal has an equal part already, and PartExistsError for a different one. If the upload
// was removed, it returns NotFound and aborts the multipart upload.
func (s *Staging) accept(ctx context.Context, ref blob.Ref, l *lease, e entry) error {
	ctx, stop := cleanupContext(ctx)
	defer stop()
	_, err := s.runRestoring(ctx, ref, appendScript, e.N, l.token, l.incarnation, e.gen, e.encode())
	there, isThere := errors.AsType[*blob.PartExistsError](err)
	switch {
	case err == nil:
		return nil
	case isThere && there.Part.CV == e.CV && there.Part.Size == e.Size:
		return nil // the reply was lost, or another instance stored the same bytes
	case drive.IsKind(err, drive.NotFound):
		return errors.Join(err, s.b.abort(ctx, s.b.contentKey(ref.ID), l.mpu)) // the part may have arrived after the abort in Remove
	default:
		return err
	}
}
