package access

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// NodeRights is a user's rights at a node, and the node's account.
type NodeRights struct {
	Rights  Right
	Account drive.AccountID
	Own     bool // the node is in the user's own drive
	All     bool // the user manages the space, so no grant narrows the rights; see Pass.All
}

// nodesPerStatement is how many nodes one statement asks for; SQLite takes 32,766 parameters.
const nodesPerStatement = 500

// RightsOf returns a user's rights at nodes shared by name or below such nodes, of any accounts, by
// id. It costs one statement per 500 nodes. Nodes without any right have no entry.
func (a *Access) RightsOf(ctx context.Context, q sqldb.Querier, who drive.Who, nodes []drive.NodeID) (map[drive.NodeID]NodeRights, error) {
	rights := make(map[drive.NodeID]NodeRights, len(nodes))
	for some := range slices.Chunk(nodes, nodesPerStatement) {
		if err := (batch{q, a.now()}).addRights(ctx, who, some, rights); err != nil {
			return nil, fmt.Errorf("look what may be done at %d nodes: %w", len(nodes), err)
		}
	}
	return rights, nil
}

// batch resolves rights at many nodes at one time.
type batch struct {
	q   sqldb.Querier
	now drive.Time
}

// addRights adds the user's rights at the nodes to the map rights. Nodes at which the user has no
// rights, and missing ones, get no entry.
func (b batch) addRights(ctx context.Context, who drive.Who, nodes []drive.NodeID, rights map[drive.NodeID]NodeRights) error {
	paths, err := b.readPaths(ctx, map[drive.UserID][]drive.NodeID{who.User: nodes})
	for claim, path := range paths {
		id := claim.Node
		if !who.Guest && path.account == who.Account { // own, although also shared with one of the user's groups
			rights[id] = NodeRights{Rights: All, Account: path.account, Own: true}
			continue
		}
		v := decide(path.steps, b.now)
		if r := v.narrowed(path); r != 0 {
			rights[id] = NodeRights{Rights: r, Account: path.account, All: v.all}
		}
	}
	return err
}

// PassesOf returns the user's passes at nodes of any accounts, by node id. It costs two statements
// per 500 nodes. Nodes without any right have no entry.
func (a *Access) PassesOf(ctx context.Context, q sqldb.Querier, who drive.Who, nodes []drive.NodeID) (map[drive.NodeID]Pass, error) {
	passes := make(map[drive.NodeID]Pass, len(nodes))
	for some := range slices.Chunk(nodes, nodesPerStatement) {
		if err := (batch{q, a.now()}).addPasses(ctx, who, some, passes); err != nil {
			return nil, fmt.Errorf("look what may be done at %d nodes: %w", len(nodes), err)
		}
	}
	return passes, nil
}

// addPasses adds the user's passes at the nodes to the map passes; the own account's nodes get all
// rights unless who is a guest. Nodes that the user may not use, and missing ones, get no entry.
func (b batch) addPasses(ctx context.Context, who drive.Who, nodes []drive.NodeID, passes map[drive.NodeID]Pass) error {
	paths, err := b.readPaths(ctx, map[drive.UserID][]drive.NodeID{who.User: nodes})
	if err != nil {
		return err
	}
	for claim, path := range paths {
		p := Pass{Who: who, Node: claim.Node}
		if path.apply(&p, b.now) {
			passes[claim.Node] = p
		}
	}
	if who.Guest {
		return nil
	}
	type place struct {
		node    drive.NodeID
		account drive.AccountID
	}
	marks, in := sqldb.ListArgs(nodes)
	// Without "AND account_id = ?", with which SQLite reads all nodes of the account.
	rows, err := b.q.Query(ctx, "SELECT id, account_id FROM nodes WHERE id IN ("+marks+")", in...)
	all, err := sqldb.Scan(rows, err, func(p *place, scan func(...any) error) error { return scan(&p.node, &p.account) })
	for _, p := range all {
		if p.account == who.Account {
			passes[p.node] = Pass{Who: who, Node: p.node, Rights: All}
		}
	}
	return err
}

