// Package meta keeps what is true of an installation as a whole, a name and a value each: the table
// meta. Whoever owns a name knows what its value means; a name belongs to one package.
package meta

import (
	"context"
	"encoding/json"
	"errors"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Find returns the value of a name; empty: there is none.
func Find(ctx context.Context, q sqldb.Querier, name string) (value string, err error) {
	err = q.QueryRow(ctx, `SELECT value FROM meta WHERE name = ?`, name).Scan(&value)
	if drive.IsKind(err, drive.NotFound) {
		return "", nil
	}
	return value, err
}

// Load reads a value that Save wrote; into stays as it is when there is none.
func Load(ctx context.Context, q sqldb.Querier, name string, into any) error {
	text, err := Find(ctx, q, name)
	if err != nil || text == "" {
		return err
	}
	return json.Unmarshal([]byte(text), into)
}

// Set writes a value, whether there is one or not.
func Set(ctx context.Context, tx *sqldb.Tx, name, value string) error {
	n, err := tx.Exec(ctx, `UPDATE meta SET value = ? WHERE name = ?`, value, name)
	if err != nil || n > 0 {
		return err
	}
	made, err := Make(ctx, tx, name, value)
	if err == nil && !made {
		err = sqldb.Again(errors.New("the row has come"))
	}
	return err
}

// Save is Set of a value in JSON.
func Save(ctx context.Context, tx *sqldb.Tx, name string, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return Set(ctx, tx, name, string(text))
}

// Make writes the first value of a name. False: there is one, which stays.
func Make(ctx context.Context, tx *sqldb.Tx, name, value string) (made bool, err error) {
	return tx.InsertNew(ctx, `INSERT INTO meta (name, value) VALUES (?, ?)`, name, value)
}

// Swap writes a value in the place of another. False: it is not that one any more.
func Swap(ctx context.Context, tx *sqldb.Tx, name, was, value string) (swapped bool, err error) {
	n, err := tx.Exec(ctx, `UPDATE meta SET value = ? WHERE name = ? AND value = ?`, value, name, was)
	return n > 0, err
}

// Delete forgets a name. One that is not there is no error.
func Delete(ctx context.Context, tx *sqldb.Tx, name string) error {
	_, err := tx.Exec(ctx, `DELETE FROM meta WHERE name = ?`, name)
	return err
}
