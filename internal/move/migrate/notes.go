package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Pace limits the rate of filling in and comparing. Zero: no limit.
type Pace struct {
	Rows  int64 `json:"rows_per_second"`
	Bytes int64 `json:"bytes_per_second"` // of rows and of contents, each separately
}

// OldContents is the progress of deleting contents at the old place.
type OldContents struct {
	Removed int64          `json:"removed"` // contents deleted so far
	Bytes   drive.ByteSize `json:"bytes"`
	Kept    int64          `json:"kept"`            // not deleted, because the new place does not have them as their rows say
	Worst   string         `json:"worst,omitempty"` // an example of Kept
	Ended   bool           `json:"ended"`           // each content was deleted or kept
}

// notes are the settings of a migration beside its phase, stored in migration_notes. Each process
// reads them before it acknowledges an epoch.
type notes struct {
	pace  Pace
	old   oldNotes
	named []string // sorted ids of accounts that read from the new side in phase 3 regardless of the percentage
}

// names reports whether account is in named, which must be sorted.
func (n *notes) names(account string) bool {
	_, ok := slices.BinarySearch(n.named, account)
	return ok
}

// oldNotes is the note about the old side.
type oldNotes struct {
	Contents string      `json:"contents"`          // store of contents at the start
	LeftAt   drive.Time  `json:"left_at"`           // time of entering phase 5
	Arrived  bool        `json:"arrived,omitempty"` // Party.OnArrived was run
	Dropping bool        `json:"dropping"`          // DropOld was called
	Rows     bool        `json:"rows"`              // rows are deleted
	Blobs    OldContents `json:"blobs"`             // progress of deleting contents
	Deep     int         `json:"percent,omitempty"` // percentage of contents read at the new place before they are deleted at the old one
}

const (
	// notePace names the note with the Pace of the migration.
	notePace = "pace"
	// noteOld names the note with the state of the old side, oldNotes.
	noteOld = "old"
	// noteNamed names the note with the accounts that read at the new side.
	noteNamed = "named"
)

// readNote decodes the JSON of a note into the value that into points to. A missing note leaves the
// value unchanged and is no error.
func readNote(ctx context.Context, q sqldb.Querier, name string, into any) error {
	var text string
	err := q.QueryRow(ctx, "SELECT value FROM migration_notes WHERE name = ?", name).Scan(&text)
	if drive.IsKind(err, drive.NotFound) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), into)
	}
	if err != nil {
		return fmt.Errorf("read the note %q of the migration: %w", name, err)
	}
	return nil
}

// editNote applies change to the named note on the primary database and reloads the notes of b into
// v. It locks the row of the migration, so that a concurrent switch cannot miss the change. If the
// database is no longer the primary of this migration, it returns errOvertaken and changes nothing.
func editNote[T any](ctx context.Context, b *sides, v *snapshot, name string, change func(*T)) error {
	err := v.primary.write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		have, err := readRecord(ctx, tx, tx.ForUpdate())
		if err != nil {
			return err
		}
		if have.Role != primary || have.Migration != v.Migration {
			return errOvertaken
		}
		var value T
		if err := readNote(ctx, tx, name, &value); err != nil {
			return err
		}
		change(&value)
		return writeNote(ctx, tx, name, value)
	})
	if err != nil {
		return fmt.Errorf("write note %q of the migration: %w", name, err)
	}
	return b.loadNotes(ctx, v)
}

// writeNote stores value as the JSON of a note within tx, and replaces an earlier one.
func writeNote(ctx context.Context, tx *sqldb.Tx, name string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "REPLACE INTO migration_notes (name, value) VALUES (?, ?)", name, string(text))
	return err
}

// insertNote inserts a note with value as JSON within tx. It returns false, and changes nothing, if
// a note of that name exists.
func insertNote(ctx context.Context, tx *sqldb.Tx, name string, value any) (bool, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return false, err
	}
	return tx.InsertNew(ctx, "INSERT INTO migration_notes (name, value) VALUES (?, ?)", name, string(text))
}

// carryNotes copies the notes of the primary to the side that becomes the primary, except the
// receipts, which belong to one side. It writes nothing if the notes are equal.
func carryNotes(ctx context.Context, from, to *Side) error {
	all, err := allNotes(ctx, from.DB)
	if err != nil {
		return err
	}
	there, err := allNotes(ctx, to.DB)
	if err != nil || maps.Equal(all, there) {
		return err
	}
	return to.Unchecked.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		for name, value := range all {
			if _, err := tx.Exec(ctx, "REPLACE INTO migration_notes (name, value) VALUES (?, ?)", name, value); err != nil {
				return fmt.Errorf("carry the notes over: %w", err)
			}
		}
		return nil
	})
}

// allNotes returns the JSON of each note by name, except the two receipts.
func allNotes(ctx context.Context, q sqldb.Querier) (map[string]string, error) {
	type note struct{ name, value string }
	rows, err := q.Query(ctx, "SELECT name, value FROM migration_notes WHERE name NOT IN (?, ?)", noteApplied, noteAcknowledged)
	all, err := sqldb.Scan(rows, err, func(n *note, scan func(...any) error) error { return scan(&n.name, &n.value) })
	if err != nil {
		return nil, fmt.Errorf("read the notes of the migration: %w", err)
	}
	out := map[string]string{}
	for _, n := range all {
		out[n.name] = n.value
	}
	return out, nil
}

// PaceChange changes the fields that are not nil.
type PaceChange struct {
	Rows  *int64
	Bytes *int64
}

// SetPace changes the fields of the pace that c sets, for filling in and comparing. Processes
// follow within pollEvery. It returns BadRequest for a negative number and WrongState if nothing
// moves.
func (m *Migration) SetPace(ctx context.Context, c PaceChange) error {
	if c.Rows != nil && *c.Rows < 0 {
		return drive.BadField("rows_per_second", drive.OutOfRange, "min", 0, "sent", *c.Rows)
	}
	if c.Bytes != nil && *c.Bytes < 0 {
		return drive.BadField("bytes_per_second", drive.OutOfRange, "min", 0, "sent", *c.Bytes)
	}
	v, err := m.requireStep(ctx)
	if err != nil {
		return err
	}
	return editNote(ctx, m.sides, v, notePace, func(p *Pace) {
		if c.Rows != nil {
			p.Rows = *c.Rows
		}
		if c.Bytes != nil {
			p.Bytes = *c.Bytes
		}
	})
}
