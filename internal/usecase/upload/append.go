package upload

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Kind distinguishes whole, partial and final uploads.
type Kind uint8

// The kinds of an upload.
const (
	Whole   Kind = iota // becomes a file
	Partial             // input for Concat: no target, no name
	Final               // created by Concat from partial uploads
)

// Protocol is the protocol that began an upload. A protocol head serves only its own uploads.
type Protocol uint8

// The protocols that a client may use to send.
const (
	Native Protocol = iota
	Tus
	ResumableDraft // Resumable Uploads for HTTP, the IETF draft
	Nextcloud
)

// MaxMetadata is the longest Begin.Metadata, in bytes.
const MaxMetadata = 4 << 10

// Append describes the bytes of an appending request.
type Append struct {
	Offset drive.ByteSize   // where the bytes begin: must equal the upload's current offset
	Size   drive.ByteSize   // exact body length; blob.UnknownSize: not declared
	Verify *digest.Verifier // digest declared by the request; nil: none

	// Last marks the last bytes of a file of undeclared length. If the body arrives completely,
	// Append declares the offset that it reached as the file's length.
	Last bool

	// OnDurable is called with the durable offset after each part of a body without Verify, on
	// the goroutine that called Append; nil: not called. That offset survives kill -9.
	OnDurable func(offset drive.ByteSize)
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
	return s.appender.append(ctx, who, id, a, body)
}

// appender fills uploads by offset. Each part that a body reaches is one Extend of the staging.
type appender struct {
	table       *liveTable
	db          *sqldb.DB
	staging     blob.Staging
	receiver    *receiver
	transitions *transitions
	sched       *schedule
	now         func() drive.Time
	shared      bool
	log         *slog.Logger
	makeReady   func(ctx context.Context, who drive.Who, id drive.UploadID) error // prepares an upload for parts
}

// append adds body at req.Offset and returns the end of the bytes that are stored, also with an
// error: 0 if they were not looked up. It interrupts a running append to the same upload and waits
// for its end. Errors: those of Sessions.Append, chiefly OffsetMismatch {offset, sent}, Quota and
// DigestMismatch; InProgress if a later request interrupted this one.
func (a *appender) append(ctx context.Context, who drive.Who, id drive.UploadID, req Append, body io.Reader) (offset drive.ByteSize, err error) {
	l := a.table.acquire(id)
	defer a.table.release(l)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	f := &appendRun{appender: a, upload: l, who: who, request: req, stop: func() { stop(errSuperseded) }}
	end, err := l.lockAppend(ctx, f.stop)
	if err != nil {
		return 0, err
	}
	defer end()
	row, offset, err := a.prepare(ctx, who, l)
	if err != nil {
		return 0, busyIfSuperseded(ctx, err)
	}
	if err := req.check(row, offset); err != nil {
		return offset, err
	}
	if c, ok := body.(io.Closer); ok { // unblocks a read that waits for a dead client
		defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	}
	f.offset, f.end, f.partSize = offset, row.end(), row.PartSize
	touched := &touchReader{body: body, touch: func() { a.receiver.touch(l, row) }, every: a.receiver.touchEvery, now: a.now}
	if req.Verify != nil {
		err = f.runVerified(ctx, touched)
	} else {
		err = f.run(ctx, touched)
	}
	if err == nil && req.Last && row.Size == blob.UnknownSize {
		err = a.declare(ctx, who, l, f.offset)
	}
	return f.offset, busyIfSuperseded(ctx, err)
}

// end returns the largest offset that appends may reach: the size, or MaxSize while the size is
// unknown.
func (r Row) end() drive.ByteSize {
	if r.Size == blob.UnknownSize {
		return r.MaxSize()
	}
	return r.Size
}

// check refuses an append before its body is read: OffsetMismatch unless it begins at offset, the
// current end of the upload; TooLarge if its declared size exceeds the rest of row.
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

// appendRun is the state of one call of Append while it runs. Only the goroutine of the request
// uses it; stop alone may be called by others.
type appendRun struct {
	appender *appender
	upload   *liveUpload
	who      drive.Who
	request  Append
	offset   drive.ByteSize // end of the received bytes; durable unless withheld
	end      drive.ByteSize // largest offset allowed
	got      drive.ByteSize // bytes taken from the body

	partSize drive.ByteSize
	stop     func()     // interrupts the request
	withheld []withheld // pieces not journaled yet, with a.Verify
}

// run stores the body part by part until its end. It returns TooLarge if the body goes beyond
// r.end, BadRequest if it is cut off or shorter than declared, and the errors of appendPart. Bytes
// before an error are kept.
func (r *appendRun) run(ctx context.Context, body io.Reader) error {
	in := bufio.NewReader(body)
	for {
		_, err := in.Peek(1)
		switch {
		case errors.Is(err, io.EOF):
			return r.checkLength()
		case err != nil:
			return cutError(err)
		case r.offset == r.end:
			return drive.Fail(drive.TooLarge, "field", "body", "limit", r.end-r.request.Offset, "sent", r.got+1)
		}
		if err := r.appendPart(ctx, in); err != nil {
			return err
		}
	}
}

// checkLength returns BadRequest if the number of bytes that arrived differs from the declared
// length of the body. It returns nil if none was declared.
func (r *appendRun) checkLength() error {
	if r.request.Size != blob.UnknownSize && r.got != r.request.Size {
		return cutError(io.ErrUnexpectedEOF)
	}
	return nil
}

// appendPart stores what in holds up to the end of the part that r.offset is in, as a tail or as
// the whole part, and advances r.got and r.offset. After it has advanced them it calls OnDurable,
// unless the body is verified at its end. It returns the error of a body that was cut off after its
// bytes were stored, and errBusy if concurrent changes win too often.
func (r *appendRun) appendPart(ctx context.Context, in io.Reader) error {
	return withRetry(func() (outcome, error) {
		p := &partBody{in: in, stopped: func() error { return stopped(ctx) }}
		part, out, err := r.extend(ctx, p, 0)
		if err != nil || out == retry {
			return out, err
		}
		r.got += endOf(part, r.partSize) - r.offset
		r.offset = endOf(part, r.partSize)
		if r.request.OnDurable != nil && r.request.Verify == nil {
			r.request.OnDurable(r.offset)
		}
		if p.cause != nil {
			return finished, cutError(p.cause)
		}
		return finished, nil
	})
}

// stopped returns errSuperseded if ctx was cancelled because another request has taken over or
// ended the upload. It returns nil otherwise, also if the client is gone.
func stopped(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, errSuperseded) {
		return cause
	}
	return nil
}
