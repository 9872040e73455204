package files

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/star"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// QuickAccess lists a user's starred nodes, in any account, and the recently changed files of the
// user's drive.
type QuickAccess struct {
	files *Files
	stars *star.Stars
}

// NewQuickAccess returns the QuickAccess of f.
func NewQuickAccess(f *Files, stars *star.Stars) *QuickAccess { return &QuickAccess{f, stars} }

// Star stars a node for the caller. It returns NotFound unless the caller may see the node.
// Repeating it changes nothing.
func (s *QuickAccess) Star(ctx context.Context, who drive.Who, id drive.NodeID) error {
	if _, err := s.files.Get(ctx, who, id); err != nil {
		return err
	}
	return s.stars.Add(ctx, who.User, id)
}

// Unstar removes a star, even of a node that the caller may no longer see. It fails with NotFound
// if there is neither a star nor a node visible to the caller.
func (s *QuickAccess) Unstar(ctx context.Context, who drive.Who, id drive.NodeID) error {
	removed, err := s.stars.Remove(ctx, who.User, id)
	if err == nil && !removed {
		_, err = s.files.Get(ctx, who, id)
	}
	return err
}

// StarredIDs returns the ids of the nodes that the caller has starred, newest star first. Some may
// be deleted, or no longer visible to the caller.
func (s *QuickAccess) StarredIDs(ctx context.Context, who drive.Who) ([]drive.NodeID, error) {
	return s.stars.IDs(ctx, s.files.opt.DB.For(who.Account), who.User)
}

// Starred lists the caller's starred nodes that are visible and live, newest star first. Because
// others are skipped, a page may be short and still have a next one.
func (s *QuickAccess) Starred(ctx context.Context, who drive.Who, cursor string, limit int) (Page[NodeView], error) {
	limit, err := tree.CheckLimit(limit)
	if err != nil {
		return Page[NodeView]{}, err
	}
	q := s.files.opt.DB.For(who.Account)
	ids, next, err := s.stars.List(ctx, q, who.User, cursor, limit)
	if err != nil {
		return Page[NodeView]{}, err
	}
	views, err := s.viewByID(ctx, q, who, ids)
	if err != nil {
		return Page[NodeView]{}, fmt.Errorf("show what %s has starred: %w", who.User, err)
	}
	items := make([]NodeView, 0, len(ids))
	for _, id := range ids {
		if v, seen := views[id]; seen && v.TrashedAt == nil {
			items = append(items, v)
		}
	}
	return newPage(items, next), nil
}

// viewByID returns the views of the nodes that the caller may see, by id. Nodes of the caller's
// account cost a few statements in total, other nodes one access check each.
func (s *QuickAccess) viewByID(ctx context.Context, q sqldb.Querier, who drive.Who, ids []drive.NodeID) (map[drive.NodeID]NodeView, error) {
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
		case drive.IsKind(err, drive.NotFound, drive.Forbidden): // access has ended, or allows uploads only
			err = nil
		}
	}
	return views, err
}

// Recent returns a page of up to limit files of the caller's drive by modification, newest first.
// cursor is empty for the first page; it returns CursorInvalid for a cursor that it did not return.
func (s *QuickAccess) Recent(ctx context.Context, who drive.Who, cursor string, limit int) (Page[NodeView], error) {
	q := s.files.opt.DB.For(who.Account)
	page, err := s.files.opt.Tree.Recent(ctx, q, who.Account, cursor, limit)
	if err != nil {
		return Page[NodeView]{}, err
	}
	return s.files.builder(q).forPass(access.Pass{Who: who, Rights: access.All}).visiblePage(ctx, page)
}
