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

// The files of an upload while it adopts the bytes of another one.
const (
	adoptedData    = dataFile + ".adopt"
	adoptedJournal = journalFile + ".adopt"
)

// Adopt moves all bytes of from to the empty upload ref. It returns false if they cannot be parts
// of ref as they are. It renames the data file of from, because chaining values depend only on the
// offset in the file, which stays the same. Data and journal must change together; the existence of
// data.adopt means that both changes are to be completed:
//
//	ref                                        from    dies here, and then
//	data, journal, journal.adopt               data    nothing happened: journal.adopt is overwritten, or removed with the upload
//	data, journal, journal.adopt, data.adopt   -       the next load continues
//	data, journal (the new one), data.adopt    -       the next load continues
//	data, journal                              -       done
func (s *Staging) Adopt(_ context.Context, ref, from blob.Ref) (bool, error) {
	if ref.PartSize != from.PartSize {
		return false, nil
	}
	old, err := s.acquire(from)
	if drive.IsKind(err, drive.NotFound) { // adopted by an earlier call, or lost; a later reader detects the latter
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer s.release(old)
	u, err := s.acquire(ref)
	if err != nil {
		return false, err
	}
	defer s.release(u)
	var j *journal
	if err := old.beginMove(func() (err error) { j, err = old.adoptedJournalLocked(ref); return err }); err != nil {
		return adoptResult(err)
	}
	defer old.endMove()
	if err := u.beginMove(func() error { return u.completeAdoptedLocked(j) }); err != nil {
		return adoptResult(err)
	}
	defer u.endMove()
	for _, step := range u.adoptSteps(old, j) {
		if err := step(); err != nil {
			return false, fmt.Errorf("take over the bytes of upload %s: %w", from.ID, err)
		}
	}
	return true, nil
}

// errUnadoptable reports that the bytes cannot be adopted and must be copied.
var errUnadoptable = errors.New("not to be taken over as they lie")

// adoptResult returns the results of Adopt for err: false and no error for errUnadoptable, after
// which the bytes must be copied; else false and err.
func adoptResult(err error) (bool, error) {
	if errors.Is(err, errUnadoptable) {
		return false, nil
	}
	return false, err
}

// adoptedJournalLocked returns the journal that ref will have with u's bytes, without header and
// fence. It returns errUnadoptable if u is sealed, empty, incomplete, unsynced or suspect. The
// caller holds u.mu and has loaded the journal.
func (u *upload) adoptedJournalLocked(ref blob.Ref) (*journal, error) {
	have := u.journal
	var size drive.ByteSize
	for _, e := range have.parts {
		size += e.Size
	}
	// Unsynced bytes could be lost in a power failure after the new journal has named them.
	if u.sealed || size == 0 || have.missing(size) || len(have.tails) > 0 || have.any(isUnsynced) || have.any(isSuspect) {
		return nil, errUnadoptable
	}
	j := &journal{parts: map[int]entry{}, tails: map[int]entry{}}
	for n, e := range have.parts {
		e.Session = [16]byte{}
		end := drive.ByteSize(n)*ref.PartSize + e.Size
		if e.Size == ref.PartSize || end == ref.Size {
			j.parts[n] = e
		} else {
			j.tails[n] = e
		}
	}
	return j, nil
}

// completeAdoptedLocked copies u's own header and fence to j. It returns errUnadoptable if u is
// sealed or has bytes. The caller holds u.mu and has loaded the journal.
func (u *upload) completeAdoptedLocked(j *journal) error {
	if u.sealed || len(u.journal.parts) > 0 || len(u.journal.tails) > 0 {
		return errUnadoptable
	}
	j.head, j.fenced = u.journal.head, u.journal.fenced
	return nil
}

// adoptSteps returns the steps of Adopt, for the caller to run in order until one fails. After the
// second one, the rename of from's bytes, the adoption is decided.
func (u *upload) adoptSteps(from *upload, j *journal) []func() error {
	return append([]func() error{
		func() error { return u.writeAdopted(j) },
		func() error { return classify(os.Rename(from.path(dataFile), u.path(adoptedData))) },
		func() error { return syncDirs(from.dir, u.dir) },
	}, u.finishSteps()...)
}

// finishSteps returns the steps that finish an Adopt once data.adopt exists: they put the new
// journal and the data file in place. A step that was done already succeeds.
func (u *upload) finishSteps() []func() error {
	replace := func(from, to string) error {
		err := os.Rename(u.path(from), u.path(to))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return classify(errors.Join(err, syncDirs(u.dir)))
	}
	return []func() error{
		func() error { return replace(adoptedJournal, journalFile) },
		func() error { return replace(adoptedData, dataFile) },
	}
}

// writeAdopted replaces journal.adopt by the records of j and makes the file and its name durable.
// The journal of the upload itself is not changed.
func (u *upload) writeAdopted(j *journal) error {
	var b []byte
	for _, r := range j.records(u.d.boot) {
		b = r.append(b)
	}
	path := u.path(adoptedJournal)
	if err := os.WriteFile(path, b, fileMode); err != nil {
		return classify(err)
	}
	if err := syncPath(path); err != nil {
		return classify(err)
	}
	return syncDirs(filepath.Dir(path))
}

// finishAdopt completes an Adopt that a crash interrupted; without one it does nothing. It must run
// before the journal is read, and may be repeated after an error.
func (u *upload) finishAdopt() error {
	if _, err := os.Lstat(u.path(adoptedData)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, step := range u.finishSteps() {
		if err := step(); err != nil {
			return fmt.Errorf("go on taking over bytes: %w", err)
		}
	}
	return nil
}
