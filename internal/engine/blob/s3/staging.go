package s3

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// Staging implements blob.Staging and blob.Sealer. In memory it keeps only the running writes of
// this process.
type Staging struct {
	b     *Bucket
	j     journals
	lease time.Duration // duration of a lease
	owner string        // of leases; random, so that a restarted process is another owner

	mu      sync.Mutex
	writers map[drive.UploadID]*writers // running writes of this process
}

var _ blob.Staging = (*Staging)(nil)

// Limits of S3 multipart uploads.
const (
	minPart  = 5 * drive.MiB
	maxParts = 10_000
)

// Caps reports a shared staging with S3's minimum part size (blob.Staging).
func (s *Staging) Caps() blob.Caps {
	return blob.Caps{Shared: true, MinPart: minPart}
}

// createTime bounds Create, which makes several requests for a waiting caller.
const createTime = 20 * time.Second

// Create begins the multipart upload and the journal of an upload; existing ones stay. If the
// journal was lost, it finds and uses the existing multipart upload. One left behind by a crash is
// aborted by Remove, which finds all with the upload's key.
func (s *Staging) Create(ctx context.Context, ref blob.Ref) error {
	if ref.PartSize < minPart || ref.PartSize&(ref.PartSize-1) != 0 {
		return fmt.Errorf("create staging: part size %d is no power of two of at least %d", ref.PartSize, minPart)
	}
	ctx, stop := context.WithTimeout(ctx, createTime)
	defer stop()
	j, found, err := s.j.load(ctx, ref.ID)
	switch {
	case drive.IsKind(err, drive.NotFound): // removed, and created again
	case err != nil:
		return fmt.Errorf("create staging: %w", err)
	case found && j.state != stateRemoved:
		return nil
	default:
		err := s.restoreOnce(ctx, ref) // once is enough: an upload that is not begun is not completed concurrently
		if !drive.IsKind(err, drive.NotFound) {
			return err
		}
	}
	mpu, err := s.b.beginMultipart(ctx, ref.ID)
	if err != nil {
		return fmt.Errorf("create staging: %w", err)
	}
	a, err := s.j.run(ctx, createScript, ref.ID, mpu, randomID())
	if err == nil && a.text(1) != mpu { // a concurrent Create was faster
		return s.b.abort(ctx, s.b.contentKey(ref.ID), mpu)
	}
	return err
}

// Load returns the accepted parts and tails of an upload (blob.Staging). It fails with NotFound if
// the upload does not exist or was removed. A lost journal is rebuilt first.
func (s *Staging) Load(ctx context.Context, ref blob.Ref) (blob.Staged, error) {
	j, err := s.load(ctx, ref)
	if err != nil {
		return blob.Staged{}, fmt.Errorf("load staging: %w", err)
	}
	return j.staged(), nil
}

