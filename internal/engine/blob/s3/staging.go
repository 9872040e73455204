package s3

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// Staging implements blob.Staging and blob.Sealer. It keeps nothing of an upload in memory but who
// writes to it in this process.
type Staging struct {
	b     *Bucket
	j     journals
	lease time.Duration
	owner string // of leases: this Staging, not its address, so that one that starts again is another

	mu      sync.Mutex
	writers map[drive.UploadID]*writers
}

var _ blob.Staging = (*Staging)(nil)

// Limits of S3's multipart uploads.
const (
	minPart  = 5 * drive.MiB
	maxParts = 10_000
)

// Caps implements blob.Staging.
func (s *Staging) Caps() blob.Caps {
	return blob.Caps{Shared: true, MinPart: minPart}
}

// createTime bounds Create, which makes several requests and whose caller waits for all of them.
const createTime = 20 * time.Second

// Create implements blob.Staging. A multipart upload that is there already, for the journal was
// lost, is found and used. One that a crash leaves behind unknown goes with Remove, which finds all
// that have the upload's key.
func (s *Staging) Create(ctx context.Context, ref blob.Ref) error {
	if ref.PartSize < minPart || ref.PartSize&(ref.PartSize-1) != 0 {
		return fmt.Errorf("create staging: part size %d is no power of two of at least %d", ref.PartSize, minPart)
	}
	ctx, stop := context.WithTimeout(ctx, createTime)
	defer stop()
	j, found, err := s.j.load(ctx, ref.ID)
	switch {
	case drive.IsKind(err, drive.NotFound): // removed, and made again
	case err != nil:
		return fmt.Errorf("create staging: %w", err)
	case found && j.state != removed:
		return nil
	default:
		err := s.restoreOnce(ctx, ref) // nobody completes what is not begun
		if !drive.IsKind(err, drive.NotFound) {
			return err
		}
	}
	mpu, err := s.b.beginMultipart(ctx, ref.ID)
	if err != nil {
		return fmt.Errorf("create staging: %w", err)
	}
	a, err := s.j.run(ctx, createScript, ref.ID, mpu, randomID())
	if err == nil && a.text(1) != mpu { // somebody was faster
		return s.b.abort(ctx, s.b.contentKey(ref.ID), mpu)
	}
	return err
}

// Load implements blob.Staging.
func (s *Staging) Load(ctx context.Context, ref blob.Ref) (blob.Staged, error) {
	j, err := s.load(ctx, ref)
	if err != nil {
		return blob.Staged{}, fmt.Errorf("load staging: %w", err)
	}
	return j.staged(), nil
}

// load returns the journal of an upload, made again or repaired where Redis may have lost
// something.
func (s *Staging) load(ctx context.Context, ref blob.Ref) (*journal, error) {
	for range tries {
		j, found, err := s.j.load(ctx, ref.ID)
		switch {
		case err != nil:
			return nil, err
		case !found:
			err = s.restore(ctx, ref)
		case j.state == removed:
			return nil, drive.Fail(drive.NotFound)
		case !j.complete():
			err = s.reconcile(ctx, ref, j, adopt)
		default:
			return j, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, drive.Wrap(errUnrest, drive.Unavailable)
}

// Fence implements blob.Staging. Writes of other instances are not waited for: their leases are
// gone, so they enter nothing.
func (s *Staging) Fence(ctx context.Context, ref blob.Ref, gen int64) (blob.Staged, error) {
	err := s.close(ctx, ref, gen)
	if err == nil {
		err = s.waitWriters(ctx, ref.ID, gen)
	}
	if err != nil {
		return blob.Staged{}, fmt.Errorf("fence: %w", err)
	}
	return s.Load(ctx, ref)
}

// close refuses gen, also when ctx has ended: that only ends the waiting.
func (s *Staging) close(ctx context.Context, ref blob.Ref, gen int64) error {
	ctx, stop := detached(ctx)
	defer stop()
	_, err := s.script(ctx, ref, fenceScript, gen, s.owner)
	return err
}

// script runs a script, after the journal was made again if it was lost, and returns its answer or
// the error that this is.
func (s *Staging) script(ctx context.Context, ref blob.Ref, run scriptOf, args ...any) (answer, error) {
	for range tries {
		a, err := s.j.run(ctx, run, ref.ID, args...)
		if err != nil {
			return nil, err
		}
		if a.verdict() != "none" {
			return a, a.refused()
		}
		if err := s.restore(ctx, ref); err != nil {
			return nil, err
		}
	}
	return nil, drive.Wrap(errUnrest, drive.Unavailable)
}

// Drop implements blob.Staging. S3 has no call that takes one part away: an empty one is written
// over it.
func (s *Staging) Drop(ctx context.Context, ref blob.Ref, gen int64, n int) error {
	leave, err := s.enter(ref.ID, n, gen)
	if err != nil {
		return err
	}
	defer leave()
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
		err = s.b.putNothing(context.WithoutCancel(ctx), ref.ID, l.mpu, n)
	}
	if err == nil {
		left = 0
	}
	released := s.release(ctx, l, left)
	s.forgetTail(ctx, ref.ID, l.tail)
	if err != nil {
		err = s.explain(ctx, ref, l, err)
	}
	if err = errors.Join(err, released); err != nil {
		return fmt.Errorf("drop part %d: %w", n, err)
	}
	return nil
}

// rememberEnd is how long the end of an upload stays in the journal: longer than any request lasts.
// A Write that comes still later finds no multipart upload.
const rememberEnd = time.Hour

// Remove implements blob.Staging. The journal goes first: from then on nothing is accepted. A part
// that is being sent while its multipart upload is aborted may stay at the store; its Write aborts
// once more.
func (s *Staging) Remove(ctx context.Context, ref blob.Ref) error {
	a, err := s.j.run(ctx, removeScript, ref.ID, rememberEnd.Milliseconds())
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

// Verify implements blob.Staging. Parts at a store are never in doubt.
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

// Adopt implements blob.Staging: parts belong to a multipart upload for good.
func (s *Staging) Adopt(context.Context, blob.Ref, blob.Ref) (bool, error) { return false, nil }
