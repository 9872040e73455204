// Package star keeps the files and folders that a user has starred. A star is a mark of the user's:
// nobody else sees it, it gives no right, and it stays while its node is in the trash.
package star

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Most is how many stars a user may have: marks, and not a second tree.
const Most = 1000

// Stars keeps them. It is safe for concurrent use.
type Stars struct {
	db      *sqldb.DB
	now     func() time.Time
	orphans sqldb.Orphans // of nodes that were deleted for good
}

// New returns the stars of db. now is the clock; nil: time.Now.
func New(db *sqldb.DB, now func() time.Time) *Stars {
	if now == nil {
		now = time.Now
	}
	return &Stars{db: db, now: now, orphans: sqldb.Orphans{Table: "stars", Key: "node_id", Owner: "node_id", Of: "nodes"}}
}

// Add stars a node for a user. Repeating it changes nothing. More than Most is TooManyOpen. The
// user's row is locked, so that two at a time are counted one after the other.
func (s *Stars) Add(ctx context.Context, user drive.UserID, node drive.NodeID) error {
	return s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		var locked drive.UserID
		if err := tx.QueryRow(ctx, "SELECT id FROM users WHERE id = ? AND state <> 'deleted'"+tx.ForUpdate(), user).Scan(&locked); err != nil {
			return fmt.Errorf("lock user %s: %w", user, err)
		}
		made, err := tx.InsertNew(ctx, "INSERT INTO stars (node_id, user_id, created_at) VALUES (?, ?, ?)", node, user, drive.TimeOf(s.now()))
		if err != nil || !made {
			return wrap(err, "star", node)
		}
		var n int
		if err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM stars WHERE user_id = ?", user).Scan(&n); err != nil {
			return fmt.Errorf("count the stars of %s: %w", user, err)
		}
		if n > Most {
			return drive.Fail(drive.TooManyOpen, "reason", "stars", "limit", Most, "sent", n)
		}
		return nil
	})
}

// Remove takes a star away, and reports whether there was one.
func (s *Stars) Remove(ctx context.Context, user drive.UserID, node drive.NodeID) (bool, error) {
	var n int64
	err := s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		n, err = tx.Exec(ctx, "DELETE FROM stars WHERE node_id = ? AND user_id = ?", node, user)
		return wrap(err, "unstar", node)
	})
	return n > 0, err
}

// IDs lists all that a user has starred, the newest first; of a node that was deleted for good the
// id may stay for a while.
func (s *Stars) IDs(ctx context.Context, q sqldb.Querier, user drive.UserID) ([]drive.NodeID, error) {
	ids, _, err := s.List(ctx, q, user, "", Most)
	return ids, err
}

// List returns a page of what a user has starred, the newest first, and the cursor of the next one,
// "" at the end. A cursor that List did not make is CursorInvalid.
func (s *Stars) List(ctx context.Context, q sqldb.Querier, user drive.UserID, cursor string, limit int) ([]drive.NodeID, string, error) {
	before, id, err := parseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	rows, err := q.Query(ctx, `SELECT node_id, created_at FROM stars WHERE user_id = ? AND created_at <= ? AND (created_at < ? OR node_id < ?)
		ORDER BY created_at DESC, node_id DESC LIMIT ?`, user, before, before, id, limit+1)
	all, err := sqldb.Scan(rows, err, func(m *mark, scan func(...any) error) error { return scan(&m.node, &m.at) })
	if err != nil {
		return nil, "", fmt.Errorf("list the stars of %s: %w", user, err)
	}
	next := ""
	if len(all) > limit {
		all = all[:limit]
		next = all[limit-1].cursor()
	}
	ids := make([]drive.NodeID, len(all))
	for i, m := range all {
		ids[i] = m.node
	}
	return ids, next, nil
}

// Purge drops the stars of nodes that were deleted for good; it may stop anywhere, and run twice.
func (s *Stars) Purge(ctx context.Context) error {
	_, err := s.orphans.Delete(ctx, s.db)
	return err
}

// Forget drops all stars of a user who is about to be purged.
func (s *Stars) Forget(ctx context.Context, tx *sqldb.Tx, user drive.UserID) error {
	if _, err := tx.Exec(ctx, "DELETE FROM stars WHERE user_id = ?", user); err != nil {
		return fmt.Errorf("delete the stars of %s: %w", user, err)
	}
	return nil
}

type mark struct {
	node drive.NodeID
	at   drive.Time
}

func (m mark) cursor() string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s", int64(m.at), m.node))
}

// parseCursor returns what comes before everything for the empty cursor: a time after all others,
// and an id after all others.
func parseCursor(text string) (drive.Time, string, error) {
	if text == "" {
		return 1 << 62, "~", nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return 0, "", drive.Wrap(err, drive.CursorInvalid)
	}
	at, node, _ := strings.Cut(string(raw), " ")
	ms, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return 0, "", drive.Wrap(err, drive.CursorInvalid)
	}
	if _, err := drive.ParseID[drive.NodeID](node); err != nil {
		return 0, "", drive.Wrap(err, drive.CursorInvalid)
	}
	return drive.Time(ms), node, nil
}

func wrap(err error, what string, node drive.NodeID) error {
	if err != nil {
		return fmt.Errorf("%s node %s: %w", what, node, err)
	}
	return nil
}
