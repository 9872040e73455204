package upload

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
)

// Kind distinguishes whole, partial and final uploads.
type Kind uint8

const (
	Whole   Kind = iota // becomes a file
	Partial             // input for Concat: no target, no name
	Final               // created by Concat from partial uploads
)

// Protocol is the protocol that began an upload. A protocol head serves only its own uploads.
type Protocol uint8

const (
	Native Protocol = iota
	Tus
	Rufh // Resumable Uploads for HTTP, the IETF draft
	Nextcloud
)

// MaxMetadata is the longest Begin.Metadata, in bytes.
const MaxMetadata = 4 << 10

// Append describes the bytes of an appending request.
type Append struct {
	Offset drive.ByteSize   // where the bytes begin: must equal the upload's current offset
	Size   drive.ByteSize   // exact body length; blob.UnknownSize: not declared
	Verify *digest.Verifier // digest declared by the request; nil: none

	// Last marks the last bytes of a file of undeclared length. If all of them arrive, the
	// length is declared.
	Last bool

	// Kept is called with the durable offset after each part of a body without Verify, on the
	// goroutine that called Append; nil: not called. That offset survives kill -9.
	Kept func(offset drive.ByteSize)
}

// Position is the progress of an upload that is filled by offset.
type Position struct {
	Offset    drive.ByteSize // length of the received prefix; survives kill -9
	Size      drive.ByteSize // blob.UnknownSize: not declared yet
	MaxSize   drive.ByteSize // largest file size that the upload allows
	State     State
	Kind      Kind
	Protocol  Protocol
	ExpiresAt drive.Time
	Metadata  string           // as given to Begin
	Partials  []drive.UploadID // inputs of a final upload, in order
	Node      drive.NodeID     // the file, if done
	Joined    bool             // a partial upload that ended because Concat joined it
}

// Append adds the bytes of body at the end of the received bytes. The returned offset is durable
// even if an error is returned: if a body breaks off, the bytes before are kept. With Verify, a
// body that breaks off or does not match is dropped entirely: see withheld.go.
//
// A new Append, Offset, DeclareSize, Complete or Cancel of the same upload interrupts a running
// Append, which returns InProgress and the offset it has kept. Reaching the declared size does not
// complete the upload: the client calls Complete.
//
// OffsetMismatch may also end an Append in the middle, if the body reaches a part that was already
// received (an upload may be filled both ways). The returned offset is the end of that part, where
// the client continues.
//
// Errors: NotFound, Gone {reason}, WrongState {state}, OffsetMismatch {offset, sent}, TooLarge
// {limit, sent} (before the body is read if Size shows it), DigestMismatch, Quota, DiskFull,
// InProgress, BadRequest {field body, reason cut}.
func (s *Sessions) Append(ctx context.Context, who drive.Who, id drive.UploadID, a Append, body io.Reader) (offset drive.ByteSize, err error) {
	return s.filler.append(ctx, who, id, a, body)
}

// appender fills uploads by offset. Each part that a body reaches is one Extend of the staging.
type filler struct {
	table    *table
	db       *sqldb.DB
	staging  blob.Staging
	receiver *receiver
	arrows   *arrows
	sched    *schedule
	now      func() drive.Time
	shared   bool
	log      *slog.Logger
	wake     func(ctx context.Context, who drive.Who, id drive.UploadID) error // prepares an upload for parts
}

// append implements Sessions.Append.
func (s *filler) append(ctx context.Context, who drive.Who, id drive.UploadID, a Append, body io.Reader) (offset drive.ByteSize, err error) {
	l := s.table.enter(id)
	defer s.table.leave(l)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	f := &filling{s: s, l: l, who: who, a: a, stop: func() { stop(errSuperseded) }}
	end, err := l.takeOver(ctx, f.stop)
	if err != nil {
		return 0, err
	}
	defer end()
	row, offset, err := s.stand(ctx, who, l)
	if err != nil {
		return 0, superseded(ctx, err)
	}
	if err := a.check(row, offset); err != nil {
		return offset, err
	}
	if c, ok := body.(io.Closer); ok { // unblocks a read that waits for a dead client
		defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	}
	f.offset, f.end, f.partSize = offset, row.end(), row.PartSize
	touched := &activity{body: body, touch: func() { s.receiver.touch(l, row) }, every: s.receiver.touchEvery, now: s.now}
	if a.Verify != nil {
		err = f.verified(ctx, touched)
	} else {
		err = f.run(ctx, touched)
	}
	if err == nil && a.Last && row.Size == blob.UnknownSize {
		err = s.declare(ctx, who, l, f.offset)
	}
	return f.offset, superseded(ctx, err)
}

// end returns the largest offset that appends may reach.
func (r Row) end() drive.ByteSize {
	if r.Size == blob.UnknownSize {
		return r.MaxSize()
	}
	return r.Size
}

// check refuses an append before its body is read: OffsetMismatch, TooLarge.
func (a Append) check(row Row, offset drive.ByteSize) error {
	switch {
	case a.Offset != offset:
		return mismatch(offset, a.Offset)
	case a.Size != blob.UnknownSize && a.Size > row.end()-offset:
		return drive.Fail(drive.TooLarge, "field", "body", "limit", row.end()-offset, "sent", a.Size)
	}
	return nil
}

// mismatch returns the OffsetMismatch error for bytes at sent when the upload ends at have.
func mismatch(have, sent drive.ByteSize) error {
	return drive.Fail(drive.OffsetMismatch, "offset", have, "sent", sent)
}

// appendRun is a running Append.
type filling struct {
	s      *filler
	l      *live
	who    drive.Who
	a      Append
	offset drive.ByteSize // end of the received bytes; durable unless withheld
	end    drive.ByteSize // largest offset allowed
	got    drive.ByteSize // bytes taken from the body

	partSize drive.ByteSize
	stop     func()     // interrupts the request
	withheld []withheld // pieces not journaled yet, with a.Verify
}

// run stores the body part by part. Bytes before an error are kept.
func (f *filling) run(ctx context.Context, body io.Reader) error {
	in := bufio.NewReader(body)
	for {
		_, err := in.Peek(1)
		switch {
		case errors.Is(err, io.EOF):
			return f.whole()
		case err != nil:
			return cut(err)
		case f.offset == f.end:
			return drive.Fail(drive.TooLarge, "field", "body", "limit", f.end-f.a.Offset, "sent", f.got+1)
		}
		if err := f.piece(ctx, in); err != nil {
			return err
		}
	}
}

// checkLength returns BadRequest if fewer bytes arrived than declared.
func (f *filling) whole() error {
	if f.a.Size != blob.UnknownSize && f.got != f.a.Size {
		return cut(io.ErrUnexpectedEOF)
	}
	return nil
}

// appendPart stores the share of in that belongs to the next part.
func (f *filling) piece(ctx context.Context, in io.Reader) error {
	return attempts(func() (outcome, error) {
		p := &piece{in: in, stopped: func() error { return stopped(ctx) }}
		part, out, err := f.extend(ctx, p, 0)
		if err != nil || out == again {
			return out, err
		}
		f.got += endOf(part, f.partSize) - f.offset
		f.offset = endOf(part, f.partSize)
		if f.a.Kept != nil && f.a.Verify == nil {
			f.a.Kept(f.offset)
		}
		if p.cause != nil {
			return settled, cut(p.cause)
		}
		return settled, nil
	})
}

// stopped returns errSuperseded if another request has taken over or ended the upload, else nil.
func stopped(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, errSuperseded) {
		return cause
	}
	return nil
}
