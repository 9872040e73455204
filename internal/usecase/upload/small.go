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

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/upload/disk"
)

// smallFiles stores files of at most one part. They need no staging and no upload row, and
// concurrent files of an account share one transaction.
type smallFiles struct {
	Dependencies
	disk       *disk.Reservations
	generation int64 // distinguishes file names across starts: see Options
	committer  *committer

	writing sync.Map      // names of files that are being written
	written atomic.Uint32 // counter for file names; starts at a random number
}

// newSmallFiles returns a smallFiles over the given services.
func newSmallFiles(parts Dependencies, promises *disk.Reservations, generation int64, c *committer) *smallFiles {
	f := &smallFiles{Dependencies: parts, disk: promises, generation: generation, committer: c}
	f.written.Store(rand.Uint32())
	return f
}

// put stores the content under a new name and publishes the file. quick says that the target was
// not looked up before; otherwise put checks the quota before it reads the body. If the file is
// refused, its content is removed.
func (f *smallFiles) put(ctx context.Context, w wholeFile, body io.Reader, quick bool) (Stored, error) {
	if !quick {
		if err := f.checkQuota(ctx, w.row); err != nil {
			return Stored{}, err
		}
	}
	a, err := f.storeContent(ctx, w, quick, body)
	if err != nil {
		return Stored{}, err
	}
	f.publish(ctx, []*pendingFile{a})
	return a.stored(), a.err()
}

// storeContent stores the content of a file for publish. If the store prefers it, the content of a
// tiny file becomes durable only in publish, together with others.
func (f *smallFiles) storeContent(ctx context.Context, w wholeFile, quick bool, body io.Reader) (*pendingFile, error) {
	if little := f.Store.Caps().SmallMax; little == 0 || w.row.Size > little {
		return f.store(ctx, w, pendingFile{quick: quick, condition: w.condition}, body, storeMethod{put: f.Store.Put})
	}
	return f.store(ctx, w, pendingFile{quick: quick, needsSync: true, condition: w.condition}, body, f.lazyMethod(false))
}

// storeMethod selects how content is written to the store.
type storeMethod struct {
	put  func(ctx context.Context, name string, body blob.Body) (blob.Part, error)
	name func(own string, size drive.ByteSize) string // computes the file name; nil: own is used as it is
}

// lazyMethod returns the method that writes through Store.PutUnsynced: the content is not durable
// until Store.Sync. many hints that more files follow.
func (f *smallFiles) lazyMethod(many bool) storeMethod {
	return storeMethod{name: f.Store.ReserveName, put: func(ctx context.Context, name string, body blob.Body) (blob.Part, error) {
		return f.Store.PutUnsynced(ctx, name, body, many)
	}}
}

// store writes the content of a file to the store and verifies its declared digests. a carries
// preset fields of the result. On success the caller must pass the result to publish or drop; on an
// error nothing remains. Errors: DiskFull, DigestMismatch and those of the body and the store.
func (f *smallFiles) store(ctx context.Context, w wholeFile, a pendingFile, body io.Reader, how storeMethod) (*pendingFile, error) {
	row := w.row
	if err := f.disk.Reserve(ctx, row.Account, row.Size); err != nil {
		return nil, err
	}
	file := f.fileName(row.ID)
	if how.name != nil {
		file = how.name(file, row.Size)
	}
	f.writing.Store(file, struct{}{})
	stored := false
	defer func() {
		if !stored { // also on panic
			f.releaseFile(row, file)
		}
	}()
	hash := digest.NewRunning(row.Digests.Aliases()...)
	if len(row.Digests.Aliases()) > 0 {
		body = &hashTee{body, hash}
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

// releaseFile ends the protection that store gave a file: it releases the disk promise and lets the
// auditor inspect the file.
func (f *smallFiles) releaseFile(row Row, file string) {
	f.writing.Delete(file)
	f.disk.Release(row.Account, row.Size)
}

// publish makes files of one account visible. Each succeeds or fails alone: see its err. The
// contents of refused files are removed.
func (f *smallFiles) publish(ctx context.Context, all []*pendingFile) {
	ctx = context.WithoutCancel(ctx) // the bytes are stored; a disconnected client may ask for the result later
	f.committer.commit(ctx, all)
	for _, a := range all {
		if err := a.err(); err != nil && !sqldb.MaybeWritten(err) { // otherwise the row may exist, and the auditor decides
			a.finish(errors.Join(err, f.drop(ctx, a)))
			continue
		}
		f.releaseFile(a.row, a.content.File)
	}
}

// drop removes the content of a file that will not be published, even if ctx has ended, and
// releases the file's disk space. It is called once per file; its error is that of the store.
func (f *smallFiles) drop(ctx context.Context, a *pendingFile) error {
	defer f.releaseFile(a.row, a.content.File)
	return f.Store.Remove(context.WithoutCancel(ctx), a.content.File)
}

// dropAll removes the contents of files that will not be published, in as few calls as the store
// allows.
func (f *smallFiles) dropAll(ctx context.Context, all []*pendingFile) error {
	var errs []error
	for some := range slices.Chunk(all, blob.MaxRemoved) {
		names := make([]string, len(some))
		for i, a := range some {
			names[i] = a.content.File
			defer f.releaseFile(a.row, a.content.File)
		}
		_, err := f.Store.RemoveAll(context.WithoutCancel(ctx), names)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// perDirectory is the number of consecutive small files that share a directory of the store.
const perDirectory = 512

// fileName returns the name of the content file for an upload id. The store chooses the directory
// by the last byte, so that byte is a counter instead of random: files that arrive together share a
// directory, and one directory sync serves several.
func (f *smallFiles) fileName(id drive.UploadID) string {
	id[len(id)-1] = byte(f.written.Add(1) / perDirectory)
	return fmt.Sprintf("put-%d-%s", f.generation, id)
}

// checkQuota refuses a file early that exceeds the account's quota. The transaction checks again
// and decides.
func (f *smallFiles) checkQuota(ctx context.Context, row Row) error {
	balance, err := f.Ledger.Get(ctx, f.DB, row.Account)
	if err == nil && row.Size > balance.Available() {
		err = balance.Refused(row.Size)
	}
	return err
}

// hashTee feeds the bytes read from r to the hashes of declared digests.
type hashTee struct {
	r    io.Reader
	hash *digest.Running
}

// Read reads from r and adds the bytes to hash. An error of hash is returned instead of that of r.
func (t *hashTee) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	if _, hashErr := t.hash.WriteAt(p[:n], t.hash.Offset()); hashErr != nil {
		return n, hashErr
	}
	return n, err
}
