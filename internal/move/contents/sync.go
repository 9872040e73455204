package contents

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// Content is what rows say about a content; a copy must match it.
type Content struct {
	Name     string
	Sum      digest.Sum // BLAKE3
	Size     drive.ByteSize
	PartSize drive.ByteSize // part size of the original upload
}

// Outcome tells what Sync did with a content.
type Outcome int

// Outcomes of Sync.
const (
	OnNeither Outcome = iota // on neither side: removed or lost
	OnBoth                   // on both sides already
	Copied                   // copied to the side that lacked it
)

// MismatchError reports that the bytes on a side do not match the row.
type MismatchError struct {
	Content Content
	Side    string // name of the side
	Found   string // what is there instead, in words
}

// Error names the content, the side and what was found there.
func (e *MismatchError) Error() string {
	return fmt.Sprintf("content %s at %s: %s", e.Content.Name, e.Side, e.Found)
}

// Pace is called before reading bytes and waits as long as necessary. An error aborts the read.
type Pace func(ctx context.Context, bytes int) error

// Sync copies a content to the side that lacks it and returns what it found. A copy is verified
// before it is visible under its name, so a content on a side is always complete. Sync is
// idempotent and can be interrupted.
//
// If both sides have the content and deep is set, Sync also verifies the follower's bytes and
// replaces wrong ones. Wrong bytes at the leader are a *MismatchError.
//
// At most one process may call Sync, under the lease of package migrate. The content may be removed
// concurrently, first at the leader. So after copying, Sync checks the source again and deletes the
// copy if the source is gone.
func (p *Pair) Sync(ctx context.Context, c Content, deep bool, pace Pace) (Outcome, error) {
	s := p.current.Load()
	if s.follower() == nil {
		return OnBoth, nil
	}
	var have [2]bool
	for i, at := range s.order() {
		ok, err := hasContent(ctx, at, c, i == 1)
		if err != nil {
			return OnNeither, err
		}
		have[i] = ok
	}
	from, to := s.leader(), s.follower()
	if deep && have[0] && have[1] {
		err := compare(ctx, to, c, pace)
		if _, differs := errors.AsType[*MismatchError](err); differs {
			have[1], err = false, to.Store.Remove(ctx, c.Name)
		}
		if err != nil {
			return OnNeither, err
		}
	}
	switch {
	case have[0] && have[1]:
		return OnBoth, nil
	case !have[0] && !have[1]:
		return OnNeither, nil
	case have[1]: // stored when the other side led
		from, to = to, from
	}
	if err := p.copy(ctx, from, to, c, pace); err != nil {
		return OnNeither, fmt.Errorf("copy %s from %s to %s: %w", c.Name, from.Name, to.Name, err)
	}
	if _, err := from.Store.Stat(ctx, c.Name); drive.IsKind(err, drive.NotFound) {
		return OnNeither, to.Store.Remove(ctx, c.Name)
	}
	return Copied, nil
}

// hasContent reports whether a side has the content in its full size. With repair, content of
// another size is removed and reported as missing; otherwise it is a *MismatchError.
func hasContent(ctx context.Context, at *Side, c Content, repair bool) (bool, error) {
	size, err := at.Store.Stat(ctx, c.Name)
	switch {
	case drive.IsKind(err, drive.NotFound):
		return false, nil
	case err != nil:
		return false, err
	case size == c.Size:
		return true, nil
	case repair:
		return false, at.Store.Remove(ctx, c.Name)
	}
	return false, &MismatchError{Content: c, Side: at.Name, Found: fmt.Sprintf("%d bytes instead of %d", size, c.Size)}
}

// largestPut is the largest content sent in one request, in bytes. S3 allows 5 GiB, but a broken
// connection or a crash would lose all of it.
const largestPut = 64 * drive.MiB

// copy copies a content from one side to the other, a large one in parts if the target supports it.
// It returns a *MismatchError if the content at from is not c, and NotFound if it is missing there.
func (p *Pair) copy(ctx context.Context, from, to *Side, c Content, pace Pace) error {
	src, err := from.Store.Open(ctx, c.Name)
	if err != nil {
		return err
	}
	if src.Size() != c.Size {
		err = &MismatchError{Content: c, Side: from.Name, Found: fmt.Sprintf("%d bytes instead of %d", src.Size(), c.Size)}
	} else if id, err2 := drive.ParseID[drive.UploadID](c.Name); err2 == nil && c.Size > largestPut && to.Staging.Caps().MinPart > 0 {
		err = p.copyParts(ctx, pacedReader{src, pace}, from, to, c, id)
	} else {
		err = copyWhole(ctx, pacedReader{src, pace}, from, to, c)
	}
	return errors.Join(err, src.Close())
}

// pacedReader reads a content at the allowed pace.
type pacedReader struct {
	from blob.Object
	pace Pace
}

// readSize is the read size in bytes: what a store returns in one request at full speed.
const readSize = 1 << 20

// section returns a buffered reader for size bytes of the content from off on, which waits as the
// pace demands. It returns Unavailable if ctx ends.
func (r pacedReader) section(ctx context.Context, off, size drive.ByteSize) io.Reader {
	in := io.NewSectionReader(r.from, int64(off), int64(size))
	return bufio.NewReaderSize(readerFunc(func(b []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, drive.Wrap(err, drive.Unavailable)
		}
		n, err := in.Read(b)
		if r.pace != nil && n > 0 {
			err = errors.Join(err, r.pace(ctx, n))
			if errors.Is(err, io.EOF) {
				err = io.EOF
			}
		}
		return n, err
	}), int(min(readSize, max(size, 1))))
}

// readerFunc is a function that serves as the Read of an io.Reader.
type readerFunc func([]byte) (int, error)

