package access

import (
	"context"
	"fmt"
	"slices"

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
	ways, err := m.ways(ctx, who, nodes)
	for id, w := range ways {
		if !who.Guest && w.account == who.Account { // and is shared with a group that they are in
			rights[id] = Standing{Rights: All, Account: w.account, Own: true}
			continue
		}
		v := decide(w.steps, m.now)
		if r := v.within(w.state, w.outward); r != 0 {
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
	ways, err := m.ways(ctx, who, nodes)
	if err != nil {
		return err
	}
	for id, w := range ways {
		p := Pass{Who: who, Node: id}
		if w.admit(&p, m.now) {
			passes[id] = p
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

// ways reads the grants at nodes and above them. A node without any is missing.
func (m many) ways(ctx context.Context, who drive.Who, nodes []drive.NodeID) (map[drive.NodeID]way, error) {
	args := make([]any, 0, len(nodes)+3)
	args = append(args, who.User.String(), who.User.String())
	for _, id := range nodes {
		args = append(args, id)
	}
	rows, err := m.q.Query(ctx, `WITH RECURSIVE `+mine+`,
		up (start, id, parent_id, account_id, level) AS (
			SELECT id, id, parent_id, account_id, 0 FROM nodes WHERE id IN (`+sqldb.Marks(len(nodes))+`)
			UNION ALL
			SELECT up.start, n.id, n.parent_id, n.account_id, up.level + 1 FROM up JOIN nodes n ON n.id = up.parent_id WHERE up.level < ?)
		SELECT up.start, up.account_id, up.id, up.level, up.parent_id IS NULL AND s.name IS NOT NULL, g.role, g.expires_at,
			COALESCE(s.name, ''), COALESCE(s.state, ''), COALESCE(s.links, ''), COALESCE(s.outward, '')
		FROM up CROSS JOIN mine CROSS JOIN grants g ON g.node_id = up.id AND g.principal_id = mine.id LEFT JOIN spaces s ON s.account_id = up.account_id
		ORDER BY up.level`, append(args, maxClimb)...)
	type link struct {
		start drive.NodeID
		step
		way way // without its steps
	}
	all, err := sqldb.Scan(rows, err, func(l *link, scan func(...any) error) error {
		w := &l.way
		return scan(&l.start, &w.account, &l.node, &l.level, &l.root, &l.role, &l.expires, &w.space, &w.state, &w.links, &w.outward)
	})
	ways := map[drive.NodeID]way{}
	for _, l := range all {
		l.way.steps = append(ways[l.start].steps, l.step)
		ways[l.start] = l.way
	}
	return ways, err
}
