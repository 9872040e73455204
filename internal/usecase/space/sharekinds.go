package space

import (
	"context"
	"fmt"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// ShareKinds tells how a node is shared.
type ShareKinds struct {
	Users, Groups bool // by name
	Links         bool
}

// nodesPerStatement is how many nodes one statement asks for.
const nodesPerStatement = 500

// ShareKinds returns how nodes are shared, by id, without shares of folders above. Nodes that are
// not shared have no entry. The caller must be allowed to share the nodes. It costs one statement
// per 500 nodes.
func (s *Spaces) ShareKinds(ctx context.Context, nodes []drive.NodeID) (map[drive.NodeID]ShareKinds, error) {
	type row struct {
		node drive.NodeID
		way  string
	}
	ways := map[drive.NodeID]ShareKinds{}
	now := drive.TimeOf(s.opt.Now())
	for some := range slices.Chunk(nodes, nodesPerStatement) {
		marks, ids := sqldb.ListArgs(some)
		args := append(append(append(slices.Clone(ids), now), ids...), now)
		rows, err := s.parts.DB.Query(ctx, `SELECT node_id, kind FROM grants WHERE node_id IN (`+marks+`) AND role <> 'none' AND (expires_at = 0 OR expires_at > ?)
			UNION SELECT node_id, 'link' FROM shares WHERE node_id IN (`+marks+`) AND (expires_at = 0 OR expires_at > ?)`, args...)
		all, err := sqldb.Scan(rows, err, func(r *row, scan func(...any) error) error { return scan(&r.node, &r.way) })
		if err != nil {
			return nil, fmt.Errorf("look how %d nodes are shared: %w", len(nodes), err)
		}
		for _, r := range all {
			w := ways[r.node]
			w.Users, w.Groups, w.Links = w.Users || r.way == "user", w.Groups || r.way == "group", w.Links || r.way == "link"
			ways[r.node] = w
		}
	}
	return ways, nil
}
