package upload

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
)

// PutFile is a request to store a whole file.
type PutFile struct {
	Place    string // root of Path; empty: the caller's own drive
	Path     drive.Path
	Size     drive.ByteSize // blob.UnknownSize: not declared
	Conflict drive.Conflict // empty: ConflictReplace
	Parents  bool           // create missing folders of Path
	Digests  digest.Set     // declared (Repr-Digest); verified before the file is visible
	MTime    drive.Time
	Mime     string
	// Check is called once before the body is read, with the node at Path (nil: none). Its
	// error refuses the request. A replace then acts on exactly that version. nil: no check.
	Check func(there *tree.Node) error
	// Expect is the caller's precondition. For a file of at most one part it is checked in the
	// transaction that publishes the file. For a larger one it is checked in the transaction
	// that begins the upload; from then on the replaced version must stay current.
	Expect tree.Expect
}

// Stored is the result of publishing a whole file: the node and its digests.
type Stored struct {
	Node    tree.Node
	Created bool // false: an existing file was replaced
	// Digests are all known digests of the content. nil: the content was stored before and its
	// digests were not looked up.
	Digests digest.Set
}

// PutFile stores a whole file and returns its node. created is false if it replaced a file. If the
// body breaks off nothing is kept. It fails with the errors of PutWhole.
func (s *Sessions) PutFile(ctx context.Context, who drive.Who, p PutFile, body io.Reader) (n tree.Node, created bool, err error) {
	stored, err := s.PutWhole(ctx, who, p, body)
	return stored.Node, stored.Created, err
}

// PutWhole stores a whole file. A file of at most one part takes one transaction and no staging; a
// larger one, or one of unknown length, becomes an ordinary upload. If the body breaks off nothing
// is kept.
//
// Errors: that of p.Check, and those of Begin, Put and Complete, chiefly NotFound (no such parent),
// NameTaken, BadName, BadRequest {field body, reason cut}, TooLarge, Quota, DiskFull,
// DigestMismatch, Locked and VersionChanged.
func (s *Sessions) PutWhole(ctx context.Context, who drive.Who, p PutFile, body io.Reader) (Stored, error) {
	quick := p.quick() // false for an unknown length, whatever length arrives
	f, err := s.newFile(ctx, who, p)
	if err != nil {
		return Stored{}, err
	}
	if p.Size == blob.UnknownSize {
		buf := peekBuffers.Get().(*[]byte)
		defer peekBuffers.Put(buf)
		got, err := readUpTo(body, *buf)
		switch {
		case errors.Is(err, io.EOF):
			p.Size, f.row.Size, body = drive.ByteSize(got), drive.ByteSize(got), bytes.NewReader((*buf)[:got])
		case err != nil:
			return Stored{}, cutError(err)
		default:
			body = ReaderWithCloser(io.MultiReader(bytes.NewReader((*buf)[:got]), body), body)
		}
	}
	if p.Size != blob.UnknownSize && p.Size <= s.opt.PartSize {
		return s.smallFiles.put(ctx, f, body, quick)
	}
	n, created, err := s.putLarge(ctx, who, f, body)
	if drive.IsKind(err, drive.NotFound) && p.Place != "" && len(p.Path) == 0 {
		// A caller with a grant on the file only lacks the right at its folder, which an
		// upload needs.
		limit := s.opt.PartSize
		if p.Size == blob.UnknownSize {
			limit = min(limit, MaxUncheckedSize)
		}
		err = drive.Wrap(err, drive.TooLarge, "field", "size", "limit", limit)
	}
	return Stored{Node: n, Created: created}, err
}

// wholeFile is a file to be stored: the request, and its target in the account that it goes to.
type wholeFile struct {
	asked     Begin     // the original request
	who       drive.Who // acts on begin's account
	begin     Begin     // asked, with its target in that account
	row       Row
	condition Condition // checked within the transaction; nil: none
}

// newFile authorizes a request to store a file and builds its row. Unless p.quick(), it also looks
// up the target, calls p.Check and sets the version that a replace expects. Errors: those of
// authorizeBegin, newRow, lookUp and p.Check.
func (s *Sessions) newFile(ctx context.Context, who drive.Who, p PutFile) (f wholeFile, err error) {
	if p.Conflict == "" {
		p.Conflict = drive.ConflictReplace
	}
	f.asked = Begin{Place: p.Place, Path: p.Path, Size: p.Size, Digests: p.Digests, Conflict: p.Conflict, Parents: p.Parents, MTime: p.MTime, Mime: p.Mime}
	if f.who, f.begin, err = s.auth.authorizeBegin(ctx, who, f.asked); err != nil {
		return wholeFile{}, err
	}
	f.condition = p.expecting(s.Tree)
	f.row, err = s.creator.newRow(f.who, f.begin)
	if err == nil && !p.quick() {
		p.Path = f.begin.Path
		f.row.Base, err = s.lookUp(ctx, f.row, p)
	}
	return f, err
}

// expecting returns the caller's precondition as a Condition; nil if there is none.
func (p PutFile) expecting(t *tree.Tree) Condition {
	e := p.Expect
	if e.IsEmpty() {
		return nil
	}
	return func(ctx context.Context, q sqldb.Querier, _ *tree.Node) error { return e.Check(ctx, q, t) }
}

// MaxUncheckedSize is the largest file that is received without looking up its target first. A
// refusal then comes with the transaction, a fraction of a second later; the look-ups would cost as
// much as storing the file.
const MaxUncheckedSize = 256 * drive.KiB

