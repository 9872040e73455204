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

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// upload is what the process knows of a staged upload while it is active or a call is in it.
type upload struct {
	d     *Dir
	ref   blob.Ref
	dir   string
	flush flusher
	users int // calls that are in it; guarded by Staging.mu

	// active keeps it in memory: parts come. It is cleared only when the flusher has stopped, for
	// that one knows this upload.
	active atomic.Bool

	// mu guards what follows and orders the journal. It is held across the write of a frame (about
	// 10 µs), against the rule that no I/O is done under a mutex: a journal has one end, and who
	// waits for it waits for that write. Syncs are outside.
	mu      sync.Mutex
	journal *journal // nil: to be read

	compactAt int64 // length in bytes at which the journal is rewritten
	sealed    bool  // the bytes are among the blobs
	gone      bool  // removed
	busy      bool  // a Seal or Unseal is at work
	accepts   int   // parts accepted by this process
	doubts    int   // failed syncs
	writing   map[int]int64
	ended     chan struct{} // closed when a Write ends, if somebody waits for one
}

func (u *upload) path(name string) string { return filepath.Join(u.dir, name) }

// bytesPath returns where the bytes lie now.
func (u *upload) bytesPath() string {
	if u.sealed {
		return u.d.sealedPath(u.ref.ID)
	}
	return u.path(dataFile)
}

// loadLocked reads the journal if it is not known yet, cuts it back to its last whole frame and
// frees the bytes that no part covers, except those of running Writes.
func (u *upload) loadLocked() error {
	if u.gone {
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
	case errors.Is(err, errUnborn):
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
		j.rebooted()
	}
	return nil
}

// findBytes says whether the bytes have been moved to the blobs; NotFound when they are nowhere.
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

