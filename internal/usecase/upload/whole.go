package upload

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
)

// PutFile is a whole file in one request.
type PutFile struct {
	Place    string // where Path is; empty: the caller's own drive
	Path     drive.Path
	Size     drive.ByteSize // blob.UnknownSize: chunked
	Conflict drive.Conflict // zero: replace
	Parents  bool
	Digests  digest.Set // declared (Repr-Digest), verified before the file is visible
	MTime    drive.Time
	Mime     string
	// Check is asked once, before the body is read, with what is there now (nil: nothing); its
	// error refuses the request. A replace then acts on exactly that version.
	Check func(there *tree.Node) error
	// Expect is what the caller decided by. It is compared in the transaction that makes a file of
	// up to one part visible; of a larger one in the one that begins its upload, from when on the
	// version that it replaces must stay the current one.
	Expect tree.Expect
}

// Stored is a whole file that is there.
type Stored struct {
	Node    tree.Node
	Created bool // false: a file was replaced
	// Digests are all that are known of its content. nil: it was there before, and nobody has
	// looked.
	Digests digest.Set
}

// PutFile is PutWhole without the digests.
func (s *Sessions) PutFile(ctx context.Context, who drive.Who, p PutFile, body io.Reader) (n tree.Node, created bool, err error) {
	stored, err := s.PutWhole(ctx, who, p, body)
	return stored.Node, stored.Created, err
}

// PutWhole stores a whole file. Up to one part it is one transaction and no staging; larger, or of
// unknown length, it is an ordinary upload underneath. A body that breaks off leaves nothing.
//
// Errors: as Begin, Put and Complete.
func (s *Sessions) PutWhole(ctx context.Context, who drive.Who, p PutFile, body io.Reader) (Stored, error) {
	quick := p.quick() // a body of unknown length is not, whatever its length turns out to be
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
			return Stored{}, cut(err)
		default:
			body = Ending(io.MultiReader(bytes.NewReader((*buf)[:got]), body), body)
		}
	}
	if p.Size != blob.UnknownSize && p.Size <= s.opt.PartSize {
		return s.small.put(ctx, f, body, quick)
	}
	n, created, err := s.putLarge(ctx, who, f, body)
	if drive.IsKind(err, drive.NotFound) && p.Place != "" && len(p.Path) == 0 {
		// Who was given nothing but the file has no right at its folder, which an upload needs.
		limit := s.opt.PartSize
		if p.Size == blob.UnknownSize {
			limit = min(limit, QuickSize)
		}
		err = drive.Wrap(err, drive.TooLarge, "field", "size", "limit", limit)
	}
	return Stored{Node: n, Created: created}, err
}

// wholeFile is a file on its way: what was asked for, and what that is in the account that it goes
// to.
type wholeFile struct {
	asked Begin
	who   drive.Who // acts on the account
	begin Begin
	row   Row
	may   Condition // asked within the transaction; nil: nothing is asked
}

// newFile lets somebody store a file. Unless it is quick, it was looked up what is there.
func (s *Sessions) newFile(ctx context.Context, who drive.Who, p PutFile) (f wholeFile, err error) {
	if p.Conflict == "" {
		p.Conflict = drive.ConflictReplace
	}
	f.asked = Begin{Place: p.Place, Path: p.Path, Size: p.Size, Digests: p.Digests, Conflict: p.Conflict, Parents: p.Parents, MTime: p.MTime, Mime: p.Mime}
	if f.who, f.begin, err = s.gate.enter(ctx, who, f.asked); err != nil {
		return wholeFile{}, err
	}
	f.may = p.expecting(s.Tree)
	f.row, err = s.beginner.newRow(f.who, f.begin)
	if err == nil && !p.quick() {
		p.Path = f.begin.Path
		f.row.Base, err = s.look(ctx, f.row, p)
	}
	return f, err
}

// expecting is the condition that all is as the caller expects; nil: nothing is expected.
func (p PutFile) expecting(t *tree.Tree) Condition {
	e := p.Expect
	if e.IsEmpty() {
		return nil
	}
	return func(ctx context.Context, q sqldb.Querier, _ *tree.Node) error { return e.Check(ctx, q, t) }
}

