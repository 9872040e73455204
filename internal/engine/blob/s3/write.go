package s3

import (
	"context"
	"errors"
	"fmt"
	"io"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// Write implements blob.Staging: a lease from the journal, the bytes to the store as they come, an
// entry in the journal.
//
//	dies after ...     is left                            and then
//	the lease          a lease                            it runs out, or a Write of this process takes it over
//	the bytes          a part without an entry            held; written over by the next try, gone with the upload
//	the entry          an accepted part, unacknowledged   the client sends it again: ThereError, compared
func (s *Staging) Write(ctx context.Context, ref blob.Ref, w blob.Write, body blob.Body) (blob.Part, error) {
	if err := ref.Admits(w); err != nil {
		return blob.Part{}, err
	}
	if w.N >= maxParts {
		return blob.Part{}, drive.Fail(drive.PartRange, "limit", maxParts, "sent", w.N)
	}
	if err := ctx.Err(); err != nil {
		return blob.Part{}, fmt.Errorf("write part %d: %w", w.N, err)
	}
	leave, err := s.enter(ref.ID, w.N, w.Gen)
	if err != nil {
		return blob.Part{}, err
	}
	defer leave()
	l, err := s.claim(ctx, ref, w, "write")
	if err != nil {
		return blob.Part{}, fmt.Errorf("write part %d: %w", w.N, err)
	}
	defer s.forgetTail(ctx, ref.ID, l.tail)
	e, stored, err := s.receive(ctx, ref, w, l, body)
	if err != nil {
		return blob.Part{}, fmt.Errorf("write part %d: %w", w.N, s.giveUp(ctx, ref, w, l, stored, err))
	}
	if err := s.accept(ctx, ref, l, e); err != nil {
		return blob.Part{}, fmt.Errorf("write part %d: %w", w.N, err)
	}
	return e.Part, nil
}

// receive sends the body to the store. Its lease is kept from the first byte, also while a body of
// undeclared length is gathered; when it is lost the request to the store is broken off.
func (s *Staging) receive(ctx context.Context, ref blob.Ref, w blob.Write, l *lease, body blob.Body) (entry, bool, error) {
	e := entry{gen: w.Gen}
	held, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	defer s.keep(held, l, cancel)()
	part, stored, err := s.b.send(ctx, outgoing{
		body: body, size: w.Size,
		last: func(p blob.Part) error {
			if p.N != w.N {
				return fmt.Errorf("body is part %d, write is of part %d", p.N, w.N)
			}
			return l.alive()
		},
		put: func(_ context.Context, r io.Reader, size int64) error {
			if size == 0 { // an empty part at the store stands for none: an entry is enough
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

// giveUp ends a Write whose body has not come, or was not taken by the store, and returns what is
// to be said of cause.
func (s *Staging) giveUp(ctx context.Context, ref blob.Ref, w blob.Write, l *lease, stored bool, cause error) error {
	left := l.before
	if stored {
		left = max(left, int64(w.Size), 0)
		if w.Size == blob.UnknownSize {
			left = max(left, int64(ref.PartSize))
		}
	}
	if err := s.release(ctx, l, left); err != nil {
		s.b.log.Warn("lease of a part not given back", "upload", ref.ID, "part", w.N, "error", err)
	}
	if _, ok := errors.AsType[*storeError](cause); !ok {
		return cause
	}
	return s.explain(ctx, ref, l, cause)
}

// explain finds out whether the store has refused a part because its multipart upload is not there:
// removed meanwhile, or the journal names another one now. Not every store says so: some just hang
// up on whoever still sends.
func (s *Staging) explain(ctx context.Context, ref blob.Ref, l *lease, cause error) error {
	ctx, stop := detached(ctx)
	defer stop()
	if _, err := s.b.listParts(ctx, s.b.contentKey(ref.ID), l.mpu); !drive.IsKind(err, drive.NotFound) {
		return cause
	}
	if err := s.find(ctx, ref); err != nil {
		return err
	}
	return drive.Wrap(cause, drive.Unavailable)
}

// accept enters a part whose bytes are at the store. Bytes that have arrived survive a client that
// does not wait for the answer.
func (s *Staging) accept(ctx context.Context, ref blob.Ref, l *lease, e entry) error {
	ctx, stop := detached(ctx)
	defer stop()
	_, err := s.script(ctx, ref, appendScript, e.N, l.token, l.incarnation, e.gen, e.encode())
	there, isThere := errors.AsType[*blob.ThereError](err)
	switch {
	case err == nil:
		return nil
	case isThere && there.Part.CV == e.CV && there.Part.Size == e.Size:
		return nil // the reply to this very entry was lost, or another instance has taken the same bytes
	case drive.IsKind(err, drive.NotFound):
		return errors.Join(err, s.b.abort(ctx, s.b.contentKey(ref.ID), l.mpu)) // late: it may have come after the abort
	default:
		return err
	}
}
