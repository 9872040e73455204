package access

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// MaxMountNames bounds the names of mounts stored per user. Further mounts have names that may
// change when others are added or removed.
const MaxMountNames = 10_000

// MountNamesPerTx bounds the names that one call of StoreMountNames stores.
const MountNamesPerTx = 500

// MountName is the stored name under which path-based clients see a mount.
type MountName struct {
	Node    drive.NodeID
	OldName string // stored name as it was read; empty: none
	Name    string // new stored name; empty: delete it
}

// MountNames returns the stored names of a user's mounts by node, including hidden ones and nodes
// no longer shared.
func (a *Access) MountNames(ctx context.Context, q sqldb.Querier, user drive.UserID) (map[drive.NodeID]string, error) {
	rows, err := q.Query(ctx, `SELECT node_id, shown FROM mounts WHERE user_id = ? AND shown <> ''`, user)
	all, err := sqldb.Scan(rows, err, func(k *MountName, scan func(...any) error) error { return scan(&k.Node, &k.Name) })
	if err != nil {
		return nil, fmt.Errorf("list the names that %s has: %w", user, err)
	}
	names := make(map[drive.NodeID]string, len(all))
	for _, k := range all {
		names[k.Node] = k.Name
	}
	return names, nil
}

// ListNamed lists the effective, visible mounts of a user with a stored name. There is at most one,
// unless a stale mount has the same name.
func (a *Access) ListNamed(ctx context.Context, q sqldb.Querier, user drive.UserID, name string) ([]Mount, error) {
	me := user.String()
	rows, err := q.Query(ctx, `WITH `+mineCTE+`, those (node_id) AS (
			SELECT m.node_id FROM mounts m WHERE m.user_id = ? AND m.shown = ? AND m.hidden = 0)
		SELECT `+mountColumns+` FROM those CROSS JOIN mine JOIN grants g ON g.node_id = those.node_id AND g.principal_id = mine.id`+mountJoins+`
		WHERE g.role <> 'none' AND (g.expires_at = 0 OR g.expires_at > ?)
		AND `+givesCondition+` ORDER BY g.node_id`,
		me, me, me, name, me, a.now(), a.now())
	all, err := sqldb.Scan(rows, err, scanMount)
	if err != nil {
		return nil, fmt.Errorf("find what is shared with %s as %q: %w", user, name, err)
	}
	return strongest(all), nil
}

// HasMountNamed reports whether any node shared with a user has one of the folded names, by its
// owner or by the user's alias. It costs one statement.
func HasMountNamed(ctx context.Context, q sqldb.Querier, user drive.UserID, folds ...string) (bool, error) {
	me := user.String()
	marks, args := sqldb.ListArgs(folds)
	rows, err := q.Query(ctx, `WITH `+mineCTE+`
		SELECT COALESCE(m.name, '') FROM mine JOIN grants g ON g.principal_id = mine.id JOIN nodes n ON n.id = g.node_id
		LEFT JOIN mounts m ON m.node_id = g.node_id AND m.user_id = ?
		WHERE m.name <> '' OR n.name_fold IN (`+marks+`)`, append([]any{me, me, me}, args...)...)
	all, err := sqldb.Scan(rows, err, func(alias *string, scan func(...any) error) error { return scan(alias) })
	if err != nil {
		return false, fmt.Errorf("look what of %s is called so: %w", user, err)
	}
	return slices.ContainsFunc(all, func(alias string) bool {
		return alias == "" || slices.Contains(folds, drive.Name(alias).Fold())
	}), nil
}

// StoreMountNames stores the names of up to MountNamesPerTx mounts. A name is only stored if the
// stored one still equals OldName (compare-and-set). If one differs, kept is false and the caller
// must roll back and start over. Nodes no longer shared are skipped. It may be repeated.
func (a *Access) StoreMountNames(ctx context.Context, tx *sqldb.Tx, user drive.UserID, names []MountName) (kept bool, err error) {
	names = slices.SortedFunc(slices.Values(names), func(a, b MountName) int { return strings.Compare(a.Node.String(), b.Node.String()) })
	nodes := make([]drive.NodeID, len(names))
	for i, k := range names {
		nodes[i] = k.Node
	}
	now, err := a.mountsAt(ctx, tx, user, nodes)
	if err != nil {
		return false, fmt.Errorf("name the mounts of %s: %w", user, err)
	}
	var made [][]any
	for _, k := range names {
		m, shared := now[k.Node]
		switch {
		case m.shown == k.Name && (m.exists || k.Name == ""), !shared:
		case m.shown != k.OldName:
			return false, nil
		case m.exists:
			if err = updateShown(ctx, tx, user, k); err != nil {
				return false, fmt.Errorf("name the mount of %s: %w", k.Node, err)
			}
		default:
			made = append(made, []any{k.Node, user, "", 0, a.now(), k.Name})
		}
	}
	err = tx.InsertRows(ctx, `INSERT INTO mounts (node_id, user_id, name, hidden, updated_at, shown)`, made)
	if sqldb.IsDuplicate(err) {
		err = sqldb.Rerun(errConcurrentInsert)
	}
	if err != nil {
		return false, fmt.Errorf("name %d mounts of %s: %w", len(made), user, err)
	}
	return true, nil
}

// updateShown updates the stored name of a mount, or deletes its row if nothing else is in it.
func updateShown(ctx context.Context, tx *sqldb.Tx, user drive.UserID, k MountName) error {
	n, err := tx.Exec(ctx, `UPDATE mounts SET shown = ? WHERE node_id = ? AND user_id = ? AND shown = ?`, k.Name, k.Node, user, k.OldName)
	if err == nil && n == 0 {
		err = sqldb.Rerun(errConcurrentInsert)
	}
	if err == nil && k.Name == "" {
		err = dropUnusedMount(ctx, tx, user, k.Node)
	}
	return err
}

// mountState is the stored state of a mount.
type mountState struct {
	// exists reports whether there is a row.
	exists bool
	shown  string // stored name; empty: none
}

// mountsAt returns the state of the mounts at those nodes that are shared with the user or have a
// mount row, by node id.
func (a *Access) mountsAt(ctx context.Context, tx *sqldb.Tx, user drive.UserID, nodes []drive.NodeID) (map[drive.NodeID]mountState, error) {
	found := make(map[drive.NodeID]mountState, len(nodes))
	if len(nodes) == 0 {
		return found, nil
	}
	marks, args := sqldb.ListArgs(nodes)
	rows, err := tx.Query(ctx, `WITH `+mineCTE+`
		SELECT g.node_id FROM mine CROSS JOIN grants g ON g.node_id IN (`+marks+`) AND g.principal_id = mine.id
		WHERE g.role <> 'none' AND (g.expires_at = 0 OR g.expires_at > ?)`, append(append([]any{user.String(), user.String()}, args...), a.now())...)
	shared, err := sqldb.Scan(rows, err, func(id *drive.NodeID, scan func(...any) error) error { return scan(id) })
	if err != nil {
		return nil, err
	}
	for _, id := range shared {
		found[id] = mountState{}
	}
	rows, err = tx.Query(ctx, `SELECT node_id, shown FROM mounts WHERE user_id = ? AND node_id IN (`+marks+`)`, append([]any{user}, args...)...)
	there, err := sqldb.Scan(rows, err, func(k *MountName, scan func(...any) error) error { return scan(&k.Node, &k.Name) })
	for _, k := range there {
		found[k.Node] = mountState{true, k.Name}
	}
	return found, err
}
