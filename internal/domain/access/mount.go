package access

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Mount is a file or folder shared with a user by name, as that user sees it.
type Mount struct {
	Grant // the user's strongest grant there; Name is the group that has it, empty if it is the user's own

	Owner  string // user who owns the drive; empty: the node is in a space
	Space  string // name of the node's space
	Alias  string // the user's own name for it; empty: the node's name
	Hidden bool   // left out of lists unless asked for
	// Shown is the name under which path-based clients see it; empty: none has seen it. See
	// StoreMountNames.
	Shown string
	Since drive.Time // when the first of the user's grants there was given
}

// maxMounts bounds the mounts that a user may rename or hide. Shares by others do not count.
const maxMounts = 10_000

// mountColumns are the columns that scanMount reads: the grant, principal's name, owner's name,
// space's name, and the alias, hidden and shown of the mount, empty without a mount.
const mountColumns = grantColumns + `, COALESCE(p.name, ''), COALESCE(o.name, ''), COALESCE(s.name, ''), COALESCE(m.name, ''), COALESCE(m.hidden, 0), COALESCE(m.shown, '')`

// mountJoins joins grants g with the tables of mountColumns; its parameter is the user.
const mountJoins = ` LEFT JOIN user_groups p ON p.id = g.principal_id LEFT JOIN users o ON o.account_id = g.account_id
		LEFT JOIN spaces s ON s.account_id = g.account_id LEFT JOIN mounts m ON m.node_id = g.node_id AND m.user_id = ? `

// givesCondition is an SQL condition, for a statement with mineCTE, that a grant g below the root
// is effective. It is not in a deleted space, nor in one that shares with members only while the
// user is not a member. Its parameter is the time.
const givesCondition = `NOT EXISTS (SELECT 1 FROM spaces s WHERE s.account_id = g.account_id AND (s.root_id = g.node_id OR s.state = 'deleted' OR s.outward = 'nobody'
				AND NOT EXISTS (SELECT 1 FROM mine w JOIN grants r ON r.principal_id = w.id
					WHERE r.node_id = s.root_id AND r.role <> 'none' AND (r.expires_at = 0 OR r.expires_at > ?))))`

// scanMount reads mountColumns into m.
func scanMount(m *Mount, scan func(...any) error) error {
	return scanGrant(&m.Grant, func(dest ...any) error {
		return scan(append(dest, &m.Owner, &m.Space, &m.Alias, &m.Hidden, &m.Shown)...)
	})
}

// ListSharedWith lists up to limit nodes shared with a user by name, after the given node and
// ordered by id, with the strongest grant of each. Roots of spaces, expired and ineffective grants
// are left out, and hidden mounts unless hidden is set. It costs one statement, or more if many
// rows are left out.
func (a *Access) ListSharedWith(ctx context.Context, q sqldb.Querier, user drive.UserID, after drive.NodeID, limit int, hidden bool) ([]Mount, error) {
	var all []Mount
	for look := limit + limit/4 + 16; ; look *= 2 { // a node may have several grants, for the user's groups
		seen, err := readUserGrants(ctx, q, user, after, look, a.now())
		if err != nil {
			return nil, fmt.Errorf("list what is shared with %s: %w", user, err)
		}
		for some := range byNode(completeNodes(seen, look)) {
			after = some[0].Node
			if len(all) < limit {
				all = append(all, mountOf(some, hidden, a.now())...)
			}
		}
		if len(all) == limit || len(seen) < look {
			return all, nil
		}
	}
}

// userGrant is one grant of a user at a node.
type userGrant struct {
	Mount

	effective bool // the state of the space allows it
}

// readUserGrants reads the next grants of a user, ordered by node. Columns that cost more than an
// index lookup are only computed for these.
func readUserGrants(ctx context.Context, q sqldb.Querier, user drive.UserID, after drive.NodeID, grants int, now drive.Time) ([]userGrant, error) {
	me := user.String()
	rows, err := q.Query(ctx, `WITH `+mineCTE+`, near (node_id, principal_id) AS (
			SELECT g.node_id, g.principal_id FROM mine JOIN grants g ON g.principal_id = mine.id
			WHERE g.node_id > ? ORDER BY g.node_id LIMIT ?)
		SELECT `+mountColumns+`, `+givesCondition+`
		FROM near CROSS JOIN grants g ON g.node_id = near.node_id AND g.principal_id = near.principal_id`+mountJoins+`
		ORDER BY g.node_id`,
		me, me, after.String(), grants, now, me)
	return sqldb.Scan(rows, err, func(g *userGrant, scan func(...any) error) error {
		return scanMount(&g.Mount, func(dest ...any) error { return scan(append(dest, &g.effective)...) })
	})
}

// completeNodes drops the grants of the last node if the limit may have cut them off.
func completeNodes(seen []userGrant, limit int) []userGrant {
	n := len(seen)
	for n > 0 && len(seen) == limit && seen[n-1].Node == seen[len(seen)-1].Node {
		n--
	}
	return seen[:n]
}

