package client

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"sync/atomic"
)

// How a step of an upload may end besides an error.
var (
	errBeginAnew = errors.New("the upload is gone from the server")
	errLinked    = errors.New("the upload is done") // t.up has the node
	errSealing   = errors.New("the upload is being sealed")
)

// mostRounds bounds what nothing explains: uploads that vanish, digests that do not match although
// every part does.
const mostRounds = 5

// putParts sends a file as an upload, starting again when the server has lost it.
func (t *transfer) putParts(ctx context.Context) (Result, error) {
	for round := 1; ; round++ {
		res, err := t.upload(ctx)
		if !errors.Is(err, errBeginAnew) {
			return res, err
		}
		if round == mostRounds {
			return res, fmt.Errorf("%w, %d times in a row", err, round)
		}
		t.meter.has(0)
	}
}

// flight is one upload of a transfer.
type flight struct {
	*transfer
	up      Upload
	claimed bool // the server knows the digest
	board   *board
	parts   map[int64]Part // what the server said about the unsure parts
	moved   atomic.Int64   // bytes
	same    bool           // somebody else put the same content there

	node    atomic.Pointer[Node] // set when it is done
	offered atomic.Bool          // the server was told what the content is, or has linked it at begin
	sealing bool                 // all parts were sent, so that being done is no gift
}

// upload takes one upload from begin to its end.
func (t *transfer) upload(ctx context.Context) (Result, error) {
	f := &flight{transfer: t}
	err := f.begin(ctx)
	if err == nil {
		err = f.sendAll(ctx)
	}
	for round := 1; ; round++ {
		if err == nil || errors.Is(err, errSealing) {
			err = f.seal(ctx)
		}
		if err != nil && !errors.Is(err, errLinked) && round < mostRounds {
			err = f.afterRefusal(ctx, err)
		}
		switch {
		case errors.Is(err, errLinked):
			return f.result(ctx)
		case err != nil:
			return Result{}, f.explain(ctx, err)
		}
		err = f.sendAll(ctx)
	}
}

// begin finds or makes the upload. errLinked and errSealing say that nothing is to be sent.
func (f *flight) begin(ctx context.Context) error {
	print, err := fingerprint(f.src, f.file)
	if err != nil {
		return err
	}
	if f.src.Size <= f.u.hashFirst {
		if err := f.hash(); err != nil {
			return err
		}
	}
	size, mtime := f.src.Size, f.src.Mtime.UTC()
	b := Begin{
		Path: f.dest, Size: &size, Fingerprint: print, Conflict: f.opt.Conflict, Parents: f.opt.Parents,
		PartSize: f.u.partSize(size), MIME: f.opt.MIME, Digests: f.digests(),
	}
	if !mtime.IsZero() {
		b.Mtime = &mtime
	}
	f.meter.state(StateSending)
	up, found, err := f.u.c.begin(ctx, b, f.patience)
	if err != nil {
		return err
	}
	if found && up.State != Done { // the reply may be older than the parts: of a retry, or of another client's upload
		offer := up.Challenge
		if up, err = f.u.c.upload(ctx, up.ID, f.patience); IsCode(err, CodeNotFound, CodeGone) {
			return errBeginAnew
		} else if err != nil {
			return err
		}
		up.Challenge = orElse(up.Challenge, offer)
		if len(up.Received) == 0 && up.PartSize > b.PartSize && up.Challenge == nil { // begun with parts that a proxy may refuse
			if err := f.u.c.CancelUpload(ctx, up.ID); err != nil {
				return err
			}
			return errBeginAnew
		}
	}
	f.up, f.claimed = up, f.digest != "" && !found
	if err := f.tell(ctx); err != nil {
		return err
	}
	if err := f.take(ctx, up); err != nil {
		return err
	}
	return f.plan(ctx)
}

// tell makes an upload which an earlier run has begun do what this run was told about a name that
// is taken. A replace then means the version that is there now, before anything is sent. Where the
// earlier run was told the same nothing changes: nobody has seen what has come since, and it is not
// overwritten.
func (f *flight) tell(ctx context.Context) error {
	if f.up.Conflict == f.opt.Conflict || f.up.State != Active && f.up.State != Parked && f.up.State != Verifying {
		return nil
	}
	up, err := f.u.c.amend(ctx, f.up.ID, Amend{Conflict: f.opt.Conflict}, f.patience)
	switch {
	case IsCode(err, CodeNotFound, CodeGone):
		return errBeginAnew
	case IsCode(err, CodeParentGone): // the seal says so, too, and can make the folder again
		return nil
	case err != nil:
		return err
	}
	f.up.Conflict = up.Conflict
	return nil
}

func (f *flight) digests() Digests {
	if f.digest == "" {
		return nil
	}
	return Digests{blake3Name: f.digest}
}

// take answers the challenge in a reply to begin or claim, and says what the reply means for the
// sender.
func (f *flight) take(ctx context.Context, up Upload) error {
	if up.Challenge != nil && up.State != Done {
		f.meter.state(StateVerifying)
		answer, err := keyedAnswer(up.Challenge, f.file, f.src.Size)
		if err != nil {
			return err
		}
		proved, err := f.u.c.prove(ctx, f.up.ID, blake3Name, answer, f.patience)
		switch {
		case err == nil && proved.State == Done:
			up.State, up.Node = Done, proved.Node
		case isProblem(err): // an offer that is refused costs only the sending; but a lost reply may have said yes
			if now, err := f.u.c.upload(ctx, f.up.ID, f.patience); err == nil {
				up.State, up.Node = now.State, now.Node
			}
		case err != nil:
			return err
		}
		f.meter.state(StateSending)
	}
	if up.State == Done {
		f.offered.Store(true)
	}
	return f.judge(up)
}

