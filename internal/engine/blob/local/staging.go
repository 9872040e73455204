package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// Staging is a blob.Staging that keeps a data file and a journal for each upload below the
// directory staging of a Dir.
type Staging struct {
	d *Dir

	mu      sync.Mutex                 // guards the map and the users field of its uploads; never held across I/O
	uploads map[drive.UploadID]*upload // cached uploads
}

var _ blob.Staging = (*Staging)(nil)

// Caps reports that staged parts can be read before Seal (blob.Staging).
func (s *Staging) Caps() blob.Caps { return blob.Caps{ReadableParts: true} }

// acquire returns the upload of ref with its journal loaded. The caller must call release. It fails
// if ref has another part size or date than the journal.
func (s *Staging) acquire(ref blob.Ref) (*upload, error) {
	u := s.lookup(ref)
	u.mu.Lock()
	err := u.loadLocked()
	u.mu.Unlock()
	if err == nil && (u.ref.PartSize != ref.PartSize || u.ref.Begun != ref.Begun) {
		err = fmt.Errorf("upload %s has parts of %s and began %s, not %s and %s", ref.ID, u.ref.PartSize, u.ref.Begun, ref.PartSize,
			ref.Begun)
	}
	if err != nil {
		s.release(u)
		return nil, err
	}
	return u, nil
}

// lookup returns the cached upload of ref, or a new one, without loading it. The caller must call
// release.
func (s *Staging) lookup(ref blob.Ref) *upload {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.uploads[ref.ID]
	if u == nil {
		u = &upload{d: s.d, ref: ref, dir: s.d.stagedDir(ref), writing: make(map[int]int64)}
		u.flush = flusher{d: s.d, path: u.path(dataFile), onError: u.suspectAll}
		s.uploads[ref.ID] = u
	}
	u.users++
	return u
}

// release ends the use of an upload, and evicts it from the cache if it has no other users and is
// not active.
func (s *Staging) release(u *upload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u.users--; u.users == 0 && !u.active.Load() && s.uploads[u.ref.ID] == u {
		delete(s.uploads, u.ref.ID)
	}
}

// stopAll ends the write-back of all cached uploads. It returns when the goroutines that write back
// have ended.
func (s *Staging) stopAll() {
	s.mu.Lock()
	all := make([]*upload, 0, len(s.uploads))
	for _, u := range s.uploads {
		all = append(all, u)
	}
	s.mu.Unlock()
	for _, u := range all {
		u.flush.stop()
	}
}

// createAttempts bounds how often Create makes directories again that a concurrent Remove has
// deleted as empty.
const createAttempts = 100

// Create durably makes directory, data file and journal of an upload (blob.Staging). What exists
// stays, so it may be repeated; for a sealed upload it does nothing. It fails if the part size is
// not a power of two from 1 MiB on.
func (s *Staging) Create(ctx context.Context, ref blob.Ref) error {
	if ref.PartSize < drive.MiB || ref.PartSize&(ref.PartSize-1) != 0 {
		return fmt.Errorf("create staging: part size %d is no power of two of at least 1 MiB", ref.PartSize)
	}
	if _, err := os.Lstat(s.d.sealedPath(ref.ID)); err == nil {
		return nil // it exists and is sealed
	}
	dir := s.d.stagedDir(ref)
	for attempt := 1; ; attempt++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := os.MkdirAll(dir, dirMode)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || attempt == createAttempts {
			return fmt.Errorf("create staging: %w", classify(err))
		}
	}
	if err := s.createFiles(dir, ref); err != nil {
		return fmt.Errorf("create staging: %w", classify(err))
	}
	day := filepath.Dir(dir)
	month := filepath.Dir(day)
	year := filepath.Dir(month)
	// All levels each time: a level made by a concurrent Create may not be durable yet, and syncing
	// a durable one is cheap.
	return syncDirs(dir, day, month, year, filepath.Dir(year))
}

// createFiles makes the data and journal files in dir if missing. It rewrites a journal that is
// shorter than a header. It syncs the journal but not the directory.
func (s *Staging) createFiles(dir string, ref blob.Ref) error {
	data, err := os.OpenFile(filepath.Join(dir, dataFile), os.O_CREATE|os.O_WRONLY, fileMode)
	if err != nil {
		return err
	}
	if err := data.Close(); err != nil {
		return err
	}
	j, err := os.OpenFile(filepath.Join(dir, journalFile), os.O_CREATE|os.O_RDWR, fileMode)
	if err != nil {
		return err
	}
	return errors.Join(s.writeHeader(j, ref), j.Close())
}

