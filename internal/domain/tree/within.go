package tree

import (
	"context"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Within returns a live node of the account that is top or below it, and its path relative to top
// (empty: top itself). It fails with NotFound otherwise, so that a node outside of top, or in the
// trash, cannot be told from a missing one.
func (r Reader) Within(ctx context.Context, q sqldb.Querier, account drive.AccountID, top, id drive.NodeID) (Node, drive.Path, error) {
	n, err := r.Find(ctx, q, account, id)
	if err != nil {
		return Node{}, nil, err
	}
	up, err := r.readChain(ctx, q, id)
	if err != nil {
		return Node{}, nil, err
	}
	at := slices.IndexFunc(up, func(l chainNode) bool { return l.id == top })
	if at < 0 || !up.live() || up.owned() {
		return Node{}, nil, drive.Fail(drive.NotFound)
	}
	path := make(drive.Path, 0, at)
	for _, l := range slices.Backward(up[:at]) {
		path = append(path, l.name)
	}
	return n, path, nil
}
