package client

import (
	"context"
	"errors"
	"fmt"
	"path"
)

// seal completes the upload and waits until the file is there. The digest that goes with it makes
// the server refuse anything that is not what was read here.
func (f *flight) seal(ctx context.Context) error {
	if err := f.src.check(); err != nil {
		return err
	}
	if f.digest == "" { // it was found sealing: nothing was read yet
		if err := f.hash(); err != nil {
			return err
		}
	}
	f.meter.state(StateVerifying)
	f.sealing = true
	a := Amend{Digests: f.digests()}
	if f.up.Conflict != f.opt.Conflict { // it was found sealing, under what an earlier run was told
		a.Conflict = f.opt.Conflict
	}
	pause := f.u.c.opt.Pause
	for unfit := 0; ; pause = min(2*pause, f.u.c.opt.MaxPause) {
		up, err := f.u.c.complete(ctx, f.up.ID, a, f.patience)
		switch {
		case IsCode(err, CodeState, CodeNotFound, CodeGone):
			err = f.follow(ctx)
		case err == nil:
			err = f.judge(up)
		}
		switch unfit++; {
		case errors.Is(err, errSealing):
			unfit = 0
		case err != nil:
			return err
		case unfit == mostRounds: // open, but not to be completed
			return fmt.Errorf("upload %s does not end, it stays %s", f.up.ID, up.State)
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// afterRefusal deals with a refused begin or seal. Nil is: send what is missing now, and seal
// again. errLinked is: it is there after all. Anything else is the error to end with.
func (f *flight) afterRefusal(ctx context.Context, refused error) error {
	switch CodeOf(refused) {
	case CodePartsMissing:
		return f.lostParts(ctx, refused)
	case CodeDigestMismatch:
		return f.mismatch(ctx, refused)
	case CodeParentGone:
		return f.newParent(ctx, refused)
	case CodeNameTaken:
		return f.taken(ctx, refused)
	default:
		return refused
	}
}

// lostParts marks what the server misses.
func (f *flight) lostParts(ctx context.Context, refused error) error {
	var (
		p    *Problem
		lost []Span
	)
	if f.board == nil { // it was found sealing, and fell back
		return f.reload(ctx)
	}
	if !errors.As(refused, &p) || !p.Arg("missing", &lost) || len(lost) == 0 {
		return refused
	}
	for _, s := range lost {
		for n := max(0, s[0]); n <= s[1] && n < int64(len(f.board.parts)); n++ {
			_, length := f.span(n)
			f.meter.add(-length)
			f.board.lose(n)
		}
	}
	return nil
}

// mismatch deals with a digest that is not the one of the parts: a part was damaged, or the file
// changed and its times do not tell. At first the file is read and every part compared again; if
// that does not help, the upload is started again, once.
func (f *flight) mismatch(ctx context.Context, refused error) error {
	f.mismatches++
	f.digest = ""
	switch f.mismatches {
	case 1:
		return f.reload(ctx)
	case 2:
		if err := f.u.c.CancelUpload(ctx, f.up.ID); err != nil {
			return err
		}
		return errBeginAnew
	}
	return fmt.Errorf("%s is not what was sent, although every part was compared: is it being written to? %w", f.src.Name, refused)
}

// newParent makes the folder again and points the upload to it.
func (f *flight) newParent(ctx context.Context, refused error) error {
	if !f.opt.Parents {
		return refused
	}
	folder, _, err := f.u.c.MakeFolder(ctx, DirPath(f.dest))
	if err != nil {
		return err
	}
	up, err := f.u.c.amend(ctx, f.up.ID, Amend{Parent: folder.ID, Name: path.Base(f.dest)}, f.patience)
	if err != nil {
		return err
	}
	return f.judge(up)
}

// taken deals with a name that somebody took: with the same content there is nothing left to do.
func (f *flight) taken(ctx context.Context, refused error) error {
	n, found, err := f.found(ctx)
	if err != nil || !found {
		return refused
	}
	return f.drop(ctx, n)
}

// drop ends the upload in favour of n, which has the same content already.
func (f *flight) drop(ctx context.Context, n Node) error {
	if f.up.ID != "" {
		_ = f.u.c.CancelUpload(ctx, f.up.ID) // a courtesy: the server clears it away by itself in time
	}
	f.same = true
	f.node.Store(&n)
	return errLinked
}

// reload lays the board out again from what the server has now.
func (f *flight) reload(ctx context.Context) error {
	f.sealing = false
	up, err := f.u.c.upload(ctx, f.up.ID, f.patience)
	if err != nil {
		return err
	}
	if err := f.judge(up); err != nil {
		return err
	}
	f.up = up
	return f.plan(ctx)
}
