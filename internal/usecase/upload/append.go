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

// Kind says what an upload becomes.
type Kind uint8

// The kinds.
const (
	Whole   Kind = iota // a file
	Partial             // a piece that Concat makes a file of: it has no place in the tree and no name
	Final               // a file that Concat has made of partial ones
)

// Protocol says who has begun an upload, for heads that answer for their own ones only.
type Protocol uint8

// The protocols.
const (
	Native Protocol = iota
	Tus
	Rufh // resumable uploads for HTTP, the IETF draft
	Nextcloud
)

// MaxMetadata is the longest Begin.Metadata, in bytes.
const MaxMetadata = 4 << 10

// Append says which bytes a request brings.
type Append struct {
	Offset drive.ByteSize   // where they begin: exactly what Offset would return
	Size   drive.ByteSize   // exact length of the body; blob.UnknownSize: the request did not say
	Verify *digest.Verifier // what the request declared of its bytes; nil: nothing

	// Last: they are the last of a file whose length was not declared; it is declared with them if
	// all of them come.
	Last bool

	// Kept is told the offset after each part of a body without Verify, by the goroutine that calls
	// Append; nil: nobody is. The offset survives kill -9 by then.
	Kept func(offset drive.ByteSize)
}

// Position is how far an upload that is filled by offset has come.
type Position struct {
	Offset    drive.ByteSize // length of the prefix that is there; it survives kill -9
	Size      drive.ByteSize // blob.UnknownSize: not declared yet
	MaxSize   drive.ByteSize // the largest file that it can become
	State     State
	Kind      Kind
	Protocol  Protocol
	ExpiresAt drive.Time
	Metadata  string           // exactly what Begin was given
	Partials  []drive.UploadID // of a final one, in order
	Node      drive.NodeID     // of a done one
	Joined    bool             // a partial one that is gone because it is part of a final one
}

// Append adds the bytes of body at the end of what has arrived. When it returns, whatever the
// error, the returned offset is what the upload holds and survives kill -9; a body that breaks off
// is kept as far as it came. With Verify nothing of a body is kept that does not agree with it or
// breaks off: see withheld.go.
//
// A new Append, Offset, DeclareSize, Complete or Cancel of the same upload ends a running one at
// once; that one returns InProgress with what it has kept. To reach the declared size completes
// nothing: Complete does.
//
// OffsetMismatch also ends an Append in the middle, where its body reaches a part that is there
// already (parts before it were missing: an upload may be filled both ways): the returned offset is
// behind that part, and the client goes on from there.
//
// Errors: NotFound, Gone {reason}, WrongState {state}, OffsetMismatch {offset, sent}, TooLarge
// {limit, sent} (refused before a byte is read where Size says so), DigestMismatch, Quota,
// DiskFull, InProgress, BadRequest {field body, reason cut}.
func (s *Sessions) Append(ctx context.Context, who drive.Who, id drive.UploadID, a Append, body io.Reader) (offset drive.ByteSize, err error) {
	return s.filler.append(ctx, who, id, a, body)
}

// filler fills uploads from their beginning, by offset: each part that a body reaches is one Extend
// of the staging.
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
	wake     func(ctx context.Context, who drive.Who, id drive.UploadID) error // brings an upload to where it can be filled
}

// append is Sessions.Append.
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
	if c, ok := body.(io.Closer); ok { // a read that waits for a dead client ends with its request
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

// end is the largest length that what is appended may come to.
func (r Row) end() drive.ByteSize {
	if r.Size == blob.UnknownSize {
		return r.MaxSize()
	}
	return r.Size
}

// check refuses what cannot be appended, before a byte of it is read.
func (a Append) check(row Row, offset drive.ByteSize) error {
	switch {
	case a.Offset != offset:
		return mismatch(offset, a.Offset)
	case a.Size != blob.UnknownSize && a.Size > row.end()-offset:
		return drive.Fail(drive.TooLarge, "field", "body", "limit", row.end()-offset, "sent", a.Size)
	}
	return nil
}

func mismatch(have, sent drive.ByteSize) error {
	return drive.Fail(drive.OffsetMismatch, "offset", have, "sent", sent)
}

// filling is an Append that runs: each part that its body reaches is one Extend of the staging.
type filling struct {
	s      *filler
	l      *live
	who    drive.Who
	a      Append
	offset drive.ByteSize // what has come; it is kept, but for what is withheld
	end    drive.ByteSize // what it may become
	got    drive.ByteSize // bytes taken from the body

	partSize drive.ByteSize
	stop     func()
	withheld []withheld // with a.Verify
}

// run takes body in. What ends it early is the error; all before it is kept.
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

// whole checks that as much came as was announced.
func (f *filling) whole() error {
	if f.a.Size != blob.UnknownSize && f.got != f.a.Size {
		return cut(io.ErrUnexpectedEOF)
	}
	return nil
}

// piece takes what of in belongs to the next part.
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

// stopped is the reason to stop reading though bytes come: somebody else fills the upload now, or
// ends it.
func stopped(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, errSuperseded) {
		return cause
	}
	return nil
}
