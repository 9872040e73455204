package access

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Kind says what a principal is.
type Kind string

// The kinds of principals.
const (
	User  Kind = "user"
	Group Kind = "group"
)

// Grant is a role of a principal at a node.
type Grant struct {
	Node      drive.NodeID
	Account   drive.AccountID // that of the node
	Principal drive.PrincipalID
	Kind      Kind
	Name      string // of the principal, as it is now; written by nobody
	Role      Role
	By        drive.UserID
	Note      string
	Created   drive.Time
	Updated   drive.Time
	Expires   drive.Time // zero: never
}

const (
	maxGrants = 100_000 // of an account: 10,000 members and what they share in it
	// maxGrantsOfOne is how many of them one user or group has: each listing of what is shared with
	// somebody looks at all of theirs, and whoever shares decides how many those are.
	maxGrantsOfOne = 10_000
	maxNote        = 1000 // bytes
)

const grantColumns = "g.node_id, g.account_id, g.principal_id, g.kind, g.role, g.granted_by, g.note, g.created_at, g.updated_at, g.expires_at"

// named adds the name of the principal to grantColumns.
const named = grantColumns + `, COALESCE(u.name, p.name, '') FROM grants g
	LEFT JOIN users u ON u.id = g.principal_id LEFT JOIN user_groups p ON p.id = g.principal_id `

func scanGrant(g *Grant, scan func(...any) error) error {
	return scan(&g.Node, &g.Account, &g.Principal, &g.Kind, &g.Role, &g.By, &g.Note, &g.Created, &g.Updated, &g.Expires, &g.Name)
}

