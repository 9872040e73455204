// Package star stores the files and folders that users have starred. A star is private to its user,
// gives no access, and stays while its node is in the trash.
package star

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// MaxPerUser bounds the stars of a user.
const MaxPerUser = 1000

// Stars stores stars. It is safe for concurrent use.
type Stars struct {
	db      *sqldb.DB
	now     func() time.Time
	orphans sqldb.Orphans // stars of permanently deleted nodes
}

// New returns the stars in db. now is the clock; nil: time.Now.
func New(db *sqldb.DB, now func() time.Time) *Stars {
	if now == nil {
		now = time.Now
	}
	return &Stars{db: db, now: now, orphans: sqldb.Orphans{Table: "stars", Key: "node_id", Owner: "node_id", OwnerTable: "nodes"}}
}

// Add stars a node for a user. Repeating it changes nothing. It fails with NotFound if there is no
// such user, and with TooManyOpen beyond MaxPerUser. It locks the user's row, so that concurrent
// calls are counted correctly. The caller has checked access.
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
		if n > MaxPerUser {
			return drive.Fail(drive.TooManyOpen, "reason", "stars", "limit", MaxPerUser, "sent", n)
		}
		return nil
	})
}

// Remove deletes a user's star of a node in a transaction of its own. It returns false and no error
// if the user had not starred the node.
func (s *Stars) Remove(ctx context.Context, user drive.UserID, node drive.NodeID) (bool, error) {
	var n int64
	err := s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		n, err = tx.Exec(ctx, "DELETE FROM stars WHERE node_id = ? AND user_id = ?", node, user)
		return wrap(err, "unstar", node)
	})
	return n > 0, err
}

// IDs returns the ids of all nodes that a user has starred, newest star first. Ids of permanently
// deleted nodes may remain until Purge examines them.
func (s *Stars) IDs(ctx context.Context, q sqldb.Querier, user drive.UserID) ([]drive.NodeID, error) {
	ids, _, err := s.List(ctx, q, user, "", MaxPerUser)
	return ids, err
}

// List returns a page of the nodes that a user has starred, newest star first, and the cursor of
// the next page; "" after the last. It fails with CursorInvalid if the cursor is malformed.
func (s *Stars) List(ctx context.Context, q sqldb.Querier, user drive.UserID, cursor string, limit int) ([]drive.NodeID, string, error) {
	before, id, err := parseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	rows, err := q.Query(ctx, `SELECT node_id, created_at FROM stars WHERE user_id = ? AND created_at <= ? AND (created_at < ? OR node_id < ?)
		ORDER BY created_at DESC, node_id DESC LIMIT ?`, user, before, before, id, limit+1)
	all, err := sqldb.Scan(rows, err, func(m *starRow, scan func(...any) error) error { return scan(&m.node, &m.at) })
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

// Purge examines the next rows of the table, 200,000 at most, from where the last call in this
// process stopped, and deletes the stars whose node no longer exists. A nil error does not mean
// that none are left: housekeeping calls Purge again in each run. It may be interrupted and run
// concurrently.
func (s *Stars) Purge(ctx context.Context) error {
	_, err := s.orphans.Delete(ctx, s.db)
	return err
}

// DeleteUser deletes all stars of a user.
func (s *Stars) DeleteUser(ctx context.Context, tx *sqldb.Tx, user drive.UserID) error {
	if _, err := tx.Exec(ctx, "DELETE FROM stars WHERE user_id = ?", user); err != nil {
		return fmt.Errorf("delete the stars of %s: %w", user, err)
	}
	return nil
}

// starRow is a star as read for a list.
type starRow struct {
	node drive.NodeID
	at   drive.Time
}

// cursor returns the cursor after the star.
func (r starRow) cursor() string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s", int64(r.at), r.node))
}

// parseCursor returns the time and node id in a cursor. For the empty cursor both are greater than
// all others, because lists are descending.
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

// wrap adds what was attempted, and on which node, to err; nil stays nil.
func wrap(err error, what string, node drive.NodeID) error {
	if err != nil {
		return fmt.Errorf("%s node %s: %w", what, node, err)
	}
	return nil
}
