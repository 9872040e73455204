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

// errNeedsUpload reports that the file must be sent as an upload in parts.
var errNeedsUpload = errors.New("needs an upload of its own")

// putSmall sends a file in one request. It hashes the bytes as they are sent and compares the
// digest with the server's.
//
// If the reply is lost, it retries only if dest does not hold the same content. With Rename that
// check is impossible, because an earlier attempt may have used any name; putSmall then tries the
// plain name and returns errNeedsUpload if it is taken, because an upload is identified by its id.
func (t *transfer) putSmall(ctx context.Context) (Result, error) {
	conflict := t.opt.Conflict
	if conflict == Rename {
		conflict = Fail
	}
	t.meter.setState(StateSending)
	for failures := 0; ; {
		sum := blake3.New(32, nil)
		n, inDoubt, err := t.u.c.putFile(ctx, PutFile{
			Path: t.dest, Size: t.src.Size, Mtime: t.src.Mtime, Conflict: conflict, Parents: t.opt.Parents,
			Body: func() (io.Reader, error) {
				sum.Reset()
				return io.TeeReader(io.NewSectionReader(t.file, 0, t.src.Size), sum), nil
			},
		}, t.meter.add, t.budget)
		if err == nil {
			return t.checkSmall(n, sum)
		}
		if ctx.Err() != nil {
			return Result{}, context.Cause(ctx)
		}
		if inDoubt {
			n, found, askErr := t.findSame(ctx)
			if askErr != nil {
				return Result{}, askErr
			}
			if found {
				return Result{Node: n, State: StateSent, Moved: t.src.Size}, nil
			}
		}
		if IsCode(err, CodeNameTaken) {
			return t.handleSmallTaken(ctx, err)
		}
		failures++
		if err := t.u.c.backoff(ctx, t.budget, classifyError(err), failures, err); err != nil {
			return Result{}, err
		}
	}
}

// handleSmallTaken handles a name conflict: errNeedsUpload with Rename, a skipped file if the
// existing one has the same content, otherwise taken.
func (t *transfer) handleSmallTaken(ctx context.Context, taken error) (Result, error) {
	if t.opt.Conflict == Rename {
		return Result{}, errNeedsUpload
	}
	if n, found, err := t.findSame(ctx); err == nil && found {
		return Result{Node: n, State: StateSkipped, Note: "same content"}, nil
	}
	return Result{}, taken
}

// checkSmall checks that the local file did not change while it was sent, and that the server
// stored the bytes that were sent. It fails with ErrChanged or errDamaged; the file is stored also
// then.
func (t *transfer) checkSmall(n Node, sum hash.Hash) (Result, error) {
	res := Result{Node: n, State: StateSent, Moved: t.src.Size}
	if err := t.src.check(); err != nil {
		return res, fmt.Errorf("%w; what was read of it is stored at %s: put it again", err, n.Path)
	}
	if got, want := n.Digests[blake3Name], hex.EncodeToString(sum.Sum(nil)); got != "" && got != want {
		return res, fmt.Errorf("%s: the server holds %s, %s was sent: %w", n.Path, got, want, errDamaged)
	}
	return res, nil
}

// errDamaged reports that content does not match its digest after a transfer.
var errDamaged = errors.New("the content was damaged on its way")
