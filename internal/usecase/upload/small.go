package upload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/content"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/usecase/upload/disk"
)

// smallFiles stores files of up to one part: no staging, no row, one transaction.
type smallFiles struct {
	Parts
	disk       *disk.Promises
	generation int64                                                    // names the files: see Options
	hold       func(ctx context.Context, tx *sqldb.Tx) error            // see Options
	drop       func(context.Context, *sqldb.Tx, Row, tree.Placed) error // releases the versions that a replace drops

	putting sync.Map      // names of files that are being written
	puts    atomic.Uint32 // counts them, from a random number on
}

func newSmallFiles(parts Parts, promises *disk.Promises, generation int64) *smallFiles {
	f := &smallFiles{Parts: parts, disk: promises, generation: generation}
	f.puts.Store(rand.Uint32())
	return f
}

// put stores the file under a name of its own and makes it visible in one transaction. A quick one
// was not looked up.
func (f *smallFiles) put(ctx context.Context, who drive.Who, b Begin, row Row, body io.Reader, quick bool) (tree.Node, bool, error) {
	if !quick {
		if err := f.fits(ctx, row); err != nil {
			return tree.Node{}, false, err
		}
	}
	if err := f.disk.Reserve(ctx, row.Account, row.Size); err != nil {
		return tree.Node{}, false, err
	}
	defer f.disk.Release(row.Account, row.Size)
	file := f.name(row.ID)
	f.putting.Store(file, struct{}{})
	defer f.putting.Delete(file)
	hash := digest.NewRunning(row.Digests.Aliases()...)
	if len(row.Digests.Aliases()) > 0 {
		body = &tee{body, hash}
	}
	part, err := f.Store.Put(ctx, file, blob.NewBody(body, blob.BodyOptions{Size: row.Size, Session: who.Session}))
	if err != nil {
		return tree.Node{}, false, err
	}
	n := summarize(row, []blob.Part{part})
	n.File, n.Aliases = file, hash.Sums()
	placed, err := f.publish(context.WithoutCancel(ctx), b, row, n, quick)
	if err != nil && !maybeWritten(err) { // else the row may be there: the auditor decides
		err = errors.Join(err, f.Store.Remove(context.WithoutCancel(ctx), file))
	}
	return placed.Node, placed.Created, err
}

// perDirectory is how many small files in a row go to one directory.
const perDirectory = 512

// name names the file of a whole-file upload after its id. The last byte, by which the store
// chooses a directory, is not random: files that come together then lie together, their inodes are
// neighbours, and one sync of the directory serves several.
func (f *smallFiles) name(id drive.UploadID) string {
	id[len(id)-1] = byte(f.puts.Add(1) / perDirectory)
	return fmt.Sprintf("put-%d-%s", f.generation, id)
}

// fits refuses early what cannot fit; the transaction decides.
func (f *smallFiles) fits(ctx context.Context, row Row) error {
	balance, err := f.Ledger.Get(ctx, f.DB, row.Account)
	if err == nil && row.Size > balance.Available() {
		err = balance.Refused(row.Size)
	}
	return err
}

func (f *smallFiles) publish(ctx context.Context, b Begin, row Row, n content.New, quick bool) (placed tree.Placed, err error) {
	computed := digest.Set{digest.Blake3: n.Sum[:]}
	maps.Copy(computed, n.Aliases)
	if err := row.Digests.Check(computed); err != nil {
		return tree.Placed{}, err
	}
	err = f.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := f.Ledger.Apply(ctx, tx, row.Account, quota.Move{Finished: row.Size}); err != nil {
			return err
		}
		at, err := f.Tree.Aim(ctx, tx, row.Account, b.Path, b.Parents)
		if err != nil {
			return err
		}
		if err := f.hold(ctx, tx); err != nil {
			return err
		}
		id, _, err := f.Content.Attach(ctx, tx, n)
		if err != nil {
			return err
		}
		placing := row
		if quick { // nobody has seen another version
			placing.Base = at.There.Version
		}
		if placed, err = f.Tree.PutFileAt(ctx, tx, row.Account, at, placing.file(id)); err != nil {
			return err
		}
		return f.drop(ctx, tx, placing, placed)
	})
	return placed, err
}

// tee feeds what is read to the alias hashes.
type tee struct {
	r    io.Reader
	hash *digest.Running
}

func (t *tee) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	if _, hashErr := t.hash.WriteAt(p[:n], t.hash.Offset()); hashErr != nil {
		return n, hashErr
	}
	return n, err
}