// repairLocked brings journal (of size bytes) and data back to what whole frames say.
func (u *upload) repairLocked(size int64) error {
	if size > u.journal.end {
		u.d.log.Warn("journal cut back to its last whole frame", "upload", u.ref.ID, "bytes", size-u.journal.end)
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
	if allocated(info) <= int64(u.sumLocked()) {
		return nil // nothing to free, and a hole per gap would be a call per gap
	}
	for _, gap := range gaps {
		if err := punch(f, gap); err != nil {
			return fmt.Errorf("free torn bytes: %w", classify(err))
		}
	}
	return nil
}

// appendLocked writes records to the journal and applies them. When it fails the journal is as
// before, or, if not even that could be had, it will be read again.
func (u *upload) appendLocked(records ...record) error {
	if u.gone {
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

// writeLocked puts b at the end of the journal, or cuts it off again.
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
		u.journal = nil // what is in it now, the next call will see
		err = errors.Join(err, cut)
	}
	return err
}

func (u *upload) syncJournal() error {
	if err := syncPath(u.path(journalFile)); err != nil {
		u.doubt(err)
		return fmt.Errorf("sync journal: %w", classify(err))
	}
	return nil
}

// claim reserves part n for a Write or Drop of gen and takes what is there of it out of the
// journal: before its first byte changes, and durably if its bytes are durable. A part that is
// there and that nobody doubts is in the way, unless over is set.
func (u *upload) claim(gen int64, n int, over bool) error {
	u.mu.Lock()
	held, err := u.claimLocked(gen, n, over)
	u.mu.Unlock()
	if err != nil {
		return err
	}
	if held == nil || held.unsynced {
		return nil
	}
	// Were the drop lost with the power and the new bytes not, a part that no one suspects would be
	// wrong.
	if err := u.syncJournal(); err != nil {
		u.discard(n)
		u.release(n)
		return err
	}
	return nil
}

func (u *upload) claimLocked(gen int64, n int, over bool) (held *entry, err error) {
	if err := u.loadLocked(); err != nil {
		return nil, err
	}
	if err := u.refuseLocked(gen, n); err != nil {
		return nil, err
	}
	if e, ok := u.journal.parts[n]; ok && !over && !e.suspect {
		return nil, &blob.ThereError{Part: e.Part}
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

// refuseLocked says why nothing may be written to part n under gen.
func (u *upload) refuseLocked(gen int64, n int) error {
	_, taken := u.writing[n]
	switch {
	case u.sealed || u.busy:
		return drive.Fail(drive.WrongState, "state", "sealing")
	case gen <= u.journal.fenced:
		return drive.Wrap(fmt.Errorf("gen %d is fenced by %d", gen, u.journal.fenced), drive.WrongState)
	case taken:
		return drive.Fail(drive.InProgress)
	}
	return nil
}

// release ends what claim began.
func (u *upload) release(n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.writing, n)
	if u.ended != nil {
		close(u.ended)
		u.ended = nil
	}
}

// waitWriters returns when no Write with this gen or a smaller one is running.
func (u *upload) waitWriters(ctx context.Context, gen int64) error {
	for {
		ended := u.nextEnd(gen)
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

// nextEnd returns a channel that closes when the next Write ends, or nil when none of gen or below
// is running.
func (u *upload) nextEnd(gen int64) <-chan struct{} {
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

// doubt makes all parts suspect after a failed sync. The kernel says so once, so it is kept in the
// journal.
func (u *upload) doubt(cause error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.doubts++
	u.d.log.Error("sync failed: parts are suspect", "upload", u.ref.ID, "error", cause)
	if u.loadLocked() != nil {
		return
	}
	r := record{kind: kindDoubt, flags: doubtSync}
	if err := u.appendLocked(r); err != nil && u.journal != nil {
		u.d.log.Error("doubt not kept", "upload", u.ref.ID, "error", err)
		_ = u.journal.apply(r)
	}
}

// settle makes durable what has arrived. On return without error the journal says so, unless parts
// came meanwhile.
func (u *upload) settle() error {
	u.flush.stop()
	u.mu.Lock()
	if err := u.loadLocked(); err != nil {
		u.mu.Unlock()
		return err
	}
	dirty, accepts, path := u.journal.any(isUnsynced), u.accepts, u.bytesPath()
	u.mu.Unlock()
	if dirty {
		if err := u.syncBytes(path); err != nil {
			return err
		}
		if err := u.note(kindSynced, func() bool { return u.accepts == accepts }); err != nil {
			return err
		}
	}
	return u.syncJournal()
}

func (u *upload) syncBytes(path string) error {
	if err := syncPath(path); err != nil {
		u.doubt(err)
		return fmt.Errorf("sync parts: %w", classify(err))
	}
	return nil
}

// note appends a record without fields if still holds.
func (u *upload) note(k kind, still func() bool) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.loadLocked(); err != nil || !still() {
		return err
	}
	return u.appendLocked(record{kind: k})
}

func (u *upload) sumLocked() (sum drive.ByteSize) {
	for _, entries := range []map[int]entry{u.journal.parts, u.journal.tails} {
		for _, e := range entries {
			sum += e.Size
		}
	}
	return sum
}

// staged returns what the port shows of u.
func (u *upload) staged() (blob.Staged, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.loadLocked(); err != nil {
		return blob.Staged{}, err
	}
	info, err := os.Lstat(u.bytesPath())
	if errors.Is(err, fs.ErrNotExist) && u.busy { // a Seal is between its rename and its end
		info, err = os.Lstat(u.d.sealedPath(u.ref.ID))
	}
	if err != nil {
		return blob.Staged{}, fmt.Errorf("stat bytes: %w", classify(err))
	}
	return blob.Staged{
		Parts:   list(u.journal.parts),
		Tails:   list(u.journal.tails),
		Held:    max(u.sumLocked(), drive.ByteSize(min(allocated(info), info.Size()))),
		Last:    u.journal.last,
		Suspect: u.journal.any(isSuspect),
	}, nil
}