// quick reports whether only the transaction decides about the file, without a look-up before.
func (p PutFile) quick() bool {
	return p.Size != blob.UnknownSize && p.Size <= MaxUncheckedSize && p.Check == nil
}

// peekBuffers hold the first bytes of a body of unknown length. A body that ends within them is a
// small file.
var peekBuffers = sync.Pool{New: func() any { b := make([]byte, MaxUncheckedSize); return &b }}

// readUpTo reads until buf is full or r fails, and returns r's error. Unlike io.ReadFull it returns
// io.EOF for a complete short body; package http uses io.ErrUnexpectedEOF for one that was cut off.
func readUpTo(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var got int
		got, err = r.Read(buf[n:])
		n += got
	}
	return n, err
}

// cutError returns BadRequest {field body, reason cut} for a body that could not be read to its
// end. It returns a *drive.Error unchanged.
func cutError(err error) error {
	if _, known := errors.AsType[*drive.Error](err); known {
		return err
	}
	return drive.Wrap(err, drive.BadRequest, "field", "body", "reason", "cut")
}

// lookUp finds the version at the target, calls p.Check, and checks that a file may be put there
// (NameTaken and others). It returns a zero id if the name is free; then the parent must exist,
// unless p.Parents.
func (s *Sessions) lookUp(ctx context.Context, row Row, p PutFile) (drive.VersionID, error) {
	there, err := s.Tree.Resolve(ctx, s.DB, row.Account, p.Path)
	found := &there
	if drive.IsKind(err, drive.NotFound) {
		found, err = nil, nil
	}
	if err != nil {
		return drive.VersionID{}, err
	}
	if p.Check != nil {
		if err := p.Check(found); err != nil {
			return drive.VersionID{}, err
		}
	}
	if found == nil {
		parent, _, _ := p.Path.Split()
		if _, err := s.Tree.Resolve(ctx, s.DB, row.Account, parent); err != nil && !p.Parents {
			return drive.VersionID{}, err
		}
		return drive.VersionID{}, nil
	}
	place := row.place()
	place.Parent, place.Base = there.Parent, there.Version
	return there.Version, s.Tree.CheckPlace(ctx, s.DB, row.Account, place)
}

// putLarge stores a file as an ordinary upload, sending its parts in sequence as the body arrives.
// It returns the node and whether it is new. If a part or the completion fails, the upload is
// cancelled; InProgress means that it is still sealing and may yet be done.
func (s *Sessions) putLarge(ctx context.Context, who drive.Who, f wholeFile, body io.Reader) (tree.Node, bool, error) {
	b, base := f.asked, f.row.Base
	digests := b.Digests
	b.Digests = nil // makes it an upload of its own, which may be cancelled
	v, err := s.Begin(ctx, who, b, func(ctx context.Context, tx *sqldb.Tx, effect func(context.Context, *sqldb.Tx) (View, error)) (View, error) {
		v, err := effect(ctx, tx)
		if err == nil && v.row.Base != base && b.Conflict == drive.ConflictReplace {
			err = drive.Fail(drive.VersionChanged)
		}
		if err == nil && f.condition != nil {
			err = f.condition(ctx, tx, nil)
		}
		return v, err
	})
	if err != nil {
		return tree.Node{}, false, err
	}
	done, err := s.sendAll(ctx, who, v, digests, body)
	if err != nil {
		return tree.Node{}, false, errors.Join(err, s.Cancel(context.WithoutCancel(ctx), who, v.ID))
	}
	if done.Node == nil { // the seal continues; repeating the same replace later is harmless
		return tree.Node{}, false, drive.Fail(drive.InProgress, "retry_after", 5)
	}
	return *done.Node, base.IsZero(), nil
}

// sendAll sends body in parts to the upload that v shows, completes it with the number of bytes
// read and digests, and returns the completed view, which may be still sealing. A body that fails
// is returned as by cutError. On an error the upload stays open; the caller ends it.
func (s *Sessions) sendAll(ctx context.Context, who drive.Who, v View, digests digest.Set, body io.Reader) (View, error) {
	sent := &countingReader{r: body}
	in := bufio.NewReader(sent)
	for n := 0; ; n++ {
		if _, err := in.Peek(1); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return View{}, cutError(err)
		}
		p := PutPart{N: n, Size: v.row.partLength(n)}
		if v.Size == nil {
			p.Size, p.open = 0, true
		}
		if err := s.Put(ctx, who, v.ID, p, ReaderWithCloser(io.LimitReader(in, int64(v.row.PartSize)), body)); err != nil {
			return View{}, err
		}
	}
	done, _, err := s.Complete(ctx, who, v.ID, Complete{Size: &sent.n, Digests: digests})
	return done, err
}

// ReaderWithCloser returns a reader of r that closes body on Close, if body is an io.Closer. Put
// closes its body when it must end; without that, Cancel would wait for a client that sends
// nothing.
func ReaderWithCloser(r, body io.Reader) io.Reader {
	c, ok := body.(io.Closer)
	if !ok {
		return r
	}
	return struct {
		io.Reader
		io.Closer
	}{r, c}
}

// countingReader counts in n the bytes read from r.
type countingReader struct {
	r io.Reader
	n drive.ByteSize
}

// Read reads from r and adds the number of bytes to n, also if r fails.
func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += drive.ByteSize(n)
	return n, err
}

// IsWriting reports whether this process is writing a content file of that name; the auditor then
// skips the file.
func (s *Sessions) IsWriting(file string) bool {
	_, ok := s.smallFiles.writing.Load(file)
	return ok
}
