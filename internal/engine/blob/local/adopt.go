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

// The files of an upload that is taking over the bytes of another one.
const (
	adoptedData    = dataFile + ".adopt"
	adoptedJournal = journalFile + ".adopt"
)

// Adopt implements blob.Staging: the data of from become those of ref by a rename, for a chaining
// value depends on nothing but the place in the file, and that stays. Two files change at once for
// that, data and journal; data.adopt says that both are to be changed:
//
//	ref                                        from    dies here, and then
//	data, journal, journal.adopt               data    it was nothing: journal.adopt is written over, or goes with the upload
//	data, journal, journal.adopt, data.adopt   -       the next load goes on
//	data, journal (the new one), data.adopt    -       the next load goes on
//	data, journal                              -       it is done
func (s *Staging) Adopt(_ context.Context, ref, from blob.Ref) (bool, error) {
	if ref.PartSize != from.PartSize {
		return false, nil
	}
	old, err := s.use(from)
	if drive.IsKind(err, drive.NotFound) { // taken over by an earlier call, or lost: whoever needs the bytes will see
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer s.done(old)
	u, err := s.use(ref)
	if err != nil {
		return false, err
	}
	defer s.done(u)
	var j *journal
	if err := old.beginMove(func() (err error) { j, err = old.adoptableLocked(ref); return err }); err != nil {
		return unadoptable(err)
	}
	defer old.endMove()
	if err := u.beginMove(func() error { return u.takesOverLocked(j) }); err != nil {
		return unadoptable(err)
	}
	defer u.endMove()
	for _, step := range u.adoptSteps(old, j) {
		if err := step(); err != nil {
			return false, fmt.Errorf("take over the bytes of upload %s: %w", from.ID, err)
		}
	}
	return true, nil
}

// errUnadoptable says that bytes must be copied.
var errUnadoptable = errors.New("not to be taken over as they lie")

func unadoptable(err error) (bool, error) {
	if errors.Is(err, errUnadoptable) {
		return false, nil
	}
	return false, err
}

// adoptableLocked returns what the journal of ref will say of u's bytes.
func (u *upload) adoptableLocked(ref blob.Ref) (*journal, error) {
	have := u.journal
	var size drive.ByteSize
	for _, e := range have.parts {
		size += e.Size
	}
	// What is not synced could be lost with the power after the journal has vouched for it.
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

// takesOverLocked fills in what of j is u's own.
func (u *upload) takesOverLocked(j *journal) error {
	if u.sealed || len(u.journal.parts) > 0 || len(u.journal.tails) > 0 {
		return errUnadoptable
	}
	j.head, j.fenced = u.journal.head, u.journal.fenced
	return nil
}

// adoptSteps returns what Adopt does, in order.
func (u *upload) adoptSteps(from *upload, j *journal) []func() error {
	return append([]func() error{
		func() error { return u.writeAdopted(j) },
		func() error { return classify(os.Rename(from.path(dataFile), u.path(adoptedData))) },
		func() error { return syncDirs(from.dir, u.dir) },
	}, u.finishSteps()...)
}

// finishSteps returns what is left to do once data.adopt is there; all of it may have been done.
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

// finishAdopt goes on where an Adopt has died. It comes before the journal is read.
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
