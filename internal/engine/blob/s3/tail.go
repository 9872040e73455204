package s3

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/minio/minio-go/v7"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// errMoved reports that a tail or another field of the journal has changed since it was read; the
// caller reads it again.
var errMoved = errors.New("the tail has changed")

// tail is the beginning of a part. A multipart upload cannot hold it, so its pieces are separate
// objects until the part is complete.
type tail struct {
	blob.Part
	gen    int64         // under which it was extended last
	time   drive.Time    // when it was extended last
	pieces []storedPiece // in order
}

// storedPiece describes an object in the bucket with successive bytes of a tail.
type storedPiece struct {
	Place string `json:"k"` // key below tails/<upload id>/
	Size  int64  `json:"s"` // in bytes
}

// tailText is the stored form of a tail: an encoded entry and the pieces in order.
type tailText struct {
	Entry  []byte        `json:"e"`
	Pieces []storedPiece `json:"p"`
}

// encode returns t as the text that the journal stores in Redis; decodeTail reverses it.
func (t tail) encode() string {
	b, err := json.Marshal(tailText{entry{Part: t.Part, gen: t.gen, time: t.time}.encode(), t.pieces})
	if err != nil {
		panic(err) // plain types always marshal
	}
	return string(b)
}

// decodeTail decodes the output of encode; the empty string is an empty tail. It returns errEntry
// for damaged text.
func decodeTail(s string) (tail, error) {
	if s == "" {
		return tail{}, nil
	}
	var text tailText
	if err := json.Unmarshal([]byte(s), &text); err != nil {
		return tail{}, errors.Join(errEntry, err)
	}
	e, err := decodeEntry(text.Entry)
	var sum int64
	for _, p := range text.Pieces {
		sum += p.Size
	}
	if err == nil && sum != int64(e.Size) {
		err = errEntry
	}
	return tail{Part: e.Part, gen: e.gen, time: e.time, pieces: text.Pieces}, err
}

// Extend appends body to the tail of a part and journals the result. The body is spooled to a file,
// because its length is unknown, and then stored as a piece, an object of its own. Trailing pieces
// shorter than twice the new bytes are merged into the new piece. There are therefore at most
// O(log) pieces of the part's length, and each byte is sent O(log) times. A complete part is
// assembled from its pieces and sent as a part.
//
//	dies after ...     is left                           and then
//	the lease          a lease                           it expires, or this process takes it over
//	the piece          an object outside of any tail     removed with the upload, or found by a restore
//	the entry          the longer tail, unacknowledged   the client asks for the offset; old pieces go with the upload
func (s *Staging) Extend(ctx context.Context, ref blob.Ref, e blob.Extend, body blob.Body) (blob.Part, error) {
	w, err := s.PrepareExtend(ctx, ref, e, body)
	if err != nil {
		return blob.Part{}, err
	}
	return w.Part(), w.Commit(ctx)
}

// PrepareExtend stores a piece of a tail without journaling it. The lease of the part is kept until
// Commit or Discard.
func (s *Staging) PrepareExtend(ctx context.Context, ref blob.Ref, e blob.Extend, body blob.Body) (blob.PendingExtend, error) {
	if err := e.CheckRef(ref); err != nil {
		return nil, err
	}
	if e.N >= maxParts {
		return nil, drive.Fail(drive.PartRange, "limit", maxParts, "sent", e.N)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("extend part %d: %w", e.N, err)
	}
	unreserve, err := s.reservePart(ref.ID, e.N, e.Gen)
	if err != nil {
		return nil, err
	}
	l, t, err := s.claimTail(ctx, ref, e)
	if err != nil {
		unreserve()
		return nil, err
	}
	x := &extension{s: s, ref: ref, e: e, l: l, tail: t, unreserve: unreserve}
	if err := x.run(ctx, body); err != nil {
		return nil, fmt.Errorf("extend part %d: %w", e.N, err)
	}
	return x, nil
}