// UserNode is a user and a node that Entitled checks.
type UserNode struct {
	User drive.UserID
	Node drive.NodeID
}

// claimsPerStatement is how many claims one statement checks, each possibly of another user; SQLite
// takes 500 terms in a compound SELECT.
const claimsPerStatement = 200

// Entitled returns the claims whose users have the right for use by a grant, as in Enter. It costs
// one statement per 200 claims. It does not consider that a user owns a node.
func Entitled(ctx context.Context, a *Access, q sqldb.Querier, claims []UserNode, use Use) (map[UserNode]bool, error) {
	entitled := make(map[UserNode]bool, len(claims))
	for some := range slices.Chunk(claims, claimsPerStatement) {
		of := map[drive.UserID][]drive.NodeID{}
		for _, c := range some {
			of[c.User] = append(of[c.User], c.Node)
		}
		now := a.now()
		paths, err := batch{q, now}.readPaths(ctx, of)
		if err != nil {
			return nil, fmt.Errorf("look what users may do at %d nodes: %w", len(claims), err)
		}
		for c, path := range paths {
			entitled[c] = decide(path.steps, now).narrowed(path).Has(use.Needs())
		}
	}
	return entitled, nil
}

// readPaths reads the grants of users at nodes and above them, by claim. A node without grants has
// no entry.
func (b batch) readPaths(ctx context.Context, of map[drive.UserID][]drive.NodeID) (map[UserNode]grantPath, error) {
	var users, at []any
	var starts []string
	for user, nodes := range of {
		marks, in := sqldb.ListArgs(nodes)
		users, at = append(users, user.String()), append(append(at, user.String()), in...)
		starts = append(starts, `SELECT u.id, n.id, n.id, n.parent_id, n.account_id, n.trashed_at > 0, 0 FROM users u CROSS JOIN nodes n
			WHERE u.id = ? AND n.id IN (`+marks+`)`)
	}
	args := slices.Concat(users, users, at, []any{maxLevels})
	rows, err := b.q.Query(ctx, `WITH RECURSIVE mine (user_id, id) AS (
			SELECT id, id FROM users WHERE id IN (`+sqldb.Placeholders(len(users))+`)
			UNION ALL SELECT user_id, group_id FROM group_members WHERE user_id IN (`+sqldb.Placeholders(len(users))+`)),
		up (user_id, start, id, parent_id, account_id, trashed, level) AS (
			`+strings.Join(starts, " UNION ALL ")+`
			UNION ALL
			SELECT up.user_id, up.start, n.id, n.parent_id, n.account_id, n.trashed_at > 0, up.level + 1
			FROM up JOIN nodes n ON n.id = up.parent_id WHERE up.level < ?)
		SELECT up.user_id, up.start, up.account_id, up.id, up.level, up.trashed, up.parent_id IS NULL AND s.name IS NOT NULL, COALESCE(g.role, ''),
			COALESCE(g.expires_at, 0), COALESCE(s.name, ''), COALESCE(s.state, ''), COALESCE(s.links, ''), COALESCE(s.outward, '')
		FROM up CROSS JOIN mine ON mine.user_id = up.user_id LEFT JOIN grants g ON g.node_id = up.id AND g.principal_id = mine.id
		LEFT JOIN spaces s ON s.account_id = up.account_id
		WHERE g.role IS NOT NULL OR up.trashed ORDER BY up.level`, args...)
	type link struct {
		UserNode
		grantStep
		way grantPath // without steps
	}
	all, err := sqldb.Scan(rows, err, func(l *link, scan func(...any) error) error {
		w := &l.way
		return scan(&l.User, &l.Node, &w.account, &l.node, &l.level, &w.trashed, &l.atRoot, &l.role, &l.expires, &w.space, &w.state, &w.links, &w.outward)
	})
	paths := map[UserNode]grantPath{}
	for _, l := range all {
		so := paths[l.UserNode]
		if l.way.steps = so.steps; l.role != "" {
			l.way.steps = append(l.way.steps, l.grantStep)
		}
		l.way.trashed = l.way.trashed || so.trashed
		paths[l.UserNode] = l.way
	}
	return paths, err
}
