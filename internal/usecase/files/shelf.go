package files

import (
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/star"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// Shelf is what a user reaches for: the nodes that they have starred, wherever these are, and the
// files of their drive that have changed last.
type Shelf struct {
	files *Files
	stars *star.Stars
}

// NewShelf returns a Shelf.
func NewShelf(f *Files, stars *star.Stars) *Shelf { return &Shelf{f, stars} }

// Star stars a node that the caller may see; NotFound for any other one. Repeating it changes
// nothing.
func (s *Shelf) Star(ctx context.Context, who drive.Who, id drive.NodeID) error {
	if _, err := s.files.Get(ctx, who, id); err != nil {
		return err
	}
	return s.stars.Add(ctx, who.User, id)
}

// Unstar takes a star away, also of what the caller may not see any more. Without a star it is an
// error only where there is nothing for the caller: NotFound.
func (s *Shelf) Unstar(ctx context.Context, who drive.Who, id drive.NodeID) error {
	removed, err := s.stars.Remove(ctx, who.User, id)
	if err == nil && !removed {
		_, err = s.files.Get(ctx, who, id)
	}
	return err
}

// StarredIDs lists the ids of what the caller has starred, the newest star first.
func (s *Shelf) StarredIDs(ctx context.Context, who drive.Who) ([]drive.NodeID, error) {
	return s.stars.IDs(ctx, s.files.opt.DB.For(who.Account), who.User)
}

// Starred lists what the caller has starred and may see, the newest star first. What lies in the
// trash is left out, so that a page may be short and yet have a next one.
func (s *Shelf) Starred(ctx context.Context, who drive.Who, cursor string, limit int) (Page[NodeView], error) {
	limit, err := tree.CheckLimit(limit)
	if err != nil {
		return Page[NodeView]{}, err
	}
	q := s.files.opt.DB.For(who.Account)
	ids, next, err := s.stars.List(ctx, q, who.User, cursor, limit)
	if err != nil {
		return Page[NodeView]{}, err
	}
	views, err := s.show(ctx, q, who, ids)
	if err != nil {
		return Page[NodeView]{}, fmt.Errorf("show what %s has starred: %w", who.User, err)
	}
	items := make([]NodeView, 0, len(ids))
	for _, id := range ids {
		if v, seen := views[id]; seen && v.TrashedAt == nil {
			items = append(items, v)
		}
	}
	return pageOf(items, next), nil
}

// show finds the nodes that the caller sees now. Their own cost a few statements together, another
// account's one for access each.
func (s *Shelf) show(ctx context.Context, q sqldb.Querier, who drive.Who, ids []drive.NodeID) (map[drive.NodeID]NodeView, error) {
	nodes, err := tree.ByID(ctx, s.files.opt.Tree, q, ids...)
	if err != nil {
		return nil, err
	}
	var own []tree.Node
	var others []drive.NodeID
	for id, n := range nodes {
		switch {
		case !n.Operation.IsZero():
		case n.Account == who.Account:
			own = append(own, n)
		default:
			others = append(others, id)
		}
	}
	views, err := s.files.ViewMany(ctx, q, own, nil)
	for _, id := range others {
		var v NodeView
		if err == nil {
			v, err = s.files.Get(ctx, who, id)
		}
		switch {
		case err == nil:
			views[id] = v
		case drive.IsKind(err, drive.NotFound, drive.Forbidden): // taken away, or to send to and not to look at
			err = nil
		}
	}
	return views, err
}

// Recent lists the files of the caller's drive by when they changed, the last one first.
func (s *Shelf) Recent(ctx context.Context, who drive.Who, cursor string, limit int) (Page[NodeView], error) {
	q := s.files.opt.DB.For(who.Account)
	page, err := s.files.opt.Tree.Recent(ctx, q, who.Account, cursor, limit)
	if err != nil {
		return Page[NodeView]{}, err
	}
	return s.files.viewer(q).as(access.Pass{Who: who, Rights: access.All}).seen(ctx, page)
}