// claimTail acquires the lease of a part, which the caller must release or commit, and returns the
// part's tail. It returns OffsetMismatch unless the tail has e.At bytes, and InProgress if the tail
// keeps changing; it then holds no lease.
func (s *Staging) claimTail(ctx context.Context, ref blob.Ref, e blob.Extend) (*lease, tail, error) {
	for range maxTries {
		raw, err := s.j.field(ctx, ref.ID, fmt.Sprintf("p%d", e.N))
		if err != nil {
			return nil, tail{}, err
		}
		if raw == "" { // no tail, or a lost journal
			if _, err := s.load(ctx, ref); err != nil {
				return nil, tail{}, err
			}
			if raw, err = s.j.field(ctx, ref.ID, fmt.Sprintf("p%d", e.N)); err != nil {
				return nil, tail{}, err
			}
		}
		t, err := decodeTail(raw)
		if err != nil {
			return nil, tail{}, err
		}
		l, err := s.claim(ctx, ref, e.Write(), "extend", raw)
		there, isThere := errors.AsType[*blob.PartExistsError](err)
		switch {
		case errors.Is(err, errMoved):
			continue
		case isThere:
			return nil, tail{}, e.OffsetError(there.Part.Size)
		case err != nil:
			return nil, tail{}, err
		case t.Size != e.At:
			return nil, tail{}, errors.Join(e.OffsetError(t.Size), s.release(ctx, l, l.before))
		}
		return l, t, nil
	}
	return nil, tail{}, drive.Wrap(errMoved, drive.InProgress, "retry_after", 1)
}

// extension is a running Extend that holds the lease of its part. It implements blob.PendingExtend.
type extension struct {
	s    *Staging
	ref  blob.Ref
	e    blob.Extend
	l    *lease // of the part
	tail tail   // the tail before

	part        blob.Part                   // the result
	commit      func(context.Context) error // journals the stored bytes; nil: nothing was stored
	rollback    func(context.Context) int64 // deletes the stored bytes and returns the number of the part's bytes left in the store; nil: nothing was stored
	stopRenewal func()                      // stops renewing the lease
	unreserve   func()                      // ends the reservation in this process
}

// run keeps the lease renewed, spools the body, sets x.part and stores it, without journaling it.
// On an error it has called Discard; else the caller must call Commit or Discard.
func (x *extension) run(ctx context.Context, body blob.Body) error {
	held, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	kept := x.s.startRenewal(held, x.l, cancel)
	x.stopRenewal = func() {
		kept()
		cancel(nil)
	}
	f, part, err := x.spoolBody(ctx, body)
	if err == nil {
		x.part = part
		err = x.store(held, f, part)
		f.close()
	}
	if err != nil {
		x.Discard(ctx)
	}
	return err
}

// Part returns the part that results from the piece.
func (x *extension) Part() blob.Part { return x.part }

// Commit journals the longer tail or the complete part, stops renewing the lease and ends the
// reservation; neither Commit nor Discard may follow. It returns Unavailable if the lease was lost.
// If it fails because the answer of Redis is unknown, the piece may be in the journal.
func (x *extension) Commit(ctx context.Context) error {
	if x.commit == nil {
		x.Discard(ctx)
		return nil
	}
	if err := x.l.checkHeld(); err != nil {
		x.Discard(ctx)
		return fmt.Errorf("extend part %d: %w", x.e.N, err)
	}
	x.stopRenewal()
	defer x.unreserve()
	if err := x.commit(ctx); err != nil {
		return fmt.Errorf("extend part %d: %w", x.e.N, err)
	}
	return nil
}

// Discard deletes the stored bytes, releases the lease and ends the reservation, even if ctx has
// ended. The tail stays as it was. Failures are logged: the lease then expires by itself.
func (x *extension) Discard(ctx context.Context) {
	defer x.unreserve()
	x.stopRenewal()
	left := x.l.before
	if x.rollback != nil {
		left = x.rollback(ctx)
	}
	if err := x.s.release(ctx, x.l, left); err != nil {
		x.s.b.log.Warn("lease of a tail not released; it expires by itself", "upload", x.ref.ID, "part", x.e.N, "error", err)
	}
}

