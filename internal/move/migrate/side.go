package migrate

import (
	"context"
	"errors"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// role is the role of a side in a migration.
type role int64

const (
	noRole    role = iota // no migration
	primary               // receives all writes
	secondary             // follows the primary
	fenced                // was the primary until the current switch; no side is primary
	retired               // left for good: refuses all writes
)

// record is the row of migration_side, what a side knows of the migration. Each side has one;
// changes go through swapRecord, a compare-and-set.
type record struct {
	Migration string // id
	Role      role
	Epoch     int64 // counts the steps
	Term      int64 // counts the switches of the primary, from 1
	Phase     Phase
	Percent   int  // share of accounts that read from the new side in phase 3
	Careful   bool // a switch is about to begin: each read first asks the primary's row
	Paused    bool
	Here      string // place of this side, as Options.Open takes it
	Peer      string // place of the other side; empty: rows stay
	Contents  string // place that contents move to; empty: they stay
	Marker    string
	ChangedAt drive.Time
	BegunAt   drive.Time
}

// recordColumns are the columns of migration_side that a record holds.
const recordColumns = "migration, role, epoch, term, phase, percent, careful, paused, here, peer, contents, marker, changed_at, begun_at"

// readRecord reads the row of a side; the zero record if there is none. lock is the suffix of the
// SELECT.
func readRecord(ctx context.Context, q sqldb.Querier, lock string) (r record, err error) {
	err = q.QueryRow(ctx, "SELECT "+recordColumns+" FROM migration_side WHERE id = 1"+lock).Scan(&r.Migration, &r.Role, &r.Epoch, &r.Term,
		&r.Phase, &r.Percent, &r.Careful, &r.Paused, &r.Here, &r.Peer, &r.Contents, &r.Marker, &r.ChangedAt, &r.BegunAt)
	if drive.IsKind(err, drive.NotFound) {
		return record{}, nil
	}
	if err != nil {
		return record{}, fmt.Errorf("read what this side is to the migration: %w", err)
	}
	return r, nil
}

// insertRecord inserts the row of a side within tx. It returns false, and changes nothing, if the
// side has one.
func insertRecord(ctx context.Context, tx *sqldb.Tx, r record) (bool, error) {
	return tx.InsertNew(ctx, "INSERT INTO migration_side (id, "+recordColumns+") VALUES (1, "+sqldb.Placeholders(14)+")", r.Migration, r.Role, r.Epoch, r.Term,
		r.Phase, r.Percent, flag(r.Careful), flag(r.Paused), r.Here, r.Peer, r.Contents, r.Marker, r.ChangedAt, r.BegunAt)
}

// swapRecord replaces the row of a side if migration, role and epoch still are those of from
// (compare-and-set). Otherwise it returns errOvertaken. It waits up to a second for transactions
// that hold the row, then returns errOpen.
func swapRecord(ctx context.Context, s Side, from, to record) error {
	if from.Migration == "" {
		return drive.Wrap(errors.New("there is no migration any more"), drive.WrongState)
	}
	return s.write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := tx.Exec(ctx, `UPDATE migration_side SET role = ?, epoch = ?, term = ?, phase = ?, percent = ?, careful = ?, paused = ?, applying = 0,
			here = ?, peer = ?, contents = ?, changed_at = ? WHERE id = 1 AND migration = ? AND role = ? AND epoch = ?`,
			to.Role, to.Epoch, to.Term, to.Phase, to.Percent, flag(to.Careful), flag(to.Paused), to.Here, to.Peer, to.Contents, to.ChangedAt,
			from.Migration, from.Role, from.Epoch)
		switch {
		case sqldb.IsLockTimeout(err): // do not retry: writers queue up behind this statement
			return errOpen
		case err == nil && n == 0:
			return errOvertaken
		}
		return err
	})
}

// errOpen reports that an open transaction blocked the row of a side for too long.
var errOpen error = drive.Wrap(errors.New("a transaction stayed open for longer than a second"), drive.WrongState)

// errOvertaken reports that another instance changed the migration first.
var errOvertaken error = drive.Wrap(errors.New("another instance has changed the migration meanwhile"), drive.WrongState)

// flag returns 1 for true.
func flag(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