// load returns the journal of an upload, after rebuilding or repairing it if Redis may have lost
// writes. It fails with NotFound if the upload does not exist or was removed, and with Unavailable
// if the journal is incomplete again after maxTries repairs.
func (s *Staging) load(ctx context.Context, ref blob.Ref) (*journal, error) {
	for range maxTries {
		j, found, err := s.j.load(ctx, ref.ID)
		switch {
		case err != nil:
			return nil, err
		case !found:
			err = s.restore(ctx, ref)
		case j.state == stateRemoved:
			return nil, drive.Fail(drive.NotFound)
		case !j.complete():
			err = s.reconcile(ctx, ref, j, trustStore)
		default:
			return j, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, drive.Wrap(errJournalUnstable, drive.Unavailable)
}

// Fence refuses gen and smaller ones, waits for the Writes of this process and returns the accepted
// parts. It does not wait for Writes of other instances: their leases are gone, so their parts are
// not accepted.
func (s *Staging) Fence(ctx context.Context, ref blob.Ref, gen int64) (blob.Staged, error) {
	err := s.refuseGen(ctx, ref, gen)
	if err == nil {
		err = s.waitWriters(ctx, ref.ID, gen)
	}
	if err != nil {
		return blob.Staged{}, fmt.Errorf("fence: %w", err)
	}
	return s.Load(ctx, ref)
}

// refuseGen fences the journal: later writes with generation gen or lower are refused. It works
// even if ctx has ended, within a time of its own, and does not wait for running writes.
func (s *Staging) refuseGen(ctx context.Context, ref blob.Ref, gen int64) error {
	ctx, stop := cleanupContext(ctx)
	defer stop()
	_, err := s.runRestoring(ctx, ref, fenceScript, gen, s.owner)
	return err
}

// runRestoring runs a script on the journal of an upload. If the journal is missing, it rebuilds it
// and runs the script again. It returns the answer and its verdict as an error (see
// answer.asError). It fails with NotFound if the store has nothing of the upload, and with
// Unavailable if the journal keeps vanishing.
func (s *Staging) runRestoring(ctx context.Context, ref blob.Ref, run redisScript, args ...any) (answer, error) {
	for range maxTries {
		a, err := s.j.run(ctx, run, ref.ID, args...)
		if err != nil {
			return nil, err
		}
		if a.verdict() != "none" {
			return a, a.asError()
		}
		if err := s.restore(ctx, ref); err != nil {
			return nil, err
		}
	}
	return nil, drive.Wrap(errJournalUnstable, drive.Unavailable)
}

// Drop removes part n or its tail from the journal and deletes the bytes (blob.Staging). S3 cannot
// remove a single part, so an empty part replaces it. It fails with WrongState for a fenced gen,
// and with InProgress while the part is being written.
func (s *Staging) Drop(ctx context.Context, ref blob.Ref, gen int64, n int) error {
	unreserve, err := s.reservePart(ref.ID, n, gen)
	if err != nil {
		return err
	}
	defer unreserve()
	entry, err := s.j.entry(ctx, ref.ID, n)
	if err != nil {
		return fmt.Errorf("drop part %d: %w", n, err)
	}
	l, err := s.claim(ctx, ref, blob.Write{N: n, Gen: gen}, "drop", entry)
	if err != nil {
		return fmt.Errorf("drop part %d: %w", n, err)
	}
	left := l.before
	if left > 0 {
		err = s.b.putEmptyPart(context.WithoutCancel(ctx), ref.ID, l.mpu, n)
	}
	if err == nil {
		left = 0
	}
	released := s.release(ctx, l, left)
	s.dropTailPieces(ctx, ref.ID, l.tail)
	if err != nil {
		err = s.explain(ctx, ref, l, err)
	}
	if err = errors.Join(err, released); err != nil {
		return fmt.Errorf("drop part %d: %w", n, err)
	}
	return nil
}

// removedTTL is how long the state removed is kept: longer than any request. A later Write finds
// no multipart upload.
const removedTTL = time.Hour

// Remove deletes a staged upload with its bytes. It first marks the journal as removed, so that
// nothing is accepted any more. A part that is being sent while its multipart upload is aborted may
// stay in the store; its Write aborts again.
func (s *Staging) Remove(ctx context.Context, ref blob.Ref) error {
	a, err := s.j.run(ctx, removeScript, ref.ID, removedTTL.Milliseconds())
	if err == nil {
		err = s.b.abortAll(ctx, ref.ID)
	}
	if err == nil && a.text(1) != "" {
		err = s.b.removePieces(ctx, ref.ID)
	}
	if err != nil {
		return fmt.Errorf("remove staging: %w", err)
	}
	return nil
}

// Verify returns the accepted parts; WrongState if gen is fenced by a greater one. Parts in a
// bucket are never suspect.
func (s *Staging) Verify(ctx context.Context, ref blob.Ref, gen int64) (blob.Staged, error) {
	j, err := s.load(ctx, ref)
	if err == nil && gen < j.fenced {
		err = drive.Wrap(fmt.Errorf("gen %d is fenced by %d", gen, j.fenced), drive.WrongState)
	}
	if err != nil {
		return blob.Staged{}, fmt.Errorf("verify: %w", err)
	}
	return j.staged(), nil
}

// Adopt would move the bytes of another upload to this one. It always returns false, because a part
// cannot change its multipart upload.
func (s *Staging) Adopt(context.Context, blob.Ref, blob.Ref) (bool, error) { return false, nil }
