// Package meta stores named values of an installation in the table meta. Each name belongs to one
// package, which defines the meaning of the value.
package meta

import (
	"context"
	"encoding/json"
	"errors"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Find returns the value of a name, or "" if there is none.
func Find(ctx context.Context, q sqldb.Querier, name string) (value string, err error) {
	err = q.QueryRow(ctx, `SELECT value FROM meta WHERE name = ?`, name).Scan(&value)
	if drive.IsKind(err, drive.NotFound) {
		return "", nil
	}
	return value, err
}

// Load decodes a value written by Save. Without a value, into stays unchanged.
func Load(ctx context.Context, q sqldb.Querier, name string, into any) error {
	text, err := Find(ctx, q, name)
	if err != nil || text == "" {
		return err
	}
	return json.Unmarshal([]byte(text), into)
}

// Set writes a value, replacing the old one. It may ask for a rerun of the transaction
// (sqldb.Rerun).
func Set(ctx context.Context, tx *sqldb.Tx, name, value string) error {
	n, err := tx.Exec(ctx, `UPDATE meta SET value = ? WHERE name = ?`, value, name)
	if err != nil || n > 0 {
		return err
	}
	made, err := Create(ctx, tx, name, value)
	if err == nil && !made {
		err = sqldb.Rerun(errors.New("the row has come"))
	}
	return err
}

// Save writes a value as JSON under a name, replacing the old one; it takes effect when tx commits.
// It fails if the value cannot be encoded.
func Save(ctx context.Context, tx *sqldb.Tx, name string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return Set(ctx, tx, name, string(text))
}

// Create writes a value unless the name has one. It reports whether it wrote.
func Create(ctx context.Context, tx *sqldb.Tx, name, value string) (made bool, err error) {
	return tx.InsertNew(ctx, `INSERT INTO meta (name, value) VALUES (?, ?)`, name, value)
}

// CompareAndSwap replaces the value was by value (compare-and-set). It returns false if the present
// value is not was.
func CompareAndSwap(ctx context.Context, tx *sqldb.Tx, name, was, value string) (swapped bool, err error) {
	n, err := tx.Exec(ctx, `UPDATE meta SET value = ? WHERE name = ? AND value = ?`, value, name, was)
	return n > 0, err
}

// Delete deletes the value of a name, if any.
func Delete(ctx context.Context, tx *sqldb.Tx, name string) error {
	_, err := tx.Exec(ctx, `DELETE FROM meta WHERE name = ?`, name)
	return err
}
