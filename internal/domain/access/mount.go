package access

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"unicode"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Mount is a folder or file that is shared with a user by name, as that user has it.
type Mount struct {
	Grant // the strongest of the user's roles there; Name is the group's that has it, empty if it is the user's own

	Owner  string // the user whose drive it is in; empty: it is in a space
	Space  string // the name of the space that it is in
	Alias  string // what the user calls it; empty: as it is called
	Hidden bool   // out of sight, unless it is asked for
	// Shown is the name by which clients that know nothing but paths have it; empty: they have not
	// seen it. See KeepNames.
	Shown string
	Since drive.Time // when the first of the user's roles there was given
}

// maxMounts is how many mounts a user may have renamed or hidden. What others share with them takes
// nothing of it.
const maxMounts = 10_000

const mountColumns = grantColumns + `, COALESCE(p.name, ''), COALESCE(o.name, ''), COALESCE(s.name, ''), COALESCE(m.name, ''), COALESCE(m.hidden, 0), COALESCE(m.shown, '')`

// mountJoins adds to grants g what mountColumns needs; its parameter is the user.
const mountJoins = ` LEFT JOIN user_groups p ON p.id = g.principal_id LEFT JOIN users o ON o.account_id = g.account_id
		LEFT JOIN spaces s ON s.account_id = g.account_id LEFT JOIN mounts m ON m.node_id = g.node_id AND m.user_id = ? `

// gives is, within a statement that has mine, whether a grant g below the root of a drive gives its
// user anything there: not in a space that is deleted, nor in one that shares nothing with others
// than its members, of whom the user is none. Its parameter is the time.
const gives = `NOT EXISTS (SELECT 1 FROM spaces s WHERE s.account_id = g.account_id AND (s.root_id = g.node_id OR s.state = 'deleted' OR s.outward = 'nobody'
				AND NOT EXISTS (SELECT 1 FROM mine w JOIN grants r ON r.principal_id = w.id
					WHERE r.node_id = s.root_id AND r.role <> 'none' AND (r.expires_at = 0 OR r.expires_at > ?))))`

func scanMount(m *Mount, scan func(...any) error) error {
	return scanGrant(&m.Grant, func(dest ...any) error {
		return scan(append(dest, &m.Owner, &m.Space, &m.Alias, &m.Hidden, &m.Shown)...)
	})
}

// ListMine lists the nodes that are shared with a user by name, roots of spaces excepted, in the
// order of their ids: each with the strongest of the user's roles there. What gives nothing is left
// out, and so is what has ended, and what the user has hidden, unless hidden is set. It costs a
// statement, and another one where so much was left out that the page is not full.
func (a *Access) ListMine(ctx context.Context, q sqldb.Querier, user drive.UserID, after drive.NodeID, limit int, hidden bool) ([]Mount, error) {
	var all []Mount
	for look := limit + limit/4 + 16; ; look *= 2 { // a node may have grants for several of the user's groups
		seen, err := glance(ctx, q, user, after, look, a.now())
		if err != nil {
			return nil, fmt.Errorf("list what is shared with %s: %w", user, err)
		}
		for some := range byNode(whole(seen, look)) {
			after = some[0].Node
			if len(all) < limit {
				all = append(all, given(some, hidden, a.now())...)
			}
		}
		if len(all) == limit || len(seen) < look {
			return all, nil
		}
	}
}

// glimpse is a grant of a user at a node, whether it gives something or not.
type glimpse struct {
	Mount

	gives bool // as far as the space says
}

// glance reads a user's next grants, in the order of nodes. What costs more than a look into an
// index is asked for these alone, and not for all that there are.
func glance(ctx context.Context, q sqldb.Querier, user drive.UserID, after drive.NodeID, grants int, now drive.Time) ([]glimpse, error) {
	me := user.String()
	rows, err := q.Query(ctx, `WITH `+mine+`, near (node_id, principal_id) AS (
			SELECT g.node_id, g.principal_id FROM mine JOIN grants g ON g.principal_id = mine.id
			WHERE g.node_id > ? ORDER BY g.node_id LIMIT ?)
		SELECT `+mountColumns+`, `+gives+`
		FROM near CROSS JOIN grants g ON g.node_id = near.node_id AND g.principal_id = near.principal_id`+mountJoins+`
		ORDER BY g.node_id`,
		me, me, after.String(), grants, now, me)
	return sqldb.Scan(rows, err, func(g *glimpse, scan func(...any) error) error {
		return scanMount(&g.Mount, func(dest ...any) error { return scan(append(dest, &g.gives)...) })
	})
}

// whole leaves out the last node where there may be more of its grants than were read.
func whole(seen []glimpse, limit int) []glimpse {
	n := len(seen)
	for n > 0 && len(seen) == limit && seen[n-1].Node == seen[len(seen)-1].Node {
		n--
	}
	return seen[:n]
}

// byNode goes through grants node by node. They are in the order of nodes.
func byNode(all []glimpse) iter.Seq[[]glimpse] {
	return func(yield func([]glimpse) bool) {
		for len(all) > 0 {
			n := 1
			for n < len(all) && all[n].Node == all[0].Node {
				n++
			}
			if !yield(all[:n]) {
				return
			}
			all = all[n:]
		}
	}
}

// given is what the grants at a node come to: one mount, or none.
func given(at []glimpse, hidden bool, now drive.Time) []Mount {
	var last []Mount
	any := false
	for _, g := range at {
		if g.Hidden && !hidden {
			return nil
		}
		if g.Expires == 0 || g.Expires > now {
			last = append(last, g.Mount)
			any = any || g.gives && g.Role != None
		}
	}
	if !any {
		return nil
	}
	return strongest(last)
}