// QuickSize is the largest file that is taken in before anything was looked up. A refusal then
// comes with its transaction, a fraction of a second later than it could have; the look-ups would
// cost as much as storing it.
const QuickSize = 256 * drive.KiB

// quick reports whether the transaction alone decides about the file.
func (p PutFile) quick() bool {
	return p.Size != blob.UnknownSize && p.Size <= QuickSize && p.Check == nil
}

// peekBuffers hold the beginning of a body of unknown length: one that ends within them is a small
// file.
var peekBuffers = sync.Pool{New: func() any { b := make([]byte, QuickSize); return &b }}

// readUpTo fills buf or returns why it could not. It is not io.ReadFull, which says of the end of a
// whole body what package http says of one that was cut: io.ErrUnexpectedEOF.
func readUpTo(r io.Reader, buf []byte) (n int, err error) {
	for n < len(buf) && err == nil {
		var got int
		got, err = r.Read(buf[n:])
		n += got
	}
	return n, err
}

// cut says of a body that could not be read to its end what it is, unless its reader says more
// already.
func cut(err error) error {
	if _, known := errors.AsType[*drive.Error](err); known {
		return err
	}
	return drive.Wrap(err, drive.BadRequest, "field", "body", "reason", "cut")
}

// look finds what is there now and asks p.Check about it.
func (s *Sessions) look(ctx context.Context, row Row, p PutFile) (drive.VersionID, error) {
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

// putLarge is an ordinary upload, its parts sent one after the other as the body comes.
func (s *Sessions) putLarge(ctx context.Context, who drive.Who, f wholeFile, body io.Reader) (tree.Node, bool, error) {
	b, base := f.asked, f.row.Base
	digests := b.Digests
	b.Digests = nil // so that it is an upload of its own, which may be cancelled
	v, err := s.Begin(ctx, who, b, func(ctx context.Context, tx *sqldb.Tx, effect func(context.Context, *sqldb.Tx) (View, error)) (View, error) {
		v, err := effect(ctx, tx)
		if err == nil && v.row.Base != base && b.Conflict == drive.ConflictReplace {
			err = drive.Fail(drive.VersionChanged)
		}
		if err == nil && f.may != nil {
			err = f.may(ctx, tx, nil)
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
	if done.Node == nil { // the seal goes on; a replace of the same bytes later is harmless
		return tree.Node{}, false, drive.Fail(drive.InProgress, "retry_after", 5)
	}
	return *done.Node, base.IsZero(), nil
}

func (s *Sessions) sendAll(ctx context.Context, who drive.Who, v View, digests digest.Set, body io.Reader) (View, error) {
	sent := &counter{r: body}
	in := bufio.NewReader(sent)
	for n := 0; ; n++ {
		if _, err := in.Peek(1); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return View{}, cut(err)
		}
		p := PutPart{N: n, Size: v.row.partLength(n)}
		if v.Size == nil {
			p.Size, p.open = 0, true
		}
		if err := s.Put(ctx, who, v.ID, p, Ending(io.LimitReader(in, int64(v.row.PartSize)), body)); err != nil {
			return View{}, err
		}
	}
	done, _, err := s.Complete(ctx, who, v.ID, Complete{Size: &sent.n, Digests: digests})
	return done, err
}

// Ending is a reader of what a body brings, which Put ends as it ends the body: by closing it,
// where that can be closed. Without it a Cancel waits for a client that sends nothing.
func Ending(r, body io.Reader) io.Reader {
	c, ok := body.(io.Closer)
	if !ok {
		return r
	}
	return struct {
		io.Reader
		io.Closer
	}{r, c}
}

type counter struct {
	r io.Reader
	n drive.ByteSize
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += drive.ByteSize(n)
	return n, err
}

// Putting reports whether this process is writing a file of that name just now: the auditor leaves
// it alone.
func (s *Sessions) Putting(file string) bool {
	_, ok := s.small.putting.Load(file)
	return ok
}