// writeHeader writes the header of an upload to its journal file j, unless the file is long enough
// to have one, and syncs the file in either case.
func (s *Staging) writeHeader(j *os.File, ref blob.Ref) error {
	info, err := j.Stat()
	if err != nil {
		return err
	}
	if info.Size() < frameOver+headerLen {
		head := record{
			kind: kindHeader, id: ref.ID, begun: ref.Begun, partSize: ref.PartSize, size: ref.Size, boot: s.d.boot,
		}
		if _, err := j.WriteAt(head.append(nil), 0); err != nil {
			return err
		}
	}
	return syncData(j)
}

// Drop removes part n from the journal and frees its bytes; a missing part is no error
// (blob.Staging). It fails with WrongState if gen is fenced or the upload sealed, and with
// InProgress while the part is being written.
func (s *Staging) Drop(_ context.Context, ref blob.Ref, gen int64, n int) error {
	u, err := s.acquire(ref)
	if err != nil {
		return err
	}
	defer s.release(u)
	if err := u.claim(gen, n, true); err != nil {
		return err
	}
	defer u.release(n)
	return u.free(n, 0)
}

// Load returns the accepted parts and tails of an upload (blob.Staging). It fails with NotFound if
// there is no such upload.
func (s *Staging) Load(_ context.Context, ref blob.Ref) (blob.Staged, error) {
	u, err := s.acquire(ref)
	if err != nil {
		return blob.Staged{}, err
	}
	defer s.release(u)
	return u.staged()
}

// Fence refuses gen and smaller ones, waits for running Writes, makes all parts durable and returns
// them. The fence is journaled before Fence waits for anything, so that it holds after an error, an
// eviction or a restart.
func (s *Staging) Fence(ctx context.Context, ref blob.Ref, gen int64) (blob.Staged, error) {
	u, err := s.acquire(ref)
	if err != nil {
		return blob.Staged{}, err
	}
	defer s.release(u)
	if err := u.fence(gen); err != nil {
		return blob.Staged{}, err
	}
	if err := u.waitWriters(ctx, gen); err != nil {
		return blob.Staged{}, err
	}
	if err := u.syncAll(); err != nil {
		return blob.Staged{}, err
	}
	staged, err := u.staged()
	if err == nil {
		u.updateActive()
	}
	return staged, err
}

// fence journals that writes with generation gen or lower are refused from now on; a lower or equal
// gen than the fenced one does nothing. If the journal cannot be written, it returns the error but
// keeps the fence in memory until the process ends.
func (u *upload) fence(gen int64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.loadLocked(); err != nil {
		return err
	}
	if gen <= u.journal.fenced {
		return nil
	}
	r := record{kind: kindFence, gen: gen}
	err := u.appendLocked(r)
	if err != nil && u.journal != nil { // the disk is full: the fence holds at least until this process ends
		u.active.Store(true)
		return errors.Join(err, u.journal.apply(r))
	}
	return err
}

// updateActive lets u be evicted from the cache, unless a Write of a later gen runs.
func (u *upload) updateActive() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.active.Store(len(u.writing) > 0 || u.flush.isRunning())
}

// Remove deletes a staged upload with its bytes and empty directories above; a missing one is no
// error. A running Write of it fails. It needs no free disk space.
func (s *Staging) Remove(_ context.Context, ref blob.Ref) error {
	u := s.lookup(ref)
	defer s.release(u)
	u.mu.Lock()
	u.removed = true // makes a running Write fail when it enters its part
	u.mu.Unlock()
	s.evict(u)
	u.flush.stop()
	if err := os.RemoveAll(u.dir); err != nil {
		return fmt.Errorf("remove staging: %w", classify(err))
	}
	return s.removeEmptyDates(filepath.Dir(u.dir))
}

// evict removes u from the cache, so that the next call for the upload reads the disk. It does
// nothing if the cache has another object for the upload.
func (s *Staging) evict(u *upload) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uploads[u.ref.ID] == u {
		delete(s.uploads, u.ref.ID)
	}
}

// removeEmptyDates removes the directories of a day, its month and its year if they are empty, and
// makes the removals durable.
func (s *Staging) removeEmptyDates(day string) error {
	dir := day
	for range 3 {
		if os.Remove(dir) != nil {
			break // not empty, or gone already
		}
		dir = filepath.Dir(dir)
	}
	if err := syncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("sync directory: %w", classify(err))
	}
	return nil
}