// spoolBody writes the body to a temporary file, at whose end the file then is, and checks digests,
// size and lease. It returns the part that results from tail and body. On an error it has closed
// the file; else the caller must close it.
func (x *extension) spoolBody(ctx context.Context, body blob.Body) (f *spoolFile, part blob.Part, err error) {
	if f, err = x.s.b.newSpool(); err != nil {
		return nil, blob.Part{}, err
	}
	if part, err = spool(f.File, body, ctx.Err); err == nil {
		f.size, err = f.Seek(0, io.SeekCurrent)
	}
	if err == nil {
		part.Session = x.e.Session
		err = x.e.CheckResult(part, drive.ByteSize(f.size))
	}
	if err == nil {
		err = x.l.checkHeld()
	}
	if err != nil {
		f.close()
		return nil, blob.Part{}, err
	}
	return f, part, nil
}

// store uploads the spooled bytes: together with the earlier pieces if they complete the part, else
// as one more piece, an object with the next bytes of the part. It uploads nothing if the body is
// empty and the part incomplete. It sets x.commit and x.rollback; the bytes count only after the
// commit.
func (x *extension) store(ctx context.Context, f *spoolFile, part blob.Part) error {
	switch {
	case part.Size == x.e.Whole:
		return x.storePart(ctx, f, part)
	case f.size == 0:
		return nil
	}
	return x.storePiece(ctx, f, part)
}

// storePart puts the complete part, its stored pieces and the spooled bytes, into the multipart
// upload. It journals nothing: it sets x.commit, which journals the part and deletes the pieces,
// and x.rollback.
func (x *extension) storePart(ctx context.Context, f *spoolFile, part blob.Part) error {
	pieces := x.s.b.openPieces(ctx, x.ref.ID, x.tail.pieces)
	defer pieces.close()
	var etag string
	r, err := bufferSmall(io.MultiReader(pieces, f.reader()), int64(part.Size))
	if err == nil {
		etag, err = x.s.b.putPart(ctx, x.ref.ID, x.l.mpu, x.e.N, r, int64(part.Size))
	}
	if err != nil {
		return x.s.explain(ctx, x.ref, x.l, err)
	}
	e := entry{Part: part, gen: x.e.Gen, time: drive.TimeOf(x.s.b.now()), etag: etag}
	x.commit = func(ctx context.Context) error {
		err := x.s.accept(ctx, x.ref, x.l, e)
		if err == nil {
			x.s.b.dropPieces(ctx, x.ref.ID, x.tail.pieces)
		}
		return err
	}
	x.rollback = x.rollbackPart
	return nil
}

// rollbackPart overwrites the stored, discarded part with an empty one, because a journal rebuilt
// from the bucket listing would accept its bytes. It returns the number of the part's bytes left in
// the store: all of them if the lease was lost or the request fails.
func (x *extension) rollbackPart(ctx context.Context) int64 {
	ctx, stop := cleanupContext(ctx)
	defer stop()
	if x.l.checkHeld() == nil { // else another writer may hold the part
		if err := x.s.b.putEmptyPart(ctx, x.ref.ID, x.l.mpu, x.e.N); err == nil {
			return 0
		}
	}
	return int64(x.part.Size)
}