// byNode iterates over groups of grants with the same node. They are ordered by node.
func byNode(all []userGrant) iter.Seq[[]userGrant] {
	return func(yield func([]userGrant) bool) {
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

// mountOf returns the mount that the grants at one node result in; nil if there is none.
func mountOf(at []userGrant, hidden bool, now drive.Time) []Mount {
	var last []Mount
	any := false
	for _, g := range at {
		if g.Hidden && !hidden {
			return nil
		}
		if g.Expires == 0 || g.Expires > now {
			last = append(last, g.Mount)
			any = any || g.effective && g.Role != None
		}
	}
	if !any {
		return nil
	}
	return strongest(last)
}

// strongest returns one mount per node, with the strongest of its grants; Since is the oldest
// creation among them. all must be ordered by node.
func strongest(all []Mount) (one []Mount) {
	for _, m := range all {
		last := len(one) - 1
		m.Since = m.Created
		if last < 0 || one[last].Node != m.Node {
			one = append(one, m)
			continue
		}
		since := min(m.Since, one[last].Since)
		if isStronger(m, one[last]) {
			one[last] = m
		}
		one[last].Since = since
	}
	return one
}

// isStronger reports whether m takes precedence over than. For equal roles the order is fixed, so
// that all pages agree: the user's own grant first.
func isStronger(m, than Mount) bool {
	switch a, b := rank(m.Role), rank(than.Role); {
	case a != b:
		return a > b
	case m.Kind != than.Kind:
		return m.Kind == User
	}
	return m.Principal.String() < than.Principal.String()
}

// rank returns the position of a role in Roles; -1 if unknown.
func rank(r Role) int {
	for i, role := range Roles() {
		if role == r {
			return i
		}
	}
	return -1
}

// errConcurrentInsert makes a transaction retry: another one has inserted the row.
var errConcurrentInsert = errors.New("another request has made this mount first")

// MountChange is a user's change of a mount; a nil field stays unchanged.
type MountChange struct {
	Alias  *string // empty: use the node's name
	Hidden *bool   // leave the mount out of lists
}

// SetMount renames or hides a mount for one user. It may be repeated. It fails with NotFound if the
// node is not shared with the user, with BadRequest for an invalid alias, and with TooManyOpen.
func (a *Access) SetMount(ctx context.Context, tx *sqldb.Tx, user drive.UserID, node drive.NodeID, c MountChange) error {
	if c.Alias != nil && *c.Alias != "" {
		if err := checkAlias(*c.Alias); err != nil {
			return err
		}
	}
	if err := a.requireShared(ctx, tx, user, node); err != nil {
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
		if err := checkMountLimit(ctx, tx, user); err != nil {
			return err
		}
	}
	switch {
	case there:
		_, err = tx.Exec(ctx, `UPDATE mounts SET name = ?, hidden = ?, updated_at = ? WHERE node_id = ? AND user_id = ?`, now.name, now.hidden, a.now(), node, user)
		if err == nil && !says {
			err = dropUnusedMount(ctx, tx, user, node)
		}
	case says:
		var made bool
		made, err = tx.InsertNew(ctx, `INSERT INTO mounts (node_id, user_id, name, hidden, updated_at) VALUES (?, ?, ?, ?, ?)`, node, user, now.name, now.hidden, a.now())
		if err == nil && !made {
			err = sqldb.Rerun(errConcurrentInsert)
		}
	default:
		err = nil
	}
	if err != nil {
		return fmt.Errorf("change the mount of %s: %w", node, err)
	}
	return nil
}

// dropUnusedMount deletes the row of a mount without alias, hidden flag and shown name.
func dropUnusedMount(ctx context.Context, tx *sqldb.Tx, user drive.UserID, node drive.NodeID) error {
	_, err := tx.Exec(ctx, `DELETE FROM mounts WHERE node_id = ? AND user_id = ? AND name = '' AND hidden = 0 AND shown = ''`, node, user)
	return err
}

// checkAlias fails with BadRequest if an alias is not a valid visible name.
func checkAlias(alias string) error {
	name, err := drive.ParseName(alias)
	if err != nil {
		return drive.Wrap(err, drive.BadRequest, "field", "name", "reason", string(drive.Malformed), "expected", "a name without '/'")
	}
	return drive.CheckVisible("name", string(name))
}

// requireShared fails with NotFound unless a node is shared with the user by name. The root of a
// space does not count.
func (a *Access) requireShared(ctx context.Context, q sqldb.Querier, user drive.UserID, node drive.NodeID) error {
	var n int
	err := q.QueryRow(ctx, `WITH `+mineCTE+`
		SELECT COUNT(*) FROM mine CROSS JOIN grants g ON g.node_id = ? AND g.principal_id = mine.id
		WHERE g.role <> 'none' AND (g.expires_at = 0 OR g.expires_at > ?)
		AND NOT EXISTS (SELECT 1 FROM spaces s WHERE s.account_id = g.account_id AND s.root_id = g.node_id)`,
		user.String(), user.String(), node, a.now()).Scan(&n)
	if err == nil && n == 0 {
		err = drive.Fail(drive.NotFound)
	}
	return err
}

// checkMountLimit fails with TooManyOpen if the user has maxMounts renamed or hidden mounts
// already. It writes nothing; the caller checks before adding one.
func checkMountLimit(ctx context.Context, tx *sqldb.Tx, user drive.UserID) error {
	var n int
	if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM mounts WHERE user_id = ? AND (name <> '' OR hidden = 1)`, user).Scan(&n); err != nil {
		return err
	}
	if n >= maxMounts {
		return drive.Fail(drive.TooManyOpen, "reason", "mounts", "limit", maxMounts, "sent", n+1)
	}
	return nil
}
