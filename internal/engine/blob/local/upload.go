package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// upload is the cached state of a staged upload while it is active or used by a call.
type upload struct {
	d     *Dir
	ref   blob.Ref
	dir   string // the upload's directory
	flush flusher
	users int // running calls; guarded by Staging.mu

	// active keeps the upload cached while parts arrive. It is cleared only after the flusher has
	// stopped, because the flusher refers to this upload.
	active atomic.Bool

	// mu guards the fields below and orders writes to the journal. It is held while a frame is
	// written (about 10 µs), an exception to the rule against I/O under a mutex: the journal has
	// one end, and concurrent writers must wait for each other anyway. Syncs run without it.
	mu      sync.Mutex
	journal *journal // nil: to be loaded

	compactAt   int64         // length in bytes at which the journal is rewritten
	sealed      bool          // the bytes are among the blobs
	removed     bool          // the upload was removed
	moving      bool          // a Seal, Unseal or Adopt is moving the bytes
	accepted    int           // parts accepted by this process
	failedSyncs int           // failed syncs
	writing     map[int]int64 // gen of each part being written
	ended       chan struct{} // closed when the next Write ends; nil if no caller waits
}

// path returns the path of a file of the upload.
func (u *upload) path(name string) string { return filepath.Join(u.dir, name) }

// bytesPath returns the path of the data: staged or sealed.
func (u *upload) bytesPath() string {
	if u.sealed {
		return u.d.sealedPath(u.ref.ID)
	}
	return u.path(dataFile)
}

// loadLocked loads the journal unless it is loaded, truncates it to its last whole frame, and frees
// bytes that neither a part nor a running Write covers. It returns NotFound if the upload is
// missing or removed, and an error if the journal is of another upload or part size. The caller
// holds u.mu. On an error no journal is loaded.
func (u *upload) loadLocked() error {
	if u.removed {
		return drive.Fail(drive.NotFound)
	}
	if u.journal != nil {
		return nil
	}
	if err := u.finishAdopt(); err != nil {
		return err
	}
	b, err := os.ReadFile(u.path(journalFile))
	if err != nil {
		return fmt.Errorf("read journal: %w", classify(err))
	}
	j, err := parseJournal(b)
	switch {
	case errors.Is(err, errNoHeader):
		return drive.Wrap(err, drive.NotFound)
	case err != nil:
		return fmt.Errorf("read journal of upload %s: %w", u.ref.ID, err)
	case j.head.id != u.ref.ID || j.head.partSize != u.ref.PartSize:
		return fmt.Errorf("journal is of upload %s in parts of %s, not %s in %s", drive.UploadID(j.head.id), j.head.partSize,
			u.ref.ID, u.ref.PartSize)
	}
	if u.sealed, err = u.findBytes(); err != nil {
		return err
	}
	u.journal = j
	u.compactAt = compactMin
	if err := u.repairLocked(int64(len(b))); err != nil {
		u.journal = nil
		return err
	}
	if j.boot != u.d.boot {
		j.markReboot()
	}
	return nil
}

// findBytes reports whether the bytes have been moved to the blobs. It returns NotFound if they are
// in neither place.
func (u *upload) findBytes() (sealed bool, err error) {
	_, err = os.Lstat(u.path(dataFile))
	if errors.Is(err, fs.ErrNotExist) {
		_, err = os.Lstat(u.d.sealedPath(u.ref.ID))
		sealed = true
	}
	if err != nil {
		return false, fmt.Errorf("find bytes: %w", classify(err))
	}
	return sealed, nil
}

// repairLocked truncates the journal, of size bytes, to its whole frames; if that cuts something
// off, it first journals that all parts are suspect. Unless the upload is sealed, it frees
// uncovered bytes of the data file. The caller holds u.mu and has set u.journal.
func (u *upload) repairLocked(size int64) error {
	if size > u.journal.end {
		u.d.log.Warn("torn end of a journal cut off; all parts of the upload are verified before it completes", "upload", u.ref.ID, "bytes", size-u.journal.end)
		if err := u.appendLocked(record{kind: kindDoubt, flags: doubtCut}); err != nil {
			return err
		}
		if err := os.Truncate(u.path(journalFile), u.journal.end); err != nil {
			return fmt.Errorf("cut journal: %w", classify(err))
		}
	}
	if u.sealed {
		return nil
	}
	return u.freeTornLocked()
}

