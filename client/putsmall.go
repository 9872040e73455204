package client

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"lukechampine.com/blake3"
)

// errNeedsUpload says that one request cannot do it.
var errNeedsUpload = errors.New("needs an upload of its own")

// putSmall sends a file in one request. What was sent is hashed on its way out and compared with
// what the server says it has.
//
// A lost reply: the server is asked what is at dest; only other content, or none, is sent again.
// Rename has no such answer (the first attempt may have taken any name), so it first tries the
// plain name, and then becomes an upload, whose id tells.
func (t *transfer) putSmall(ctx context.Context) (Result, error) {
	conflict := t.opt.Conflict
	if conflict == Rename {
		conflict = Fail
	}
	t.meter.state(StateSending)
	for failures := 0; ; {
		sum := blake3.New(32, nil)
		n, doubt, err := t.u.c.putFile(ctx, PutFile{
			Path: t.dest, Size: t.src.Size, Mtime: t.src.Mtime, Conflict: conflict, Parents: t.opt.Parents,
			Body: func() (io.Reader, error) {
				sum.Reset()
				return io.TeeReader(io.NewSectionReader(t.file, 0, t.src.Size), sum), nil
			},
		}, t.meter.add, t.patience)
		if err == nil {
			return t.sentSmall(n, sum)
		}
		if ctx.Err() != nil {
			return Result{}, context.Cause(ctx)
		}
		if doubt {
			n, found, askErr := t.found(ctx)
			if askErr != nil {
				return Result{}, askErr
			}
			if found {
				return Result{Node: n, State: StateSent, Moved: t.src.Size}, nil
			}
		}
		if IsCode(err, CodeNameTaken) {
			return t.takenSmall(ctx, err)
		}
		failures++
		if err := t.u.c.pause(ctx, t.patience, judge(err), failures, err); err != nil {
			return Result{}, err
		}
	}
}

// takenSmall decides about a name that is taken.
func (t *transfer) takenSmall(ctx context.Context, taken error) (Result, error) {
	if t.opt.Conflict == Rename {
		return Result{}, errNeedsUpload
	}
	if n, found, err := t.found(ctx); err == nil && found {
		return Result{Node: n, State: StateSkipped, Note: "same content"}, nil
	}
	return Result{}, taken
}

func (t *transfer) sentSmall(n Node, sum hash.Hash) (Result, error) {
	res := Result{Node: n, State: StateSent, Moved: t.src.Size}
	if err := t.src.check(); err != nil {
		return res, fmt.Errorf("%w; what was read of it is stored at %s: put it again", err, n.Path)
	}
	if got, want := n.Digests[blake3Name], hex.EncodeToString(sum.Sum(nil)); got != "" && got != want {
		return res, fmt.Errorf("%s: the server holds %s, %s was sent: %w", n.Path, got, want, errDamaged)
	}
	return res, nil
}

// errDamaged is content that is not what was sent.
var errDamaged = errors.New("the content was damaged on its way")
