package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// Seal implements blob.Staging.
func (s *Staging) Seal(_ context.Context, ref blob.Ref, size drive.ByteSize) error {
	moved, err := s.isSealed(ref, size)
	if err != nil {
		return fmt.Errorf("seal: %w", err)
	}
	if moved { // a crash may have come before the directories were synced
		return s.syncMove(ref)
	}
	u, err := s.use(ref)
	if err != nil {
		return err
	}
	defer s.done(u)
	err = u.beginMove(func() error { return u.checkWholeLocked(size) })
	if err == errSealed { // another Seal was faster
		return s.syncMove(ref)
	}
	if err != nil {
		return fmt.Errorf("seal: %w", err)
	}
	defer u.endMove()
	for _, step := range u.sealSteps(size) {
		if err := step(); err != nil {
			return fmt.Errorf("seal: %w", err)
		}
	}
	return nil
}

// sealSteps returns what Seal does, in order. The process may die between any two: what is done is
// done again or found done.
func (u *upload) sealSteps(size drive.ByteSize) []func() error {
	data, sealed := u.path(dataFile), u.d.sealedPath(u.ref.ID)
	return []func() error{
		func() error { return classify(os.Truncate(data, int64(size))) },
		func() error { return u.settle() },
		func() error { return u.syncLength(data) },
		func() error { return u.d.makeShard(sealed) },
		func() error { return u.move(data, sealed, true) },
		func() error { return u.d.Staging.syncMove(u.ref) },
	}
}

// errSealed says that there is nothing left to move.
var errSealed = errors.New("sealed already")

// checkWholeLocked refuses to make content of bytes that are missing or in doubt.
func (u *upload) checkWholeLocked(size drive.ByteSize) error {
	switch {
	case u.sealed:
		return errSealed
	case u.journal.any(isSuspect):
		return drive.Wrap(errors.New("parts are suspect"), drive.WrongState)
	case u.journal.missing(size):
		return drive.Wrap(fmt.Errorf("%d parts do not make up %d bytes", len(u.journal.parts), size), drive.PartsMissing)
	}
	return nil
}

// syncLength makes the length durable, which fdatasync need not do when it shrinks. What settle has
// synced costs nothing again.
func (u *upload) syncLength(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return classify(err)
	}
	err = f.Sync()
	if err != nil {
		u.doubt(err)
	}
	return classify(errors.Join(err, f.Close()))
}

// isSealed says whether the bytes are among the blobs and nowhere else. Bytes in both places nobody
// has put there: a rename would destroy one of them (B1).
func (s *Staging) isSealed(ref blob.Ref, size drive.ByteSize) (bool, error) {
	info, err := os.Lstat(s.d.sealedPath(ref.ID))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if _, err := os.Lstat(filepath.Join(s.d.stagedDir(ref), dataFile)); err == nil {
		return false, fmt.Errorf("upload %s is staged and sealed", ref.ID)
	}
	if size != blob.UnknownSize && drive.ByteSize(info.Size()) != size {
		return false, fmt.Errorf("content of upload %s has %d bytes, not %d", ref.ID, info.Size(), size)
	}
	return true, nil
}

// syncMove makes a move between staging and blobs durable, in both directories. Either may be
// missing: the staged one may be removed already, and a seal that was refused before its rename may
// have made no place among the blobs.
func (s *Staging) syncMove(ref blob.Ref) error {
	for _, dir := range []string{filepath.Dir(s.d.sealedPath(ref.ID)), s.d.stagedDir(ref)} {
		if err := syncDirs(dir); err != nil && !drive.IsKind(err, drive.NotFound) {
			return err
		}
	}
	return nil
}

// move renames the bytes and notes where they are in one step, for those who look at them
// meanwhile: they must not find them nowhere while the directories are synced.
func (u *upload) move(from, to string, sealed bool) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := os.Rename(from, to); err != nil {
		return classify(err)
	}
	u.sealed = sealed
	return nil
}

// beginMove keeps parts out while the bytes are moved, if check agrees.
func (u *upload) beginMove(checkLocked func() error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.loadLocked(); err != nil {
		return err
	}
	if u.busy || len(u.writing) > 0 {
		return drive.Fail(drive.InProgress)
	}
	if err := checkLocked(); err != nil {
		return err
	}
	u.busy = true
	return nil
}

// endMove lets the next call look for the bytes again.
func (u *upload) endMove() {
	u.flush.stop()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.busy, u.journal = false, nil
	u.active.Store(false)
}

// Unseal implements blob.Staging.
func (s *Staging) Unseal(_ context.Context, ref blob.Ref) error {
	moved, err := s.isSealed(ref, blob.UnknownSize)
	if err != nil {
		return fmt.Errorf("unseal: %w", err)
	}
	u, err := s.use(ref)
	if err != nil {
		return err
	}
	defer s.done(u)
	if err := u.beginMove(func() error { return nil }); err != nil {
		return fmt.Errorf("unseal: %w", err)
	}
	defer u.endMove()
	if moved {
		if err := u.move(s.d.sealedPath(ref.ID), u.path(dataFile), false); err != nil {
			return fmt.Errorf("unseal: %w", err)
		}
	}
	return s.syncMove(ref)
}

// OpenStaged implements blob.Staging.
func (s *Staging) OpenStaged(_ context.Context, ref blob.Ref) (blob.Object, error) {
	o, err := openObject(filepath.Join(s.d.stagedDir(ref), dataFile))
	if drive.IsKind(err, drive.NotFound) {
		// Order matters: a Seal may come between the two.
		return openObject(s.d.sealedPath(ref.ID))
	}
	return o, err
}
