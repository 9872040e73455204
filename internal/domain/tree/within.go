package tree

import (
	"context"
	"slices"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Within returns a live node of the account that is top or lies below it, and its path from there:
// empty is top itself. Anything else is NotFound, so that a node that was moved out of top, or lies
// in the trash, looks like one that never was there.
func (r Reader) Within(ctx context.Context, q sqldb.Querier, account drive.AccountID, top, id drive.NodeID) (Node, drive.Path, error) {
	n, err := r.Find(ctx, q, account, id)
	if err != nil {
		return Node{}, nil, err
	}
	up, err := r.climb(ctx, q, id)
	if err != nil {
		return Node{}, nil, err
	}
	at := slices.IndexFunc(up, func(l link) bool { return l.id == top })
	if at < 0 || !up.live() || up.owned() {
		return Node{}, nil, drive.Fail(drive.NotFound)
	}
	path := make(drive.Path, 0, at)
	for _, l := range slices.Backward(up[:at]) {
		path = append(path, l.name)
	}
	return n, path, nil
}
