package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// Seal moves the complete data file of an upload to the blobs, durably; it may be repeated after
// success or a crash (blob.Staging). It fails with PartsMissing if the parts do not add up to size
// and with InProgress while a part is being written; the upload then stays open.
func (s *Staging) Seal(_ context.Context, ref blob.Ref, size drive.ByteSize) error {
	moved, err := s.isSealed(ref, size)
	if err != nil {
		return fmt.Errorf("seal: %w", err)
	}
	if moved { // a crash may have come before the directories were synced
		return s.syncMove(ref)
	}
	u, err := s.acquire(ref)
	if err != nil {
		return err
	}
	defer s.release(u)
	err = u.beginMove(func() error { return u.checkCompleteLocked(size) })
	if err == errSealed { // a concurrent Seal was faster
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

// sealSteps returns the steps of Seal, for the caller to run in order until one fails. The process
// may die between any two; Seal then repeats them or finds them done.
func (u *upload) sealSteps(size drive.ByteSize) []func() error {
	data, sealed := u.path(dataFile), u.d.sealedPath(u.ref.ID)
	return []func() error{
		func() error { return classify(os.Truncate(data, int64(size))) },
		func() error { return u.syncAll() },
		func() error { return u.syncLength(data) },
		func() error { return u.d.makeShard(sealed) },
		func() error { return u.moveBytes(data, sealed, true) },
		func() error { return u.d.Staging.syncMove(u.ref) },
	}
}

// errSealed reports that the bytes are already sealed.
var errSealed = errors.New("sealed already")

// checkCompleteLocked returns nil if the parts add up to size and none is suspect. It returns
// errSealed if the upload is sealed already, WrongState for suspect parts, and PartsMissing. The
// caller holds u.mu and has loaded the journal.
func (u *upload) checkCompleteLocked(size drive.ByteSize) error {
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

// syncLength syncs the file at path with its length, which fdatasync need not do after a
// truncation. It costs little if the bytes are synced. If the sync fails, all parts become suspect,
// because their bytes may be lost.
func (u *upload) syncLength(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return classify(err)
	}
	err = f.Sync()
	if err != nil {
		u.suspectAll(err)
	}
	return classify(errors.Join(err, f.Close()))
}

// isSealed reports whether the bytes are among the blobs and no longer staged. Bytes in both
// places, or content of another size, are an error: a rename would destroy one of them (B1).
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

// syncMove makes a move between staging and blobs durable in both directories. Either may be
// missing: the staged one after Remove, the other one if a seal was refused before its rename.
func (s *Staging) syncMove(ref blob.Ref) error {
	for _, dir := range []string{filepath.Dir(s.d.sealedPath(ref.ID)), s.d.stagedDir(ref)} {
		if err := syncDirs(dir); err != nil && !drive.IsKind(err, drive.NotFound) {
			return err
		}
	}
	return nil
}

// moveBytes renames the file of the bytes and sets u.sealed in one step, so that concurrent readers
// always find it. The rename is not durable; the caller syncs the directories. On an error u.sealed
// is unchanged.
func (u *upload) moveBytes(from, to string, sealed bool) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := os.Rename(from, to); err != nil {
		return classify(err)
	}
	u.sealed = sealed
	return nil
}

// beginMove loads u and reserves it for moving the bytes, if checkLocked returns nil; it returns
// InProgress if a Write or another move runs. The caller must call endMove.
func (u *upload) beginMove(checkLocked func() error) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.loadLocked(); err != nil {
		return err
	}
	if u.moving || len(u.writing) > 0 {
		return drive.Fail(drive.InProgress)
	}
	if err := checkLocked(); err != nil {
		return err
	}
	u.moving = true
	return nil
}

// endMove ends the reservation of beginMove and makes the next call reload u.
func (u *upload) endMove() {
	u.flush.stop()
	u.mu.Lock()
	defer u.mu.Unlock()
	u.moving, u.journal = false, nil
	u.active.Store(false)
}

// Unseal moves the content of a sealed upload back to its staging directory, durably, and makes the
// upload writable (blob.Staging). It does nothing for an open upload. The content is no longer
// readable as a blob.
func (s *Staging) Unseal(_ context.Context, ref blob.Ref) error {
	moved, err := s.isSealed(ref, blob.UnknownSize)
	if err != nil {
		return fmt.Errorf("unseal: %w", err)
	}
	u, err := s.acquire(ref)
	if err != nil {
		return err
	}
	defer s.release(u)
	if err := u.beginMove(func() error { return nil }); err != nil {
		return fmt.Errorf("unseal: %w", err)
	}
	defer u.endMove()
	if moved {
		if err := u.moveBytes(s.d.sealedPath(ref.ID), u.path(dataFile), false); err != nil {
			return fmt.Errorf("unseal: %w", err)
		}
	}
	return s.syncMove(ref)
}

// OpenStaged opens the bytes of an upload, sealed or not; parts that were not received read as
// zeros (blob.Staging). It fails with NotFound if there is no such upload. The caller must close
// the Object.
func (s *Staging) OpenStaged(_ context.Context, ref blob.Ref) (blob.Object, error) {
	o, err := openObject(filepath.Join(s.d.stagedDir(ref), dataFile))
	if drive.IsKind(err, drive.NotFound) {
		// The order matters: a Seal may happen between the two.
		return openObject(s.d.sealedPath(ref.ID))
	}
	return o, err
}