// freeTornLocked cuts the data file at the end of its parts and frees the bytes that neither a part
// nor a running Write covers, which an interrupted Write has left. The journal must be loaded; the
// caller holds u.mu.
func (u *upload) freeTornLocked() error {
	f, err := os.OpenFile(u.path(dataFile), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open data: %w", classify(err))
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("stat data: %w", err)
	}
	gaps, end := u.journal.gaps(u.writing)
	if info.Size() > end {
		if err := f.Truncate(end); err != nil {
			return fmt.Errorf("cut data: %w", classify(err))
		}
	}
	if allocated(info) <= int64(u.sizeLocked()) { // nothing to free; punching costs a call per gap
		return nil // nothing to free, and a hole per gap would be a call per gap
	}
	for _, gap := range gaps {
		if err := punch(f, gap); err != nil {
			return fmt.Errorf("free torn bytes: %w", classify(err))
		}
	}
	return nil
}

// appendLocked writes records to the journal file, without a sync, applies them to u.journal, and
// compacts the journal if it is long. It fails with NotFound if the upload was removed. If writing
// fails, the journal is unchanged, or is loaded again by the next call. The caller holds u.mu and
// has loaded the journal.
func (u *upload) appendLocked(records ...record) error {
	if u.removed {
		return drive.Fail(drive.NotFound)
	}
	j := u.journal
	if j.boot != u.d.boot {
		records = append([]record{{kind: kindBoot, boot: u.d.boot}}, records...)
	}
	var b []byte
	for _, r := range records {
		b = r.append(b)
	}
	if err := u.writeLocked(b); err != nil {
		return fmt.Errorf("append to journal: %w", classify(err))
	}
	j.end += int64(len(b))
	for _, r := range records {
		if err := j.apply(r); err != nil {
			return err
		}
	}
	if j.end >= u.compactAt {
		u.compactLocked()
	}
	return nil
}

// writeLocked writes b at the end of the journal file. On an error it truncates the file again. If
// that fails too, it sets u.journal to nil, so that the next call loads the file. The caller holds
// u.mu.
func (u *upload) writeLocked(b []byte) error {
	f, err := os.OpenFile(u.path(journalFile), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if _, err = f.WriteAt(b, u.journal.end); err == nil {
		return nil
	}
	if cut := f.Truncate(u.journal.end); cut != nil {
		u.journal = nil // the file's state is unknown: the next call loads it
		err = errors.Join(err, cut)
	}
	return err
}

// syncJournal makes the journal file durable. If that fails, it marks all parts of the upload
// suspect and returns the error: they must be verified before use.
func (u *upload) syncJournal() error {
	if err := syncPath(u.path(journalFile)); err != nil {
		u.suspectAll(err)
		return fmt.Errorf("sync journal: %w", classify(err))
	}
	return nil
}

// claim reserves part n for a Write or Drop under gen and removes its entry from the journal before
// its bytes change, durably if the bytes are durable. It fails with blob.PartExistsError if an
// intact part was accepted, unless replace is set, with WrongState if gen is fenced, and with
// InProgress if the part is reserved. After success the caller must call release.
func (u *upload) claim(gen int64, n int, replace bool) error {
	u.mu.Lock()
	held, err := u.claimLocked(gen, n, replace)
	u.mu.Unlock()
	if err != nil {
		return err
	}
	if held == nil || held.unsynced {
		return nil
	}
	// If a power loss undid the drop but not the new bytes, the journal would name a wrong part
	// that is not suspect.
	if err := u.syncJournal(); err != nil {
		u.freeFailed(n)
		u.release(n)
		return err
	}
	return nil
}

// claimLocked reserves part n for a writer of generation gen and journals the removal of what was
// accepted before; held is the removed entry, nil if there was none. It fails with
// blob.PartExistsError if an intact part exists and replace is false. It does not sync the journal;
// the caller holds u.mu and must release the claim.
func (u *upload) claimLocked(gen int64, n int, replace bool) (held *entry, err error) {
	if err := u.loadLocked(); err != nil {
		return nil, err
	}
	if err := u.checkWritableLocked(gen, n); err != nil {
		return nil, err
	}
	if e, ok := u.journal.parts[n]; ok && !replace && !e.suspect {
		return nil, &blob.PartExistsError{Part: e.Part}
	}
	if e, ok := u.journal.entry(n); ok {
		if err := u.appendLocked(record{kind: kindDrop, n: n, gen: gen}); err != nil {
			return nil, err
		}
		held = &e
	}
	u.writing[n] = gen
	u.active.Store(true)
	return held, nil
}

// checkWritableLocked returns nil if a write of part n under gen may begin. It returns WrongState
// if the upload is sealed or being moved or the gen is fenced, and InProgress during another write
// of the part. The caller holds u.mu and has loaded the journal.
func (u *upload) checkWritableLocked(gen int64, n int) error {
	_, taken := u.writing[n]
	switch {
	case u.sealed || u.moving:
		return drive.Fail(drive.WrongState, "state", "sealing")
	case gen <= u.journal.fenced:
		return drive.Wrap(fmt.Errorf("gen %d is fenced by %d", gen, u.journal.fenced), drive.WrongState)
	case taken:
		return drive.Fail(drive.InProgress)
	}
	return nil
}

// release ends the reservation of part n, which lets others write it, and wakes callers that wait
// for running writes.
func (u *upload) release(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.writing, n)
	if u.ended != nil {
		close(u.ended)
		u.ended = nil
	}
}

