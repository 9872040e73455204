package contents

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// Content is what rows know of content: enough to tell whether a copy of it is one.
type Content struct {
	Name     string
	Sum      digest.Sum // BLAKE3
	Size     drive.ByteSize
	PartSize drive.ByteSize // of the upload that brought it
}

// Outcome says what Sync found.
type Outcome int

// The outcomes.
const (
	Nowhere Outcome = iota // neither side has it: it was removed, or is lost
	There                  // both sides had it
	Copied                 // the other side has it now, too
)

// MismatchError says that the bytes of a side are not those that the rows tell of.
type MismatchError struct {
	Content Content
	At      string // name of the side
	Found   string
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("content %s at %s: %s", e.Content.Name, e.At, e.Found)
}

// Pace is asked before bytes are read, and waits as long as they must wait.
type Pace func(ctx context.Context, bytes int) error

// Sync sees to it that both sides have content of which a row tells, and says what there was to do.
// What arrives is compared with the digest before it is seen under its name, so that whoever finds
// content at a side finds all of it. It may be repeated at any time, and dies without leaving
// anything that the next one does not repair.
//
// If both sides have the content, deep compares the bytes of the follower with the digest, too, and
// replaces other bytes.
//
// One call at a time syncs a name, in all processes; package migrate does it under a lease.
// Somebody may remove the content meanwhile, first where it leads: Sync looks there again after it
// has copied, and takes the copy away; of the two the later one sees the other.
func (p *Pair) Sync(ctx context.Context, c Content, deep bool, pace Pace) (Outcome, error) {
	s := p.now.Load()
	if s.follower() == nil {
		return There, nil
	}
	var have [2]bool
	for i, at := range s.order() {
		ok, err := has(ctx, at, c, i == 1)
		if err != nil {
			return Nowhere, err
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
			return Nowhere, err
		}
	}
	switch {
	case have[0] && have[1]:
		return There, nil
	case !have[0] && !have[1]:
		return Nowhere, nil
	case have[1]: // it was stored when the other side led
		from, to = to, from
	}
	if err := p.copy(ctx, from, to, c, pace); err != nil {
		return Nowhere, fmt.Errorf("copy %s from %s to %s: %w", c.Name, from.Name, to.Name, err)
	}
	if _, err := from.Store.Stat(ctx, c.Name); drive.IsKind(err, drive.NotFound) {
		return Nowhere, to.Store.Remove(ctx, c.Name)
	}
	return Copied, nil
}

// has reports whether a side has all of the content. A follower that has something else gets it
// again; where it leads nobody may judge.
func has(ctx context.Context, at *Side, c Content, repair bool) (bool, error) {
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
	return false, &MismatchError{Content: c, At: at.Name, Found: fmt.Sprintf("%d bytes instead of %d", size, c.Size)}
}

// largestPut is the longest content that is sent in one request, in bytes: S3 takes 5 GiB, and a
// broken connection, or a process that dies, costs all of it. It takes some seconds.
const largestPut = 64 * drive.MiB

func (p *Pair) copy(ctx context.Context, from, to *Side, c Content, pace Pace) error {
	src, err := from.Store.Open(ctx, c.Name)
	if err != nil {
		return err
	}
	if src.Size() != c.Size {
		err = &MismatchError{Content: c, At: from.Name, Found: fmt.Sprintf("%d bytes instead of %d", src.Size(), c.Size)}
	} else if id, err2 := drive.ParseID[drive.UploadID](c.Name); err2 == nil && c.Size > largestPut && to.Staging.Caps().MinPart > 0 {
		err = p.copyParts(ctx, reading{src, pace}, from, to, c, id)
	} else {
		err = copyWhole(ctx, reading{src, pace}, from, to, c)
	}
	return errors.Join(err, src.Close())
}

// reading reads content at the pace that is allowed.
type reading struct {
	from blob.Object
	pace Pace
}

// ahead is how much is read at once, in bytes: what a store answers in one piece at full speed.
const ahead = 1 << 20

func (r reading) section(ctx context.Context, off, size drive.ByteSize) io.Reader {
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
	}), int(min(ahead, max(size, 1))))
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

