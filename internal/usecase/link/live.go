package link

import (
	"context"
	"maps"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// AreUsable reports for each link, by id, whether it may be used (see IsUsable). nodes are the
// links' nodes, read before with tree.ByID and including trashed ones. It takes a few statements
// for all links, plus one check per guest and node.
func (l *Links[I, T, V]) AreUsable(ctx context.Context, q sqldb.Querier, nodes map[drive.NodeID]tree.Node, all []Identity) (map[string]bool, error) {
	spots, err := l.opt.Tree.LocationsOf(ctx, q, slices.Collect(maps.Values(nodes)))
	if err != nil {
		return nil, err
	}
	ids := map[drive.UserID]bool{}
	for _, m := range all {
		ids[m.By] = true
	}
	makers, err := l.opt.Users.FindMany(ctx, q, slices.Collect(maps.Keys(ids))...)
	if err != nil {
		return nil, err
	}
	may := map[Identity]bool{} // keys have no ID
	live := make(map[string]bool, len(all))
	for _, m := range all {
		n, there := nodes[m.Node]
		folder, placed := spots[n.Parent]
		maker := makers[m.By]
		is := there && n.Trashed == 0 && n.Operation.IsZero() && (n.IsRoot() || placed && folder.Trashed == 0) && maker.State == account.Active
		if is && maker.Account != m.Account {
			if is, err = l.mayStill(ctx, q, maker, m, may); err != nil {
				return nil, err
			}
		}
		live[m.ID] = is
	}
	return live, nil
}

// mayStill reports whether a guest who created a link still has the right to. It caches its results
// in known.
func (l *Links[I, T, V]) mayStill(ctx context.Context, q sqldb.Querier, maker account.User, m Identity, known map[Identity]bool) (bool, error) {
	key := m
	key.ID = ""
	if may, asked := known[key]; asked {
		return may, nil
	}
	_, err := l.Authorize(ctx, q, drive.Who{User: m.By, Account: maker.Account}, m.Node)
	if err != nil && !drive.IsKind(err, drive.NotFound, drive.Forbidden) {
		return false, err
	}
	known[key] = err == nil
	return err == nil, nil
}
