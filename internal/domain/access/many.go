package access

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Standing is what somebody may do at a node, and whose it is.
type Standing struct {
	Rights  Right
	Account drive.AccountID
	Own     bool // it is in their own drive
	All     bool // of a manager of the space: no grant narrows it, see Pass.All
}

// manyAtOnce is how many nodes one statement asks for: SQLite takes 32,766 parameters.
const manyAtOnce = 500

// RightsOf returns what somebody may do at nodes of whatever accounts, each of which, or a folder
// above it, is shared by name: what At says of each, by a statement for every 500. A node that is
// missing gives them no right.
func (a *Access) RightsOf(ctx context.Context, q sqldb.Querier, who drive.Who, nodes []drive.NodeID) (map[drive.NodeID]Standing, error) {
	rights := make(map[drive.NodeID]Standing, len(nodes))
	for some := range slices.Chunk(nodes, manyAtOnce) {
		if err := (many{q, a.now()}).rights(ctx, who, some, rights); err != nil {
			return nil, fmt.Errorf("look what may be done at %d nodes: %w", len(nodes), err)
		}
	}
	return rights, nil
}

// many answers questions about many nodes.
type many struct {
	q   sqldb.Querier
	now drive.Time
}

func (m many) rights(ctx context.Context, who drive.Who, nodes []drive.NodeID, rights map[drive.NodeID]Standing) error {
	ways, err := m.ways(ctx, map[drive.UserID][]drive.NodeID{who.User: nodes})
	for claim, w := range ways {
		id := claim.Node
		if !who.Guest && w.account == who.Account { // and is shared with a group that they are in
			rights[id] = Standing{Rights: All, Account: w.account, Own: true}
			continue
		}
		v := decide(w.steps, m.now)
		if r := v.within(w); r != 0 {
			rights[id] = Standing{Rights: r, Account: w.account, All: v.all}
		}
	}
	return err
}

// PassesOf returns what somebody may do at nodes of whatever accounts: what At says of each, by two
// statements for every 500. A node that is missing gives them no right.
func (a *Access) PassesOf(ctx context.Context, q sqldb.Querier, who drive.Who, nodes []drive.NodeID) (map[drive.NodeID]Pass, error) {
	passes := make(map[drive.NodeID]Pass, len(nodes))
	for some := range slices.Chunk(nodes, manyAtOnce) {
		if err := (many{q, a.now()}).passes(ctx, who, some, passes); err != nil {
			return nil, fmt.Errorf("look what may be done at %d nodes: %w", len(nodes), err)
		}
	}
	return passes, nil
}

func (m many) passes(ctx context.Context, who drive.Who, nodes []drive.NodeID, passes map[drive.NodeID]Pass) error {
	ways, err := m.ways(ctx, map[drive.UserID][]drive.NodeID{who.User: nodes})
	if err != nil {
		return err
	}
	for claim, w := range ways {
		p := Pass{Who: who, Node: claim.Node}
		if w.admit(&p, m.now) {
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
	marks, in := sqldb.In(nodes)
	// Not "AND account_id = ?": SQLite would go through all nodes of the account.
	rows, err := m.q.Query(ctx, "SELECT id, account_id FROM nodes WHERE id IN ("+marks+")", in...)
	all, err := sqldb.Scan(rows, err, func(p *place, scan func(...any) error) error { return scan(&p.node, &p.account) })
	for _, p := range all {
		if p.account == who.Account {
			passes[p.node] = Pass{Who: who, Node: p.node, Rights: All}
		}
	}
	return err
}

// Claim is a user and a node, about which Entitled is asked.
type Claim struct {
	User drive.UserID
	Node drive.NodeID
}

// claimsAtOnce is how many claims one statement asks for, each perhaps of another user: SQLite
// takes 500 terms in a compound SELECT.
const claimsAtOnce = 200

// Entitled returns the claims whose users may use their nodes by a grant, as Enter would let them:
// one statement for every 200. A user's own drive is not looked at.
func Entitled(ctx context.Context, a *Access, q sqldb.Querier, claims []Claim, use Use) (map[Claim]bool, error) {
	entitled := make(map[Claim]bool, len(claims))
	for some := range slices.Chunk(claims, claimsAtOnce) {
		of := map[drive.UserID][]drive.NodeID{}
		for _, c := range some {
			of[c.User] = append(of[c.User], c.Node)
		}
		now := a.now()
		ways, err := many{q, now}.ways(ctx, of)
		if err != nil {
			return nil, fmt.Errorf("look what users may do at %d nodes: %w", len(claims), err)
		}
		for c, w := range ways {
			entitled[c] = decide(w.steps, now).within(w).Has(use.Needs())
		}
	}
	return entitled, nil
}

// ways reads the grants of users at nodes and above them. A node without any gives no right.
func (m many) ways(ctx context.Context, of map[drive.UserID][]drive.NodeID) (map[Claim]way, error) {
	var users, at []any
	var starts []string
	for user, nodes := range of {
		marks, in := sqldb.In(nodes)
		users, at = append(users, user.String()), append(append(at, user.String()), in...)
		starts = append(starts, `SELECT u.id, n.id, n.id, n.parent_id, n.account_id, n.trashed_at > 0, 0 FROM users u CROSS JOIN nodes n
			WHERE u.id = ? AND n.id IN (`+marks+`)`)
	}
	args := slices.Concat(users, users, at, []any{maxClimb})
	rows, err := m.q.Query(ctx, `WITH RECURSIVE mine (user_id, id) AS (
			SELECT id, id FROM users WHERE id IN (`+sqldb.Marks(len(users))+`)
			UNION ALL SELECT user_id, group_id FROM group_members WHERE user_id IN (`+sqldb.Marks(len(users))+`)),
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
		Claim
		step
		way way // without its steps
	}
	all, err := sqldb.Scan(rows, err, func(l *link, scan func(...any) error) error {
		w := &l.way
		return scan(&l.User, &l.Node, &w.account, &l.node, &l.level, &w.trashed, &l.root, &l.role, &l.expires, &w.space, &w.state, &w.links, &w.outward)
	})
	ways := map[Claim]way{}
	for _, l := range all {
		so := ways[l.Claim]
		if l.way.steps = so.steps; l.role != "" {
			l.way.steps = append(l.way.steps, l.step)
		}
		l.way.trashed = l.way.trashed || so.trashed
		ways[l.Claim] = l.way
	}
	return ways, err
}