// storePiece uploads the spooled bytes as one piece. It puts trailing pieces of the tail that are
// too short before them in the same object. It journals nothing: it sets x.commit and x.rollback.
func (x *extension) storePiece(ctx context.Context, f *spoolFile, part blob.Part) error {
	keep, size := x.tail.pieces, f.size
	for len(keep) > 0 && keep[len(keep)-1].Size < 2*size {
		size += keep[len(keep)-1].Size
		keep = keep[:len(keep)-1]
	}
	merged := x.tail.pieces[len(keep):]
	piece := storedPiece{Place: fmt.Sprintf("%d-%d-%s", x.e.N, int64(part.Size)-size, randomID()), Size: size}
	before := x.s.b.openPieces(ctx, x.ref.ID, merged)
	defer before.close()
	r, err := bufferSmall(io.MultiReader(before, f.reader()), size)
	if err == nil {
		err = x.s.b.putObject(ctx, x.s.b.pieceKey(x.ref.ID, piece), r, size, minio.PutObjectOptions{})
	}
	if err != nil {
		return classify(err)
	}
	t := tail{Part: part, gen: x.e.Gen, time: drive.TimeOf(x.s.b.now()), pieces: append(slices.Clip(keep), piece)}
	x.commit = func(ctx context.Context) error { return x.commitPiece(ctx, t, merged) }
	x.rollback = func(ctx context.Context) int64 {
		x.s.b.dropPieces(ctx, x.ref.ID, []storedPiece{piece})
		return x.l.before
	}
	return nil
}

// commitPiece journals t, whose last piece replaces the merged ones, and then deletes those. If the
// upload is removed or the gen fenced, it deletes the new piece. After any other error it deletes
// nothing, because the entry may have been written.
func (x *extension) commitPiece(ctx context.Context, t tail, merged []storedPiece) error {
	ctx, stop := cleanupContext(ctx)
	defer stop()
	_, err := x.s.runRestoring(ctx, x.ref, tailScript, x.e.N, x.l.token, x.l.before, t.encode())
	switch {
	case err == nil:
		x.s.b.dropPieces(ctx, x.ref.ID, merged)
	case drive.IsKind(err, drive.NotFound, drive.WrongState): // no tail will refer to the new piece
		x.s.b.dropPieces(ctx, x.ref.ID, t.pieces[len(t.pieces)-1:])
	}
	return err
}

// OpenTail returns a reader of the tail of part n as it is now, which the caller must close
// (blob.Staging). It fails with NotFound if the part has no tail or the upload does not exist.
func (s *Staging) OpenTail(ctx context.Context, ref blob.Ref, n int) (io.ReadCloser, error) {
	j, err := s.load(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("open the tail of part %d: %w", n, err)
	}
	t, ok := j.tails[n]
	if !ok {
		return nil, drive.Fail(drive.NotFound)
	}
	r := s.b.openPieces(ctx, ref.ID, t.pieces)
	return struct {
		io.Reader
		io.Closer
	}{r, closerFunc(func() error { r.close(); return nil })}, nil
}

// closerFunc makes a function an io.Closer.
type closerFunc func() error

// Close calls f.
func (f closerFunc) Close() error { return f() }

// dropTailPieces deletes the pieces of a tail that was replaced, given as raw, its text in the
// journal. It does nothing if raw is empty or damaged, and logs a failure.
func (s *Staging) dropTailPieces(ctx context.Context, id drive.UploadID, raw string) {
	if t, err := decodeTail(raw); err == nil && len(t.pieces) > 0 {
		s.b.dropPieces(ctx, id, t.pieces)
	}
}

// spoolFile is a temporary file that holds a body until it is sent. Where the system allows it, the
// file has no name any more, so it disappears with the process.
type spoolFile struct {
	*os.File
	size int64 // bytes written
}

// newSpool creates an empty temporary file that disappears when the caller closes it. It fails with
// DiskFull if the spool directory is full.
func (b *Bucket) newSpool() (*spoolFile, error) {
	f, err := os.CreateTemp(b.spool, "smartdrive-part-*")
	if err != nil {
		return nil, fmt.Errorf("spool: %w", classifySpool(err))
	}
	_ = os.Remove(f.Name()) // fails on Windows, where close removes the file
	return &spoolFile{File: f}, nil
}

// reader returns a reader of the whole file.
func (f *spoolFile) reader() io.Reader { return io.NewSectionReader(f.File, 0, f.size) }

// close closes the file and removes it where it still has a name.
func (f *spoolFile) close() {
	_ = f.Close()
	_ = os.Remove(f.Name())
}