func copyWhole(ctx context.Context, r reading, from, to *Side, c Content) error {
	body := expected{blob.NewBody(r.section(ctx, 0, c.Size), blob.BodyOptions{Size: c.Size}), c, from.Name}
	_, err := to.Store.Receive(ctx, c.Name, body)
	return err
}

// expected is a body that must have the digest that the rows tell of; else nothing of it stays.
type expected struct {
	blob.Body
	content Content
	at      string
}

// Size implements blob.Body.
func (e expected) Size() drive.ByteSize { return e.content.Size }

// Finish implements blob.Body.
func (e expected) Finish() (blob.Part, error) {
	part, err := e.Body.Finish()
	if err == nil && part.Root != e.content.Sum {
		err = &MismatchError{Content: e.content, At: e.at, Found: "digest " + part.Root.String()}
	}
	return part, err
}

// copyGen is the gen under which parts of a copy are written. Nobody else writes them.
const copyGen = 1

// maxParts is how many parts a copy has at most.
const maxParts = 10_000

// copyParts is a copy by way of a staging, in parts: it goes on where one before it has stopped.
func (p *Pair) copyParts(ctx context.Context, r reading, from, to *Side, c Content, id drive.UploadID) error {
	ref := blob.Ref{ID: id, PartSize: max(c.PartSize, drive.MiB), Size: c.Size}
	for least := to.Staging.Caps().MinPart; ref.PartSize < least || c.Size > maxParts*ref.PartSize; {
		ref.PartSize *= 2
	}
	p.moving.Store(c.Name, true)
	defer p.moving.Delete(c.Name)
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
		err = &MismatchError{Content: c, At: from.Name, Found: "digest " + sum.String()}
	} else {
		err = to.Staging.Seal(ctx, ref, c.Size)
	}
	var mismatch *MismatchError
	if err == nil || errors.As(err, &mismatch) { // else the parts stay for the next attempt
		err = errors.Join(err, to.Staging.Remove(ctx, ref))
	}
	return err
}

func copyPart(ctx context.Context, r reading, to *Side, ref blob.Ref, n int, size drive.ByteSize) (blob.Part, error) {
	off := drive.ByteSize(n) * ref.PartSize
	body := blob.NewBody(r.section(ctx, off, size), blob.BodyOptions{N: n, Offset: off, Size: size})
	return to.Staging.Write(ctx, ref, blob.Write{N: n, Gen: copyGen, Size: size}, body)
}

// Check compares the content of a side with what a row tells: its size, and its digest when deep is
// set.
func (p *Pair) Check(ctx context.Context, w Which, c Content, deep bool, pace Pace) error {
	at := p.Side(w)
	if at == nil {
		return fmt.Errorf("check %s: there is no such side", c.Name)
	}
	if !deep {
		size, err := at.Store.Stat(ctx, c.Name)
		if err == nil && size != c.Size {
			err = &MismatchError{Content: c, At: at.Name, Found: fmt.Sprintf("%d bytes instead of %d", size, c.Size)}
		}
		return missingAt(err, at, c)
	}
	return compare(ctx, at, c, pace)
}

// compare reads the content at a side and compares it with its size and digest.
func compare(ctx context.Context, at *Side, c Content, pace Pace) error {
	src, err := at.Store.Open(ctx, c.Name)
	if err != nil {
		return missingAt(err, at, c)
	}
	body := expected{blob.NewBody(reading{src, pace}.section(ctx, 0, src.Size()), blob.BodyOptions{Size: c.Size}), c, at.Name}
	_, err = io.Copy(io.Discard, body)
	if err == nil {
		_, err = body.Finish()
	}
	if drive.IsKind(err, drive.PartSize) {
		err = &MismatchError{Content: c, At: at.Name, Found: fmt.Sprintf("%d bytes instead of %d", src.Size(), c.Size)}
	}
	return errors.Join(err, src.Close())
}

func missingAt(err error, at *Side, c Content) error {
	if drive.IsKind(err, drive.NotFound) {
		return &MismatchError{Content: c, At: at.Name, Found: "nothing"}
	}
	return err
}
