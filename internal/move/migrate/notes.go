package migrate

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Pace bounds filling in and comparing; a zero is not a bound.
type Pace struct {
	Rows  int64 `json:"rows_per_second"`
	Bytes int64 `json:"bytes_per_second"` // of rows, and of contents, each by itself
}

// OldContents is how far the dropping of contents at the place that was left is.
type OldContents struct {
	Removed int64          `json:"removed"`
	Bytes   drive.ByteSize `json:"bytes"`
	Kept    int64          `json:"kept"`            // that the new place does not have as their rows tell
	Worst   string         `json:"worst,omitempty"` // one of them
	Ended   bool           `json:"ended"`
}

// notes are what a move keeps beside its phases: rows of migration_notes. Every process reads them
// before it acknowledges an epoch.
type notes struct {
	pace  Pace
	old   oldNotes
	named []string // the ids of accounts that read from the new side in phase 3 whatever the percentage; sorted
}

// names reports whether an account is named.
func (n *notes) names(account string) bool {
	_, ok := slices.BinarySearch(n.named, account)
	return ok
}

// oldNotes are about the side that was left.
type oldNotes struct {
	Contents string      `json:"contents"`          // where contents were when it began, as it is opened
	LeftAt   drive.Time  `json:"left_at"`           // when phase 5 was entered
	Arrived  bool        `json:"arrived,omitempty"` // Party.Arrived was run
	Dropping bool        `json:"dropping"`          // somebody has asked for it
	Rows     bool        `json:"rows"`              // they are gone
	Blobs    OldContents `json:"blobs"`             // how far contents are
	Deep     int         `json:"percent,omitempty"` // of contents that are read at the new place before they go at the old one
}

const (
	notePace  = "pace"
	noteOld   = "old"
	noteNamed = "named"
)

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

// edit changes a note on the primary, and nowhere else: its row is held, so that no switch leaves
// the change behind.
func edit[T any](ctx context.Context, b *both, v *view, name string, change func(*T)) error {
	err := v.near.write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
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
		return fmt.Errorf("note %q of the migration: %w", name, err)
	}
	return b.learnNotes(ctx, v)
}

func writeNote(ctx context.Context, tx *sqldb.Tx, name string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "REPLACE INTO migration_notes (name, value) VALUES (?, ?)", name, string(text))
	return err
}

// insertNote makes a note that is not there, and reports whether it was.
func insertNote(ctx context.Context, tx *sqldb.Tx, name string, value any) (bool, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return false, err
	}
	return tx.InsertNew(ctx, "INSERT INTO migration_notes (name, value) VALUES (?, ?)", name, string(text))
}

// carryNotes takes the notes to the side that is to be the primary, but for the receipts, which are
// of one side; what it has already is not written.
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

// PaceChange changes what it names.
type PaceChange struct {
	Rows  *int64
	Bytes *int64
}

// SetPace changes how fast rows and contents are brought and compared. Every process follows within
// pollEvery.
func (m *Migration) SetPace(ctx context.Context, c PaceChange) error {
	if c.Rows != nil && *c.Rows < 0 {
		return drive.Bad("rows_per_second", drive.OutOfRange, "min", 0, "sent", *c.Rows)
	}
	if c.Bytes != nil && *c.Bytes < 0 {
		return drive.Bad("bytes_per_second", drive.OutOfRange, "min", 0, "sent", *c.Bytes)
	}
	v, err := m.steady(ctx)
	if err != nil {
		return err
	}
	return edit(ctx, m.both, v, notePace, func(p *Pace) {
		if c.Rows != nil {
			p.Rows = *c.Rows
		}
		if c.Bytes != nil {
			p.Bytes = *c.Bytes
		}
	})
}
