package app

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/google/uuid"

	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/meta"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Keys in the meta table.
const (
	metaInstallation = "installation" // a UUID, created once
	metaGeneration   = "generation"   // incremented at each start
	metaFingerprint  = "fingerprint"  // random, replaced at each admin restore; absent before the first
	metaRestored     = "restored"     // "1" from admin restore until fsck was clean: nothing is deleted meanwhile
	metaMarked       = "marked"       // "1" once the contents had a mark: contents without one are foreign from then on
	metaSecond       = "second"       // id of the migration whose new contents directory has had its mark
)

// Installation identifies an installation and this start of it.
type Installation struct {
	ID string
	// Generation counts the starts of instances; each start has its own.
	Generation  int64
	Fingerprint string // changes at each restore; empty: never restored
	Restored    bool   // report-only mode: nothing is reclaimed or repaired
	Marked      bool   // the contents had a mark before
}

// MismatchError reports that database and blobs do not belong together. Nothing was changed.
// Found tells what was found instead, for people.
type MismatchError struct{ Found string }

func (e *MismatchError) Error() string {
	return "the database and the blobs do not belong together: " + e.Found +
		". Nothing was changed. Put the right directory in place, or run \"smartdrive admin restore\" after restoring a backup"
}

// identify compares the marks of database and blobs, increments the generation and returns the
// installation, where this is the only instance. It fails with *MismatchError if they do not match.
//
// The database is written first. After a crash between the two writes it is one generation ahead,
// which is the only accepted difference. Such a start has served no request, so the next start
// reuses its number, and the difference never grows. The existence of the mark is recorded before
// any request is served. From then on a directory without a mark is a wrong or unmounted directory.
func identify(ctx context.Context, db *sqldb.DB, at markStore) (Installation, error) {
	in, err := readInstallation(ctx, db)
	if err != nil {
		return Installation{}, err
	}
	mark, found, err := at.ReadMark(ctx)
	if err != nil {
		return Installation{}, err
	}
	if err := compare(ctx, in, mark, found, at); err != nil {
		return Installation{}, err
	}
	if in.ID == "" {
		in.ID = newInstallation()
	}
	if mark.Generation != in.Generation-1 {
		in.Generation++
	}
	err = db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return errors.Join(meta.Set(ctx, tx, metaInstallation, in.ID), meta.Set(ctx, tx, metaGeneration, strconv.FormatInt(in.Generation, 10)))
	})
	if err != nil {
		return Installation{}, fmt.Errorf("raise the generation: %w", err)
	}
	if err := at.WriteMark(ctx, blob.Mark{ID: in.ID, Generation: in.Generation}); err != nil || in.Marked {
		return in, err
	}
	in.Marked = true
	return in, noteMarked(ctx, db)
}

// noteMarked records in the database that the contents have had a mark, so that a missing mark is
// an error from then on. It may be repeated.
func noteMarked(ctx context.Context, db *sqldb.DB) error {
	err := db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := meta.Create(ctx, tx, metaMarked, "1")
		return err
	})
	if err != nil {
		return fmt.Errorf("record that there is a mark: %w", err)
	}
	return nil
}

// newInstallation returns a new random installation id, a UUIDv7.
func newInstallation() string { return uuid.Must(uuid.NewV7()).String() }

// compare fails with *MismatchError if the mark does not match the database.
func compare(ctx context.Context, in Installation, mark blob.Mark, found bool, at markStore) error {
	switch {
	case in.ID == "" && !found:
		return refuseOccupied(ctx, at)
	case in.ID == "":
		return &MismatchError{fmt.Sprintf("the database is empty, and %s holds the blobs of installation %s", at, mark.ID)}
	case !found && (in.Marked || in.Generation > 1): // earlier releases did not record the mark; a generation above 1 implies it
		return &MismatchError{fmt.Sprintf("%s holds no blobs of installation %s (is a file system not mounted?)", at, in.ID)}
	case !found:
		return nil // the first start was interrupted before it wrote the mark
	case mark.ID != in.ID:
		return &MismatchError{fmt.Sprintf("the database is of installation %s, and %s of %s", in.ID, at, mark.ID)}
	case mark.Generation > in.Generation:
		return &MismatchError{fmt.Sprintf("the blobs have seen start %d and the database only start %d: it is an older copy", mark.Generation, in.Generation)}
	case mark.Generation < in.Generation-1:
		return &MismatchError{fmt.Sprintf("the database has seen start %d and the blobs only start %d: they are an older copy", in.Generation, mark.Generation)}
	}
	return nil
}

// refuseOccupied fails with *MismatchError if there are blobs or staged uploads without a mark,
// over which a new installation must not begin.
func refuseOccupied(ctx context.Context, at markStore) error {
	occupied, err := at.Occupied(ctx)
	if err == nil && occupied {
		err = &MismatchError{fmt.Sprintf("the database is empty, and %s holds blobs without a mark", at)}
	}
	return err
}

// readInstallation reads the installation from the database; its ID is "" in a new database. It
// fails with an error of the database or for a generation that is no number.
func readInstallation(ctx context.Context, q sqldb.Querier) (in Installation, err error) {
	if in.ID, err = meta.Find(ctx, q, metaInstallation); err != nil || in.ID == "" {
		return in, err
	}
	if in.Generation, err = readGeneration(ctx, q); err != nil {
		return in, err
	}
	if in.Fingerprint, err = meta.Find(ctx, q, metaFingerprint); err != nil {
		return in, err
	}
	restored, restoredErr := meta.Find(ctx, q, metaRestored)
	marked, err := meta.Find(ctx, q, metaMarked)
	in.Restored, in.Marked = restored == "1", marked == "1"
	return in, errors.Join(restoredErr, err)
}

// readGeneration returns the number of the last start; 0 if there was none. It fails with an error
// of the database or for a text that is no number.
func readGeneration(ctx context.Context, q sqldb.Querier) (int64, error) {
	text, err := meta.Find(ctx, q, metaGeneration)
	if err != nil {
		return 0, err
	}
	if text == "" {
		return 0, nil // concurrent first starts have not set it yet
	}
	generation, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the generation in the database is %q: %w", text, err)
	}
	return generation, nil
}