// Set gives a principal a role at a node, in the place of the one that it had there. The caller has
// checked that it may. The principal must be there: BadRequest {field: principal}.
func (a *Access) Set(ctx context.Context, tx *sqldb.Tx, g Grant) (Grant, error) {
	if !utf8.ValidString(g.Note) || len(g.Note) > maxNote {
		return Grant{}, drive.Bad("note", drive.TooLong, "limit", maxNote, "sent", len(g.Note))
	}
	if g.Expires != 0 && g.Expires <= a.now() {
		return Grant{}, drive.Bad("expires_in", drive.OutOfRange, "min", 1)
	}
	if err := a.checkPrincipal(ctx, tx, g); err != nil {
		return Grant{}, err
	}
	now, made := a.now(), false
	n, err := tx.Exec(ctx, `UPDATE grants SET role = ?, granted_by = ?, note = ?, updated_at = ?, expires_at = ?
		WHERE node_id = ? AND principal_id = ?`, g.Role, g.By.String(), g.Note, now, g.Expires, g.Node, g.Principal)
	if err == nil && n == 0 {
		if err = roomForGrant(ctx, tx, g); err == nil {
			made, err = tx.InsertNew(ctx, `INSERT INTO grants (node_id, principal_id, account_id, kind, role, granted_by, note, created_at, updated_at, expires_at)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, g.Node, g.Principal, g.Account, g.Kind, g.Role, g.By.String(), g.Note, now, now, g.Expires)
		}
	}
	if err == nil && made { // what is shared again is seen again
		_, err = tx.Exec(ctx, `DELETE FROM mounts WHERE node_id = ? AND user_id = ?`, g.Node, g.Principal)
	}
	if err == nil {
		err = a.changed(ctx, tx)
	}
	if err != nil {
		return Grant{}, fmt.Errorf("grant %s at node %s: %w", g.Role, g.Node, err)
	}
	return a.FindGrant(ctx, tx, g.Node, g.Principal)
}

func (a *Access) checkPrincipal(ctx context.Context, tx *sqldb.Tx, g Grant) (err error) {
	if g.Kind == Group { // which does not lose its last member meanwhile
		err = a.LockGroup(ctx, tx, drive.GroupID(g.Principal))
	} else {
		var there int
		err = tx.QueryRow(ctx, `SELECT 1 FROM users WHERE id = ? AND state <> 'deleted'`, g.Principal).Scan(&there)
	}
	if drive.IsKind(err, drive.NotFound) {
		return drive.Bad(string(g.Kind), drive.Unknown)
	}
	return err
}

func roomForGrant(ctx context.Context, tx *sqldb.Tx, g Grant) error {
	var n, ofOne int
	err := tx.QueryRow(ctx, `SELECT (SELECT COUNT(*) FROM grants WHERE account_id = ?), (SELECT COUNT(*) FROM grants WHERE principal_id = ? AND account_id = ?)`,
		g.Account, g.Principal, g.Account).Scan(&n, &ofOne)
	switch {
	case err != nil:
		return err
	case n >= maxGrants:
		return drive.Fail(drive.TooManyOpen, "reason", "grants", "limit", maxGrants, "sent", n+1)
	case ofOne >= maxGrantsOfOne:
		return drive.Fail(drive.TooManyOpen, "reason", "grants-of-one", "limit", maxGrantsOfOne, "sent", ofOne+1)
	}
	return nil
}

// FindGrant returns a principal's role at a node, also one that has ended; NotFound.
func (a *Access) FindGrant(ctx context.Context, q sqldb.Querier, node drive.NodeID, principal drive.PrincipalID) (g Grant, err error) {
	err = scanGrant(&g, q.QueryRow(ctx, "SELECT "+named+"WHERE g.node_id = ? AND g.principal_id = ?", node, principal).Scan)
	return g, err
}

// Take takes a principal's role at a node away, and returns what it was. One that is not there is
// no error: taken is false.
func (a *Access) Take(ctx context.Context, tx *sqldb.Tx, node drive.NodeID, principal drive.PrincipalID) (was Grant, taken bool, err error) {
	was, err = a.FindGrant(ctx, tx, node, principal)
	if drive.IsKind(err, drive.NotFound) {
		return Grant{}, false, nil
	}
	if err == nil {
		_, err = tx.Exec(ctx, `DELETE FROM grants WHERE node_id = ? AND principal_id = ?`, node, principal)
	}
	if err == nil {
		err = a.changed(ctx, tx)
	}
	if err != nil {
		return Grant{}, false, fmt.Errorf("take a role at node %s: %w", node, err)
	}
	return was, true, nil
}

// ListAt lists the grants at a node in the order of their principals' ids, those that have ended
// excepted.
func (a *Access) ListAt(ctx context.Context, q sqldb.Querier, node drive.NodeID, after drive.PrincipalID, limit int) ([]Grant, error) {
	rows, err := q.Query(ctx, "SELECT "+named+`WHERE g.node_id = ? AND g.principal_id > ? AND (g.expires_at = 0 OR g.expires_at > ?)
		ORDER BY g.principal_id LIMIT ?`, node, after.String(), a.now(), limit)
	all, err := sqldb.Scan(rows, err, scanGrant)
	if err != nil {
		return nil, fmt.Errorf("list the grants at node %s: %w", node, err)
	}
	return all, nil
}

// Above is a node on the way up to the root, and a grant on it.
type Above struct {
	Grant

	Level int // how many levels above; zero: the node itself
	// Idle says that it gives nothing for now: the space shares nothing with others than its
	// members, of whom the principal is none.
	Idle bool
}

// ListUp lists the grants at a node and above it, the nearest first, up to limit of them; no higher
// than level most.
func (a *Access) ListUp(ctx context.Context, q sqldb.Querier, node drive.NodeID, most, limit int) ([]Above, error) {
	rows, err := q.Query(ctx, `WITH RECURSIVE up (id, parent_id, level) AS (
			SELECT id, parent_id, 0 FROM nodes WHERE id = ?
			UNION ALL
			SELECT n.id, n.parent_id, up.level + 1 FROM up JOIN nodes n ON n.id = up.parent_id WHERE up.level < ?)
		SELECT `+grantColumns+`, COALESCE(u.name, p.name, ''), up.level,
			EXISTS (SELECT 1 FROM spaces s WHERE s.account_id = g.account_id AND s.root_id <> g.node_id AND s.outward = 'nobody'
				AND NOT EXISTS (SELECT 1 FROM grants r WHERE r.node_id = s.root_id AND r.role <> 'none' AND (r.expires_at = 0 OR r.expires_at > ?)
					AND (r.principal_id = g.principal_id OR r.principal_id IN (SELECT m.group_id FROM group_members m WHERE m.user_id = g.principal_id))))
		FROM up JOIN grants g ON g.node_id = up.id
		LEFT JOIN users u ON u.id = g.principal_id LEFT JOIN user_groups p ON p.id = g.principal_id
		WHERE g.expires_at = 0 OR g.expires_at > ? ORDER BY up.level, g.principal_id LIMIT ?`, node, min(most, maxClimb), a.now(), a.now(), limit)
	all, err := sqldb.Scan(rows, err, func(g *Above, scan func(...any) error) error {
		return scanGrant(&g.Grant, func(dest ...any) error { return scan(append(dest, &g.Level, &g.Idle)...) })
	})
	if err != nil {
		return nil, fmt.Errorf("list the grants above node %s: %w", node, err)
	}
	return all, nil
}

// ListOf lists the grants of an account, in the order of their nodes and principals.
func (a *Access) ListOf(ctx context.Context, q sqldb.Querier, account drive.AccountID, after Grant, limit int) ([]Grant, error) {
	rows, err := q.Query(ctx, "SELECT "+named+`WHERE g.account_id = ? AND g.node_id >= ? AND (g.node_id > ? OR g.principal_id > ?)
		AND (g.expires_at = 0 OR g.expires_at > ?) ORDER BY g.node_id, g.principal_id LIMIT ?`,
		account, after.Node.String(), after.Node.String(), after.Principal.String(), a.now(), limit)
	all, err := sqldb.Scan(rows, err, scanGrant)
	if err != nil {
		return nil, fmt.Errorf("list the grants of account %s: %w", account, err)
	}
	return all, nil
}

// ListIn lists the grants at what is in a folder, without what is below that, in the order of their
// nodes and principals: up to limit of them.
func (a *Access) ListIn(ctx context.Context, q sqldb.Querier, folder drive.NodeID, limit int) ([]Grant, error) {
	rows, err := q.Query(ctx, "SELECT "+grantColumns+`, COALESCE(u.name, p.name, '') FROM nodes n CROSS JOIN grants g ON g.node_id = n.id
		LEFT JOIN users u ON u.id = g.principal_id LEFT JOIN user_groups p ON p.id = g.principal_id
		WHERE n.parent_id = ? AND n.trashed_at = 0 AND (g.expires_at = 0 OR g.expires_at > ?) ORDER BY g.node_id, g.principal_id LIMIT ?`, folder, a.now(), limit)
	all, err := sqldb.Scan(rows, err, scanGrant)
	if err != nil {
		return nil, fmt.Errorf("list the grants in folder %s: %w", folder, err)
	}
	return all, nil
}

// purgeBatch is how many rows one transaction of a purge deletes.
const purgeBatch = 1000

// Purge deletes the grants that have ended before a moment, and of those, and of mounts, at nodes
// that are gone some in each call. They give nothing any more; this only makes room.
func (a *Access) Purge(ctx context.Context, ended time.Time) error {
	for n := int64(purgeBatch); n >= purgeBatch; {
		err := a.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			n, err = tx.DeleteBatch(ctx, sqldb.Batch{
				Table: "grants", Key: "node_id", Where: "expires_at > 0 AND expires_at < ?", Args: []any{drive.TimeOf(ended)}, Limit: purgeBatch,
			})
			return err
		})
		if err != nil {
			return fmt.Errorf("purge grants: %w", err)
		}
	}
	if _, err := a.orphans.Delete(ctx, a.opt.DB); err != nil {
		return err
	}
	_, err := a.lostMounts.Delete(ctx, a.opt.DB)
	return err
}

// Forget deletes what there is of an account: its grants, and the space that it is.
func (a *Access) Forget(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	for _, table := range []string{"grants", "spaces"} {
		if _, err := tx.Exec(ctx, "DELETE FROM "+table+" WHERE account_id = ?", account); err != nil {
			return fmt.Errorf("forget the %s of account %s: %w", table, account, err)
		}
	}
	return a.changed(ctx, tx)
}

// ForgetPrincipal takes all roles away from a user or group, and a user out of all groups.
func (a *Access) ForgetPrincipal(ctx context.Context, tx *sqldb.Tx, id drive.PrincipalID) error {
	for _, query := range []string{
		`DELETE FROM grants WHERE principal_id = ?`, `DELETE FROM group_members WHERE user_id = ?`, `DELETE FROM mounts WHERE user_id = ?`,
	} {
		if _, err := tx.Exec(ctx, query, id); err != nil {
			return fmt.Errorf("forget principal %s: %w", id, err)
		}
	}
	return a.changed(ctx, tx)
}
