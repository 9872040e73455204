package account

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Preferences returns the user's web preferences as stored: a JSON object, {} if there are none.
func (u *Users) Preferences(ctx context.Context, q sqldb.Querier, id drive.UserID) (value []byte, err error) {
	err = q.QueryRow(ctx, "SELECT value FROM preferences WHERE user_id = ?", id).Scan(&value)
	switch {
	case drive.IsKind(err, drive.NotFound):
		return []byte("{}"), nil
	case err != nil:
		return nil, fmt.Errorf("read the preferences of %s: %w", id, err)
	}
	return value, nil
}

// SetPreferences replaces the user's web preferences by value, a JSON object that it does not
// check. Of concurrent calls the last one wins. For an unknown or deleted user nothing is stored,
// and it fails.
func (u *Users) SetPreferences(ctx context.Context, id drive.UserID, value []byte) error {
	return u.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		now := drive.TimeOf(u.opt.Now())
		n, err := tx.Exec(ctx, "UPDATE preferences SET value = ?, updated_at = ? WHERE user_id = ?", string(value), now, id)
		if err != nil || n > 0 {
			return wrapPreferences(err, id)
		}
		made, err := tx.InsertNew(ctx, `INSERT INTO preferences (user_id, value, updated_at)
			SELECT id, ?, ? FROM users WHERE id = ? AND state <> 'deleted'`, string(value), now, id)
		if err == nil && !made {
			return sqldb.Rerun(fmt.Errorf("the first preferences of %s", id))
		}
		return wrapPreferences(err, id)
	})
}

// wrapPreferences adds context to err; nil stays nil.
func wrapPreferences(err error, id drive.UserID) error {
	if err != nil {
		return fmt.Errorf("keep the preferences of %s: %w", id, err)
	}
	return nil
}

// deletePreferences deletes the preferences of a user.
func deletePreferences(ctx context.Context, tx *sqldb.Tx, id drive.UserID) error {
	if _, err := tx.Exec(ctx, "DELETE FROM preferences WHERE user_id = ?", id); err != nil {
		return fmt.Errorf("delete the preferences of %s: %w", id, err)
	}
	return nil
}