// strongest leaves of the grants at each node the strongest one. They are in the order of nodes.
func strongest(all []Mount) (one []Mount) {
	for _, m := range all {
		last := len(one) - 1
		m.Since = m.Created
		if last < 0 || one[last].Node != m.Node {
			one = append(one, m)
			continue
		}
		since := min(m.Since, one[last].Since)
		if stronger(m, one[last]) {
			one[last] = m
		}
		one[last].Since = since
	}
	return one
}

// stronger says which of two grants at a node counts: of the same role one's own, so that every
// page says the same.
func stronger(m, than Mount) bool {
	switch a, b := rank(m.Role), rank(than.Role); {
	case a != b:
		return a > b
	case m.Kind != than.Kind:
		return m.Kind == User
	}
	return m.Principal.String() < than.Principal.String()
}

func rank(r Role) int {
	for i, role := range Roles() {
		if role == r {
			return i
		}
	}
	return -1
}

// errFirst is why a transaction runs again that found another one's row in the place of its own.
var errFirst = errors.New("another request has made this mount first")

// MountChange is what a user makes of a mount; nil leaves it as it is.
type MountChange struct {
	Alias  *string // empty: as it is called
	Hidden *bool
}

// SetMount renames or hides a mount for a user, and for nobody else. It may be repeated. NotFound:
// nothing is shared with the user there.
func (a *Access) SetMount(ctx context.Context, tx *sqldb.Tx, user drive.UserID, node drive.NodeID, c MountChange) error {
	if c.Alias != nil && *c.Alias != "" {
		if err := checkAlias(*c.Alias); err != nil {
			return err
		}
	}
	if err := a.sharedWith(ctx, tx, user, node); err != nil {
		return err
	}
	var now struct {
		name   string
		hidden bool
	}
	err := tx.QueryRow(ctx, `SELECT name, hidden FROM mounts WHERE node_id = ? AND user_id = ?`, node, user).Scan(&now.name, &now.hidden)
	there, said := err == nil, now.name != "" || now.hidden
	if err != nil && !drive.IsKind(err, drive.NotFound) {
		return fmt.Errorf("find the mount of %s: %w", node, err)
	}
	if c.Alias != nil {
		now.name = *c.Alias
	}
	if c.Hidden != nil {
		now.hidden = *c.Hidden
	}
	says := now.name != "" || now.hidden
	if says && !said {
		if err := roomForMount(ctx, tx, user); err != nil {
			return err
		}
	}
	switch {
	case there:
		_, err = tx.Exec(ctx, `UPDATE mounts SET name = ?, hidden = ?, updated_at = ? WHERE node_id = ? AND user_id = ?`, now.name, now.hidden, a.now(), node, user)
		if err == nil && !says {
			err = dropIdle(ctx, tx, user, node)
		}
	case says:
		var made bool
		made, err = tx.InsertNew(ctx, `INSERT INTO mounts (node_id, user_id, name, hidden, updated_at) VALUES (?, ?, ?, ?, ?)`, node, user, now.name, now.hidden, a.now())
		if err == nil && !made {
			err = sqldb.Again(errFirst)
		}
	default:
		err = nil
	}
	if err != nil {
		return fmt.Errorf("change the mount of %s: %w", node, err)
	}
	return nil
}

// dropIdle deletes the row of a mount if it says nothing.
func dropIdle(ctx context.Context, tx *sqldb.Tx, user drive.UserID, node drive.NodeID) error {
	_, err := tx.Exec(ctx, `DELETE FROM mounts WHERE node_id = ? AND user_id = ? AND name = '' AND hidden = 0 AND shown = ''`, node, user)
	return err
}

func checkAlias(alias string) error {
	name, err := drive.ParseName(alias)
	if err != nil {
		return drive.Wrap(err, drive.BadRequest, "field", "name", "reason", string(drive.Malformed), "expected", "a name without '/'")
	}
	for _, r := range name {
		if !unicode.IsPrint(r) {
			return drive.Bad("name", drive.Malformed, "expected", "visible characters")
		}
	}
	return nil
}

// sharedWith is nil when a node is shared with a user by name, not as the root of a space.
func (a *Access) sharedWith(ctx context.Context, q sqldb.Querier, user drive.UserID, node drive.NodeID) error {
	var n int
	err := q.QueryRow(ctx, `WITH `+mine+`
		SELECT COUNT(*) FROM mine CROSS JOIN grants g ON g.node_id = ? AND g.principal_id = mine.id
		WHERE g.role <> 'none' AND (g.expires_at = 0 OR g.expires_at > ?)
		AND NOT EXISTS (SELECT 1 FROM spaces s WHERE s.account_id = g.account_id AND s.root_id = g.node_id)`,
		user.String(), user.String(), node, a.now()).Scan(&n)
	if err == nil && n == 0 {
		err = drive.Fail(drive.NotFound)
	}
	return err
}

func roomForMount(ctx context.Context, tx *sqldb.Tx, user drive.UserID) error {
	var n int
	if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM mounts WHERE user_id = ? AND (name <> '' OR hidden = 1)`, user).Scan(&n); err != nil {
		return err
	}
	if n >= maxMounts {
		return drive.Fail(drive.TooManyOpen, "reason", "mounts", "limit", maxMounts, "sent", n+1)
	}
	return nil
}