// judge says what a state means for the sender; nil is: go on.
func (f *flight) judge(up Upload) error {
	switch up.State {
	case Done:
		if up.Node == nil {
			return fmt.Errorf("%s was sent, but it has been deleted since", f.dest)
		}
		f.node.Store(up.Node)
		return errLinked
	case Sealing:
		return errSealing
	case Gone:
		return errBeginAnew
	case Active, Parked, Verifying: // parts that are sent while the server verifies find out that it is done
		return nil
	}
	return fmt.Errorf("upload %s is in state %q, which this client does not know", up.ID, up.State)
}

// follow asks the server where the upload stands, after a reply that did not fit.
func (f *flight) follow(ctx context.Context) error {
	up, err := f.u.c.upload(ctx, f.up.ID, f.patience)
	if IsCode(err, CodeNotFound, CodeGone) {
		return errBeginAnew
	}
	if err != nil {
		return err
	}
	return f.judge(up)
}

// plan lays the board out. What the server has from before is listed with its checksums; parts it
// gives none for are sent again, which it compares by itself.
func (f *flight) plan(ctx context.Context) error {
	if f.up.PartSize < 1 || f.up.Size != nil && *f.up.Size != f.src.Size {
		return fmt.Errorf("upload %s: the server answered with another size", f.up.ID)
	}
	n := (f.src.Size + f.up.PartSize - 1) / f.up.PartSize
	f.board = newBoard(n, f.up.Received)
	f.parts = make(map[int64]Part)
	if len(f.up.Received) == 0 {
		return nil
	}
	if err := f.list(ctx); err != nil {
		return err
	}
	var have int64
	for i := range n {
		if !f.board.unsure(i) {
			continue
		}
		if _, known := f.parts[i]; !known {
			f.board.lose(i)
			continue
		}
		_, size := f.span(i)
		have += size
	}
	f.meter.has(have)
	return nil
}

// list reads the checksums of the parts that the server has.
func (f *flight) list(ctx context.Context) error {
	fetch := func(p Page) (List[Part], error) { return f.u.c.parts(ctx, f.up.ID, p, f.patience) }
	for part, err := range all(fetch) {
		if IsCode(err, CodeNotFound, CodeGone) {
			return errBeginAnew
		}
		if err != nil {
			return err
		}
		if part.CRC32.Known {
			f.parts[part.N] = part
		}
	}
	return nil
}

// span returns offset and length of part n in the file.
func (f *flight) span(n int64) (offset, length int64) {
	offset = n * f.up.PartSize
	return offset, min(f.up.PartSize, f.src.Size-offset)
}

// noteReplaced is of a file that arrived and is an old version by now.
const noteReplaced = "replaced since by another upload"

// errOther is a file that is not what was to be sent, though the server has checked all that it was
// sent.
var errOther = errors.New("another upload has put something else there")

// result checks that what the server holds is what was read here.
func (f *flight) result(ctx context.Context) (Result, error) {
	n := *f.node.Load()
	res := Result{Node: n, State: StateSent, Moved: f.moved.Load()}
	if got := n.Digests[blake3Name]; n.Size != f.src.Size || got != "" && f.digest != "" && got != f.digest {
		had, err := f.replaced(ctx, n)
		if err == nil && !had {
			err = errOther
		}
		if err != nil {
			return Result{}, fmt.Errorf("%s: the server holds %d bytes with digest %s, not %s: %w", n.Path, n.Size, got, f.digest, err)
		}
		res.Note = noteReplaced
	}
	switch {
	case f.offered.Load() && !f.sealing:
		res.State = StateInstant
	case f.same:
		res.State, res.Note = StateSkipped, "same content"
	}
	return res, nil
}

// replaced reports whether what was sent is an old version of the file.
func (f *flight) replaced(ctx context.Context, n Node) (bool, error) {
	versions, err := f.u.c.Versions(ctx, n.ID, Page{})
	return slices.ContainsFunc(versions.Items, func(v Version) bool {
		return !v.Current && f.digest != "" && v.Digests[blake3Name] == f.digest
	}), err
}

// explain turns an error into what the user needs to know: above all what became of the bytes.
func (f *flight) explain(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, ErrChanged) && f.up.ID != "":
		_ = f.u.c.CancelUpload(ctx, f.up.ID) // what came of it belongs to no content; the server's own clean-up is the net
		return err
	case IsCode(err, CodeVersionChanged):
		if f.up.ID != "" && f.opt.Conflict == Replace { // from now on it means the version that the user is told of
			_, _ = f.u.c.AmendUpload(ctx, f.up.ID, Amend{Conflict: Replace}) // else the next run says so once more
		}
		return fmt.Errorf("%w: somebody else replaced %s meanwhile and nothing was overwritten; what was sent is kept: "+
			"put it again to replace what is there now, or with --conflict rename to keep both", err, path.Base(f.dest))
	case IsCode(err, CodeQuota, CodeDiskFull) && f.up.ID != "":
		return fmt.Errorf("%w: what was sent is kept, put it again when there is room", err)
	}
	return err
}

func isProblem(err error) bool { return CodeOf(err) != "" }
