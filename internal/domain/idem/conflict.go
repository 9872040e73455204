package idem

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

const (
	// MaxConflicts is the greatest number of conflicts per user; further ones evict the oldest.
	MaxConflicts = 1000
	// maxConflictBody bounds the stored bytes of a refused request's body.
	maxConflictBody = 4 << 10
	conflictKeep    = 90 * 24 * time.Hour // how long conflicts are kept
)

// Conflict is a creation that was refused because its idempotency key had been used for another
// request, such as a debit that is repeated with another amount (SOURCES I4). It stays in the
// user's list until a person resolves it with Resolve.
type Conflict struct {
	ID      drive.ConflictID
	Method  string
	Route   string
	Key     string
	Request string // body of the refused request, cut to 4 KiB; empty: not stored
	Times   int64  // how often it was refused
	FirstAt drive.Time
	LastAt  drive.Time
}

// Conflicts stores the conflicts of all users. It is safe for concurrent use.
type Conflicts struct {
	db  *sqldb.DB
	opt Options
}

// NewConflicts returns the conflicts stored in db.
func NewConflicts(db *sqldb.DB, opt Options) *Conflicts { return &Conflicts{db, opt.withDefaults()} }

// Record adds a refused request to its user's list, or counts it again if the same request with the
// same key is in the list. body is the request's body: at most 4 KiB of it are stored, and nothing
// if the request is Secret or the body is not UTF-8. It evicts the user's oldest conflicts above
// MaxConflicts.
func (c *Conflicts) Record(ctx context.Context, req Request, body []byte) error {
	if req = req.scoped(); req.Secret || !utf8.Valid(body) {
		body = nil
	}
	body = body[:min(len(body), maxConflictBody)]
	now, route := drive.TimeOf(c.opt.Now()), []any{req.User, req.Method, req.Route, req.Key.text, req.Fingerprint[:]}
	err := c.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		made, err := tx.InsertNew(ctx, "INSERT INTO key_conflicts (id, user_id, method, route, `key`, fingerprint, body, times, first_at, last_at) "+
			"VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?, ?)", append(append([]any{drive.NewID[drive.ConflictID]()}, route...), append([]byte{}, body...), now, now)...)
		if err != nil {
			return err
		}
		if !made {
			_, err := tx.Exec(ctx, "UPDATE key_conflicts SET times = times + 1, last_at = ?"+whereKey+" AND fingerprint = ?", append([]any{now}, route...)...)
			return err
		}
		_, err = tx.Exec(ctx, `DELETE FROM key_conflicts WHERE user_id = ? AND id <= (SELECT id FROM
			(SELECT id FROM key_conflicts WHERE user_id = ? ORDER BY id DESC LIMIT 1 OFFSET ?) AS oldest)`, req.User, req.User, MaxConflicts)
		return err
	})
	if err != nil {
		return fmt.Errorf("record a conflict of %s: %w", req.Route, err)
	}
	return nil
}

// List returns a page of up to limit conflicts of a user, the oldest first, and the cursor of the
// next page ("" after the last). cursor is "" for the first page. An invalid cursor fails with
// CursorInvalid.
func (c *Conflicts) List(ctx context.Context, user drive.UserID, cursor string, limit int) ([]Conflict, string, error) {
	if cursor != "" {
		if _, err := drive.ParseID[drive.ConflictID](cursor); err != nil {
			return nil, "", drive.Wrap(err, drive.CursorInvalid)
		}
	}
	rows, err := c.db.Query(ctx, "SELECT id, method, route, `key`, body, times, first_at, last_at FROM key_conflicts WHERE user_id = ? AND id > ? ORDER BY id LIMIT ?",
		user, cursor, limit+1)
	all, err := sqldb.Scan(rows, err, func(x *Conflict, scan func(...any) error) error {
		return scan(&x.ID, &x.Method, &x.Route, &x.Key, &x.Request, &x.Times, &x.FirstAt, &x.LastAt)
	})
	if err != nil {
		return nil, "", fmt.Errorf("list conflicts of %s: %w", user, err)
	}
	if len(all) <= limit {
		return all, "", nil
	}
	return all[:limit], all[limit-1].ID.String(), nil
}

// Resolve deletes a conflict from the list of its user, in a transaction of its own. It fails with
// NotFound if the user has no such conflict.
func (c *Conflicts) Resolve(ctx context.Context, user drive.UserID, id drive.ConflictID) error {
	return c.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := tx.Exec(ctx, "DELETE FROM key_conflicts WHERE id = ? AND user_id = ?", id, user)
		switch {
		case err != nil:
			return fmt.Errorf("settle a conflict: %w", err)
		case n == 0:
			return drive.Fail(drive.NotFound)
		}
		return nil
	})
}

// Purge deletes conflicts that did not recur for 90 days, in batches. It can be interrupted and may
// run concurrently.
func (c *Conflicts) Purge(ctx context.Context, now time.Time) error {
	before := drive.TimeOf(now.Add(-conflictKeep))
	for more := true; more; {
		err := c.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			var last drive.Time
			err := tx.QueryRow(ctx, `SELECT COALESCE(MAX(last_at), 0) FROM
				(SELECT last_at FROM key_conflicts WHERE last_at < ? ORDER BY last_at LIMIT ?) AS oldest`, before, purgeBatch).Scan(&last)
			if more = err == nil && last > 0; more {
				_, err = tx.Exec(ctx, "DELETE FROM key_conflicts WHERE last_at <= ?", last)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("purge conflicts of keys: %w", err)
		}
	}
	return nil
}

// DeleteUser deletes all conflicts of a user, in the transaction that prepares the user's deletion.
func (c *Conflicts) DeleteUser(ctx context.Context, tx *sqldb.Tx, user drive.UserID) error {
	if _, err := tx.Exec(ctx, "DELETE FROM key_conflicts WHERE user_id = ?", user); err != nil {
		return fmt.Errorf("delete conflicts of %s: %w", user, err)
	}
	return nil
}
