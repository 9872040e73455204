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
}

// manyAtOnce is how many nodes one statement asks for: SQLite takes 32,766 parameters.
const manyAtOnce = 500

// RightsOf returns what somebody may do at nodes of whatever accounts, each of which, or a folder
// above it, is shared by name: what At says of each, by a statement for every 500. A node that is
// missing gives them no right.
func (a *Access) RightsOf(ctx context.Context, q sqldb.Querier, who drive.Who, nodes []drive.NodeID) (map[drive.NodeID]Standing, error) {
	rights := make(map[drive.NodeID]Standing, len(nodes))
	for some := range slices.Chunk(nodes, manyAtOnce) {
		if err := a.rightsOf(ctx, q, who, some, rights); err != nil {
			return nil, fmt.Errorf("look what may be done at %d nodes: %w", len(nodes), err)
		}
	}
	return rights, nil
}

func (a *Access) rightsOf(ctx context.Context, q sqldb.Querier, who drive.Who, nodes []drive.NodeID, rights map[drive.NodeID]Standing) error {
	args := make([]any, 0, len(nodes)+3)
	args = append(args, who.User.String(), who.User.String())
	for _, id := range nodes {
		args = append(args, id)
	}
	rows, err := q.Query(ctx, `WITH RECURSIVE `+mine+`,
		up (start, id, parent_id, account_id, level) AS (
			SELECT id, id, parent_id, account_id, 0 FROM nodes WHERE id IN (`+sqldb.Marks(len(nodes))+`)
			UNION ALL
			SELECT up.start, n.id, n.parent_id, n.account_id, up.level + 1 FROM up JOIN nodes n ON n.id = up.parent_id WHERE up.level < ?)
		SELECT up.start, up.account_id, up.id, up.level, up.parent_id IS NULL AND s.name IS NOT NULL, g.role, g.expires_at,
			COALESCE(s.state, ''), COALESCE(s.outward, '')
		FROM up CROSS JOIN mine CROSS JOIN grants g ON g.node_id = up.id AND g.principal_id = mine.id LEFT JOIN spaces s ON s.account_id = up.account_id
		ORDER BY up.level`, append(args, maxClimb)...)
	type link struct {
		start drive.NodeID
		step
		account drive.AccountID
		state   State
		outward Givers
	}
	all, err := sqldb.Scan(rows, err, func(l *link, scan func(...any) error) error {
		return scan(&l.start, &l.account, &l.node, &l.level, &l.root, &l.role, &l.expires, &l.state, &l.outward)
	})
	if err != nil {
		return err
	}
	steps, last := map[drive.NodeID][]step{}, map[drive.NodeID]link{}
	for _, l := range all {
		steps[l.start], last[l.start] = append(steps[l.start], l.step), l
	}
	for id, some := range steps {
		account := last[id].account
		if !who.Guest && account == who.Account { // and is shared with a group that they are in
			rights[id] = Standing{All, account, true}
			continue
		}
		if r := decide(some, a.now()).within(last[id].state, last[id].outward); r != 0 {
			rights[id] = Standing{r, account, false}
		}
	}
	return nil
}
