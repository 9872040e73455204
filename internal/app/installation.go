package app

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/google/uuid"

	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/meta"
	"smartdrive/internal/engine/sqldb"
)

// Names in the meta table.
const (
	metaInstallation = "installation" // a UUID, made once
	metaGeneration   = "generation"   // raised at each start
	metaFingerprint  = "fingerprint"  // of the data: random, another one after each admin restore; none before the first
	metaRestored     = "restored"     // "1" after admin restore, until fsck was clean: nothing is deleted meanwhile
	metaMarked       = "marked"       // "1" once there was a mark beside the contents: from then on contents without one are not ours
	metaSecond       = "second"       // the migration whose new place of contents has had its mark
)

// Installation is who we are.
type Installation struct {
	ID          string
	Generation  int64
	Fingerprint string // of the data: another one after each restore; empty: there was none
	Restored    bool   // report only: no reclaim, no repair
	Marked      bool   // there was a mark beside the contents
}

// MixUpError says that the database and the blobs do not belong together. Nothing was changed.
type MixUpError struct{ Found string }

func (e *MixUpError) Error() string {
	return "the database and the blobs do not belong together: " + e.Found +
		". Nothing was changed. Put the right directory in place, or run \"smartdrive admin restore\" after restoring a backup"
}

// identify compares the marks of database and blobs, raises the generation, and returns who we are,
// where this is the only instance. The database is written first: after a crash between the two
// writes it is one generation ahead, which is the only difference that is accepted. Such a start
// has served nobody, so the next one takes its number: however often the mark cannot be written,
// they stay one apart. That there was a mark is noted before anybody is served: from then on a
// directory without one is another directory, or its disk is not mounted.
func identify(ctx context.Context, db *sqldb.DB, at marks) (Installation, error) {
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

func noteMarked(ctx context.Context, db *sqldb.DB) error {
	err := db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := meta.Make(ctx, tx, metaMarked, "1")
		return err
	})
	if err != nil {
		return fmt.Errorf("note that there is a mark: %w", err)
	}
	return nil
}

func newInstallation() string { return uuid.Must(uuid.NewV7()).String() }

func compare(ctx context.Context, in Installation, mark blob.Mark, found bool, at marks) error {
	switch {
	case in.ID == "" && !found:
		return refuseOccupied(ctx, at)
	case in.ID == "":
		return &MixUpError{fmt.Sprintf("the database is empty, and %s holds the blobs of installation %s", at, mark.ID)}
	case !found && (in.Marked || in.Generation > 1): // releases that did not note it knew by the generation
		return &MixUpError{fmt.Sprintf("%s holds no blobs of installation %s (is a file system not mounted?)", at, in.ID)}
	case !found:
		return nil // the very first start did not come as far as the mark
	case mark.ID != in.ID:
		return &MixUpError{fmt.Sprintf("the database is of installation %s, and %s of %s", in.ID, at, mark.ID)}
	case mark.Generation > in.Generation:
		return &MixUpError{fmt.Sprintf("the blobs have seen start %d and the database only start %d: it is an older copy", mark.Generation, in.Generation)}
	case mark.Generation < in.Generation-1:
		return &MixUpError{fmt.Sprintf("the database has seen start %d and the blobs only start %d: they are an older copy", in.Generation, mark.Generation)}
	}
	return nil
}

// refuseOccupied refuses to begin a new installation over blobs or staged uploads that lost their
// mark.
func refuseOccupied(ctx context.Context, at marks) error {
	occupied, err := at.Occupied(ctx)
	if err == nil && occupied {
		err = &MixUpError{fmt.Sprintf("the database is empty, and %s holds blobs without a mark", at)}
	}
	return err
}

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

func readGeneration(ctx context.Context, q sqldb.Querier) (int64, error) {
	text, err := meta.Find(ctx, q, metaGeneration)
	if err != nil {
		return 0, err
	}
	if text == "" {
		return 0, nil // a first start that several instances make together
	}
	generation, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the generation in the database is %q: %w", text, err)
	}
	return generation, nil
}