// waitWriters waits until no Write under gen or a smaller one runs, or returns the error of ctx.
func (u *upload) waitWriters(ctx context.Context, gen int64) error {
	for {
		ended := u.writeEnded(gen)
		if ended == nil {
			return nil
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return fmt.Errorf("wait for running parts: %w", ctx.Err())
		}
	}
}

// writeEnded returns a channel that is closed when the next Write ends, or nil if no Write under
// gen or a smaller one runs.
func (u *upload) writeEnded(gen int64) <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, g := range u.writing {
		if g > gen {
			continue
		}
		if u.ended == nil {
			u.ended = make(chan struct{})
		}
		return u.ended
	}
	return nil
}

// suspectAll marks all parts as suspect after a failed sync. The kernel reports the failure only
// once, so it is journaled.
func (u *upload) suspectAll(cause error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.failedSyncs++
	u.d.log.Error("sync failed; all parts of the upload are verified before it completes: check the disk", "upload", u.ref.ID, "error", cause)
	if u.loadLocked() != nil {
		return
	}
	r := record{kind: kindDoubt, flags: doubtSync}
	if err := u.appendLocked(r); err != nil && u.journal != nil {
		u.d.log.Error("failed sync not recorded in the journal; it is forgotten if the server restarts", "upload", u.ref.ID, "error", err)
		_ = u.journal.apply(r)
	}
}

// syncAll stops the write-back and makes all accepted bytes and the journal durable. It journals
// that the bytes are synced, unless parts were accepted meanwhile. If a sync fails, all parts
// become suspect.
func (u *upload) syncAll() error {
	u.flush.stop()
	u.mu.Lock()
	if err := u.loadLocked(); err != nil {
		u.mu.Unlock()
		return err
	}
	dirty, accepts, path := u.journal.any(isUnsynced), u.accepted, u.bytesPath()
	u.mu.Unlock()
	if dirty {
		if err := u.syncBytes(path); err != nil {
			return err
		}
		if err := u.appendIf(kindSynced, func() bool { return u.accepted == accepts }); err != nil {
			return err
		}
	}
	return u.syncJournal()
}

// syncBytes makes the data file at path durable. If that fails, it marks all parts of the upload
// suspect and returns the error: they must be verified before use.
func (u *upload) syncBytes(path string) error {
	if err := syncPath(path); err != nil {
		u.suspectAll(err)
		return fmt.Errorf("sync parts: %w", classify(err))
	}
	return nil
}

// appendIf appends a record of kind k, without fields, if still returns true; else it returns nil
// and does nothing. still is called under u.mu. It does not sync.
func (u *upload) appendIf(k kind, still func() bool) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.loadLocked(); err != nil || !still() {
		return err
	}
	return u.appendLocked(record{kind: k})
}

// sizeLocked returns the number of bytes of all parts and tails. The caller holds u.mu and has
// loaded the journal.
func (u *upload) sizeLocked() (sum drive.ByteSize) {
	for _, entries := range []map[int]entry{u.journal.parts, u.journal.tails} {
		for _, e := range entries {
			sum += e.Size
		}
	}
	return sum
}

// staged returns the accepted parts and tails, and the bytes that the upload occupies on disk,
// which may exceed their sum. It loads the journal if necessary, and fails if the data file is
// missing.
func (u *upload) staged() (blob.Staged, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.loadLocked(); err != nil {
		return blob.Staged{}, err
	}
	info, err := os.Lstat(u.bytesPath())
	if errors.Is(err, fs.ErrNotExist) && u.moving { // a Seal is past its rename
		info, err = os.Lstat(u.d.sealedPath(u.ref.ID))
	}
	if err != nil {
		return blob.Staged{}, fmt.Errorf("stat bytes: %w", classify(err))
	}
	return blob.Staged{
		Parts:   sortedParts(u.journal.parts),
		Tails:   sortedParts(u.journal.tails),
		Held:    max(u.sizeLocked(), drive.ByteSize(min(allocated(info), info.Size()))),
		Last:    u.journal.last,
		Suspect: u.journal.any(isSuspect),
	}, nil
}