// Read calls f.
func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// copyWhole copies a content with one PutAtomic. If the bytes do not have the digest of c, it
// returns a *MismatchError for the side from and stores nothing.
func copyWhole(ctx context.Context, r pacedReader, from, to *Side, c Content) error {
	body := verifiedBody{blob.NewBody(r.section(ctx, 0, c.Size), blob.BodyOptions{Size: c.Size}), c, from.Name}
	_, err := to.Store.PutAtomic(ctx, c.Name, body)
	return err
}

// verifiedBody is a Body whose Finish fails with a *MismatchError unless the digest matches, so
// that the store discards it.
type verifiedBody struct {
	blob.Body
	content Content
	at      string
}

// Size returns the size that the content must have.
func (e verifiedBody) Size() drive.ByteSize { return e.content.Size }

// Finish returns the sums of the bytes read, or a *MismatchError if their digest is not that of the
// content.
func (e verifiedBody) Finish() (blob.Part, error) {
	part, err := e.Body.Finish()
	if err == nil && part.Root != e.content.Sum {
		err = &MismatchError{Content: e.content, Side: e.at, Found: "digest " + part.Root.String()}
	}
	return part, err
}

// copyGen is the generation of parts written for a copy. Nothing else writes these parts.
const copyGen = 1

// maxParts is the maximum number of parts of a copy.
const maxParts = 10_000

// copyParts copies a content in staged parts, named id, and resumes an interrupted copy. A
// *MismatchError means that the bytes at from are not those of c; the parts are removed then. After
// other errors they stay for the next attempt.
func (p *Pair) copyParts(ctx context.Context, r pacedReader, from, to *Side, c Content, id drive.UploadID) error {
	ref := blob.Ref{ID: id, PartSize: max(c.PartSize, drive.MiB), Size: c.Size}
	for least := to.Staging.Caps().MinPart; ref.PartSize < least || c.Size > maxParts*ref.PartSize; {
		ref.PartSize *= 2
	}
	p.copying.Store(c.Name, true)
	defer p.copying.Delete(c.Name)
	if err := to.Staging.Create(ctx, ref); err != nil {
		return err
	}
	staged, err := to.Staging.Load(ctx, ref)
	if err != nil {
		return err
	}
	there := map[int]blob.Part{}
	for _, part := range staged.Parts {
		there[part.N] = part
	}
	var cvs []digest.CV
	for off := drive.ByteSize(0); off < c.Size; off += ref.PartSize {
		part, ok := there[len(cvs)]
		if part.Unread {
			if err := to.Staging.Drop(ctx, ref, copyGen, part.N); err != nil {
				return err
			}
		}
		if !ok || part.Unread {
			if part, err = copyPart(ctx, r, to, ref, len(cvs), min(ref.PartSize, c.Size-off)); err != nil {
				return err
			}
		}
		cvs = append(cvs, part.CV)
	}
	if sum := digest.Fold(cvs); sum != c.Sum {
		err = &MismatchError{Content: c, Side: from.Name, Found: "digest " + sum.String()}
	} else {
		err = to.Staging.Seal(ctx, ref, c.Size)
	}
	var mismatch *MismatchError
	if err == nil || errors.As(err, &mismatch) { // otherwise the parts stay for the next attempt
		err = errors.Join(err, to.Staging.Remove(ctx, ref))
	}
	return err
}

// copyPart reads size bytes of part n from r and stages them at to. It returns the sums of the
// part.
func copyPart(ctx context.Context, r pacedReader, to *Side, ref blob.Ref, n int, size drive.ByteSize) (blob.Part, error) {
	off := drive.ByteSize(n) * ref.PartSize
	body := blob.NewBody(r.section(ctx, off, size), blob.BodyOptions{N: n, Offset: off, Size: size})
	return to.Staging.Write(ctx, ref, blob.Write{N: n, Gen: copyGen, Size: size}, body)
}

// Check compares the size of a content on a side with its row, and its digest if deep is set. A
// difference is a *MismatchError.
func (p *Pair) Check(ctx context.Context, w SideIndex, c Content, deep bool, pace Pace) error {
	at := p.Side(w)
	if at == nil {
		return fmt.Errorf("check %s: there is no such side", c.Name)
	}
	if !deep {
		size, err := at.Store.Stat(ctx, c.Name)
		if err == nil && size != c.Size {
			err = &MismatchError{Content: c, Side: at.Name, Found: fmt.Sprintf("%d bytes instead of %d", size, c.Size)}
		}
		return missingError(err, at, c)
	}
	return compare(ctx, at, c, pace)
}

// compare reads a content at a side, at pace, and returns nil if it has the size and digest of c.
// It returns a *MismatchError if they differ or the content is missing, and other errors of
// reading.
func compare(ctx context.Context, at *Side, c Content, pace Pace) error {
	src, err := at.Store.Open(ctx, c.Name)
	if err != nil {
		return missingError(err, at, c)
	}
	body := verifiedBody{blob.NewBody(pacedReader{src, pace}.section(ctx, 0, src.Size()), blob.BodyOptions{Size: c.Size}), c, at.Name}
	_, err = io.Copy(io.Discard, body)
	if err == nil {
		_, err = body.Finish()
	}
	if drive.IsKind(err, drive.PartSize) {
		err = &MismatchError{Content: c, Side: at.Name, Found: fmt.Sprintf("%d bytes instead of %d", src.Size(), c.Size)}
	}
	return errors.Join(err, src.Close())
}

// missingError returns a *MismatchError if err is NotFound, else err.
func missingError(err error, at *Side, c Content) error {
	if drive.IsKind(err, drive.NotFound) {
		return &MismatchError{Content: c, Side: at.Name, Found: "nothing"}
	}
	return err
}
