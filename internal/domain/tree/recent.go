package tree

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// recentBatch is how many nodes one statement of Recent reads. maxNodesScanned bounds how many
// nodes one call reads.
const (
	recentBatch     = 500
	maxNodesScanned = 5000
)

// Recent lists the live files of an account by their last change, newest first, along the index of
// the feed. A page may be short, or empty, and still have a Next, because one call reads a bounded
// number of nodes: a million new folders must not make a call slow.
func (r Reader) Recent(ctx context.Context, q sqldb.Querier, account drive.AccountID, cursor string, limit int) (Page, error) {
	limit, err := CheckLimit(limit)
	if err != nil {
		return Page{}, err
	}
	at, err := parseCursor(cursor, "recent/"+account.String(), true)
	if err != nil {
		return Page{}, err
	}
	if !at.started {
		at.Number = 1 << 62
	}
	found, folders := Page{}, folderIndex{}
	for looked := 0; looked < maxNodesScanned; looked += recentBatch {
		nodes, err := r.queryNodes(ctx, q, "WHERE n.account_id = ? AND n.seq < ? ORDER BY n.seq DESC LIMIT ?", account, at.Number, recentBatch)
		if err == nil {
			err = folders.load(ctx, q, nodes)
		}
		if err != nil {
			return Page{}, fmt.Errorf("read what changed last: %w", err)
		}
		for _, n := range nodes {
			if n.IsFolder() || n.Trashed != 0 || !folders.isLive(n.Parent, drive.NodeID{}) {
				continue
			}
			if found.Items = append(found.Items, n); len(found.Items) > limit {
				return at.page(found.Items, limit, func(n Node) (int64, string) { return n.Seq, "" }), nil
			}
		}
		if len(nodes) < recentBatch {
			return found, nil
		}
		at.Number = nodes[len(nodes)-1].Seq
	}
	found.Next = at.String()
	return found, nil
}
