package app

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/meta"
	"example.org/smartdrive/internal/engine/sqldb"
)

// identifyShared is identify for an installation of several instances, which may start
// concurrently. Each start gets a generation of its own. The mark may lag behind the database by
// concurrent starts, and an older bucket looks the same. So only certain mismatches are refused: a
// mark of another installation, and a database that is older than the mark.
//
//  1. read the database, then the mark       a mark is written after the id that it holds
//  2. compare
//  3. create the id unless it exists         from now on the installation exists
//  4. take the next generation
//  5. raise the mark                         from now on the bucket is owned; no instance serves before
//  6. record that there was a mark           from now on a bucket without one is a wrong bucket
func identifyShared(ctx context.Context, db *sqldb.DB, at markStore) (Installation, error) {
	err := compareShared(ctx, db, at)
	if _, ok := errors.AsType[*MismatchError](err); ok { // another instance may have created the installation between the two reads
		err = compareShared(ctx, db, at)
	}
	if err != nil {
		return Installation{}, err
	}
	if err := nameInstallation(ctx, db); err != nil {
		return Installation{}, fmt.Errorf("name the installation: %w", err)
	}
	generation, err := nextGeneration(ctx, db)
	if err != nil {
		return Installation{}, fmt.Errorf("raise the generation: %w", err)
	}
	in, err := readInstallation(ctx, db)
	if err != nil {
		return Installation{}, err
	}
	in.Generation = generation
	if err := raiseMark(ctx, at, blob.Mark{ID: in.ID, Generation: generation}); err != nil {
		return Installation{}, err
	}
	in.Marked = true
	return in, noteMarked(ctx, db)
}

// compareShared fails with *MismatchError if the mark and the database certainly do not match.
func compareShared(ctx context.Context, db *sqldb.DB, at markStore) error {
	in, err := readInstallation(ctx, db)
	if err != nil {
		return err
	}
	mark, found, err := at.ReadMark(ctx)
	switch {
	case err != nil:
		return err
	case in.ID == "" && !found:
		return refuseOccupied(ctx, at)
	case in.ID == "":
		return &MismatchError{fmt.Sprintf("the database is empty, and %s holds the blobs of installation %s", at, mark.ID)}
	case !found && in.Marked:
		return &MismatchError{fmt.Sprintf("%s holds no blobs of installation %s (is it the wrong bucket or prefix?)", at, in.ID)}
	case found && mark.ID != in.ID:
		return &MismatchError{fmt.Sprintf("the database is of installation %s, and %s of %s", in.ID, at, mark.ID)}
	}
	// Other instances may have started since the database was read.
	generation, err := readGeneration(ctx, db)
	if err == nil && mark.Generation > generation {
		err = &MismatchError{fmt.Sprintf("the blobs have seen start %d and the database only start %d: it is an older copy", mark.Generation, generation)}
	}
	return err
}

// nameInstallation writes the installation's id and generation 0 unless rows exist. Concurrent
// calls agree on the row written first; the caller must read it.
func nameInstallation(ctx context.Context, db *sqldb.DB) error {
	id := newInstallation()
	return db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		for _, row := range [][2]string{{metaInstallation, id}, {metaGeneration, "0"}} { // always in this order, or two concurrent first starts deadlock
			if _, err := meta.Create(ctx, tx, row[0], row[1]); err != nil {
				return err
			}
		}
		return nil
	})
}

// nextGeneration increments the generation by compare-and-set and returns it. An unused generation
// does no harm. It retries after a conflict with another start and fails with an error of the
// database.
func nextGeneration(ctx context.Context, db *sqldb.DB) (next int64, err error) {
	for {
		have, err := readGeneration(ctx, db)
		if err != nil {
			return 0, err
		}
		next = have + 1
		taken := false
		err = db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			taken, err = meta.CompareAndSwap(ctx, tx, metaGeneration, strconv.FormatInt(have, 10), strconv.FormatInt(next, 10))
			return err
		})
		if err != nil || taken {
			return next, err
		}
	}
}

// raiseMark writes the mark unless it is newer already. Concurrent writers may leave the smaller
// number; housekeeping raises it again. It fails with *MismatchError if another installation owns
// the mark.
func raiseMark(ctx context.Context, at markStore, m blob.Mark) error {
	have, found, err := at.ReadMark(ctx)
	if err != nil || found && have.ID == m.ID && have.Generation >= m.Generation {
		return err
	}
	if found && have.ID != m.ID {
		return &MismatchError{fmt.Sprintf("another installation, %s, took %s at the same time", have.ID, at)}
	}
	return at.WriteMark(ctx, m)
}

// refreshMark writes the database's current generation, the number of the latest start, to the mark
// beside the contents if the mark is older.
func (p *platform) refreshMark(ctx context.Context) error {
	generation, err := readGeneration(ctx, p.db)
	if err != nil {
		return err
	}
	return raiseMark(ctx, p.marks, blob.Mark{ID: p.ID, Generation: generation})
}
