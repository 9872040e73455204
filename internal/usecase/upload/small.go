package upload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/usecase/upload/disk"
)

// smallFiles stores files of up to one part: no staging, no row, and one transaction for those of
// an account that come together.
type smallFiles struct {
	Parts
	disk       *disk.Promises
	generation int64 // names the files: see Options
	committer  *committer

	putting sync.Map      // names of files that are being written
	puts    atomic.Uint32 // counts them, from a random number on
}

func newSmallFiles(parts Parts, promises *disk.Promises, generation int64, c *committer) *smallFiles {
	f := &smallFiles{Parts: parts, disk: promises, generation: generation, committer: c}
	f.puts.Store(rand.Uint32())
	return f
}

// put stores the file under a name of its own and makes it visible. A quick one was not looked up.
func (f *smallFiles) put(ctx context.Context, w wholeFile, body io.Reader, quick bool) (Stored, error) {
	if !quick {
		if err := f.fits(ctx, w.row); err != nil {
			return Stored{}, err
		}
	}
	a, err := f.bring(ctx, w, quick, body)
	if err != nil {
		return Stored{}, err
	}
	f.publish(ctx, []*arrival{a})
	return a.stored(), a.err()
}

// bring stores the content of a file that publish will make visible: what is little becomes durable
// there, together with others.
func (f *smallFiles) bring(ctx context.Context, w wholeFile, quick bool, body io.Reader) (*arrival, error) {
	if little := f.Store.Caps().Little; little == 0 || w.row.Size > little {
		return f.store(ctx, w, arrival{quick: quick, may: w.may}, body, storing{put: f.Store.Put})
	}
	return f.store(ctx, w, arrival{quick: quick, laid: true, may: w.may}, body, f.laying(false))
}

// storing is how content is brought to a store.
type storing struct {
	put  func(ctx context.Context, name string, body blob.Body) (blob.Part, error)
	name func(own string, size drive.ByteSize) string // nil: it has its own
}

// laying is Lay.
func (f *smallFiles) laying(many bool) storing {
	return storing{name: f.Store.Name, put: func(ctx context.Context, name string, body blob.Body) (blob.Part, error) {
		return f.Store.Lay(ctx, name, body, many)
	}}
}

// store brings the content of a file to the store. It is nobody's yet: publish, or drop, must
// follow. a is what is known of the arrival besides.
func (f *smallFiles) store(ctx context.Context, w wholeFile, a arrival, body io.Reader, how storing) (*arrival, error) {
	row := w.row
	if err := f.disk.Reserve(ctx, row.Account, row.Size); err != nil {
		return nil, err
	}
	file := f.name(row.ID)
	if how.name != nil {
		file = how.name(file, row.Size)
	}
	f.putting.Store(file, struct{}{})
	stored := false
	defer func() {
		if !stored { // also in a panic
			f.done(row, file)
		}
	}()
	hash := digest.NewRunning(row.Digests.Aliases()...)
	if len(row.Digests.Aliases()) > 0 {
		body = &tee{body, hash}
	}
	part, err := how.put(ctx, file, blob.NewBody(body, blob.BodyOptions{Size: row.Size, Session: w.who.Session}))
	if err != nil {
		return nil, err
	}
	stored = true
	n := summarize(row, []blob.Part{part})
	n.File, n.Aliases = file, hash.Sums()
	a.begin, a.who, a.row, a.content, a.version = w.begin, w.who, row, n, drive.NewID[drive.VersionID]()
	if err := a.verify(); err != nil {
		return nil, errors.Join(err, f.drop(ctx, &a))
	}
	return &a, nil
}

// done ends what store has begun: the disk's promise is kept or not needed, and the auditor may
// look at the file.
func (f *smallFiles) done(row Row, file string) {
	f.putting.Delete(file)
	f.disk.Release(row.Account, row.Size)
}

// publish makes files of one account visible, each of which succeeds or fails alone: its err says
// so. What is refused leaves no file.
func (f *smallFiles) publish(ctx context.Context, all []*arrival) {
	ctx = context.WithoutCancel(ctx) // their bytes are there; a client that has gone will ask
	f.committer.commit(ctx, all)
	for _, a := range all {
		if err := a.err(); err != nil && !sqldb.MaybeWritten(err) { // else the row may be there: the auditor decides
			a.end(errors.Join(err, f.drop(ctx, a)))
			continue
		}
		f.done(a.row, a.content.File)
	}
}

// drop removes the content of a file that will not be published.
func (f *smallFiles) drop(ctx context.Context, a *arrival) error {
	defer f.done(a.row, a.content.File)
	return f.Store.Remove(context.WithoutCancel(ctx), a.content.File)
}

// dropAll is drop of many.
func (f *smallFiles) dropAll(ctx context.Context, all []*arrival) error {
	var errs []error
	for some := range slices.Chunk(all, blob.MaxRemoved) {
		names := make([]string, len(some))
		for i, a := range some {
			names[i] = a.content.File
			defer f.done(a.row, a.content.File)
		}
		_, err := f.Store.RemoveAll(context.WithoutCancel(ctx), names)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
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
