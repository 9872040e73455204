package files

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// FolderTags tell heads, for each folder, whether anything below it has changed.
type FolderTags struct{ f *Files }

// NewFolderTags returns the tags of the folders of f.
func NewFolderTags(f *Files) *FolderTags { return &FolderTags{f} }

// PlaceMark is the mark of a place's top, as somebody sees it.
type PlaceMark struct {
	Top    tree.Mark
	Rights string // changes with what the caller has been given anywhere in the account; empty: it is theirs
}

// Folders returns the marks of folders that the caller has been shown. A node that is no folder, or
// is gone, has none. What the caller reads of a folder after Folders has returned is at least as
// new as its mark says, so that a client that keeps a mark with a listing misses nothing.
func (t *FolderTags) Folders(ctx context.Context, ids []drive.NodeID) (map[drive.NodeID]tree.Mark, error) {
	sums, err := t.f.sums.of(ctx, t.f.opt.DB, ids)
	if err != nil {
		return nil, err
	}
	marks := make(map[drive.NodeID]tree.Mark, len(sums))
	for id, s := range sums {
		marks[id] = s.Mark()
	}
	return marks, nil
}

// Of returns the mark of a place of the caller's; empty: their own drive, which has none.
//
// Errors: NotFound, Forbidden {role, needs} for a place of which the caller may not see what is in
// it.
func (t *FolderTags) Of(ctx context.Context, who drive.Who, place string) (m PlaceMark, err error) {
	if place == "" {
		return PlaceMark{}, nil
	}
	p, n, rest, err := t.f.enterPath(ctx, who, drive.Address{Place: place, Path: drive.Path{}}, access.List)
	if err == nil && len(rest) > 0 { // it has gone between two statements
		err = drive.Fail(drive.NotFound)
	}
	if err != nil {
		return PlaceMark{}, err
	}
	if p.Who.Guest {
		lens, err := t.f.access.Lens(ctx, t.f.opt.DB, p)
		if err != nil {
			return PlaceMark{}, err
		}
		m.Rights = fmt.Sprintf("%x.%s", p.Rights, lens.Sum())
	}
	m.Top, err = t.top(ctx, n)
	return m, err
}

// top returns the mark of a folder, or of a file, which has no other one than itself.
func (t *FolderTags) top(ctx context.Context, n tree.Node) (tree.Mark, error) {
	if !n.IsFolder() {
		return tree.Mark{Seq: n.Seq}, nil
	}
	marks, err := t.Folders(ctx, []drive.NodeID{n.ID})
	return marks[n.ID], err
}

// OfTops is Of for the roots of spaces, and for what is shared with the caller by name: what they
// may not see there is missing. It costs some statements, for however many tops and accounts.
func (t *FolderTags) OfTops(ctx context.Context, who drive.Who, tops []drive.NodeID) (map[drive.NodeID]PlaceMark, error) {
	rights, err := t.Rights(ctx, who, tops)
	if err != nil {
		return nil, err
	}
	accounts := map[drive.AccountID]bool{}
	for _, at := range rights {
		if at.Rights.Has(access.See) {
			accounts[at.Account] = true
		}
	}
	lenses, err := access.LensesOf(ctx, t.f.opt.DB, t.f.access, who.User, slices.Collect(maps.Keys(accounts)))
	if err != nil {
		return nil, err
	}
	hidden := make(map[drive.AccountID]string, len(accounts)) // of many tops of an account it is the same
	for account := range accounts {
		hidden[account] = lenses[account].Sum()
	}
	var seen []drive.NodeID
	marks := make(map[drive.NodeID]PlaceMark, len(tops))
	for _, top := range tops {
		at := rights[top]
		if !accounts[at.Account] || !at.Rights.Has(access.See) {
			continue
		}
		m := PlaceMark{}
		switch {
		case at.Own:
		case at.All: // who has no lens, as in Of
			m.Rights = fmt.Sprintf("%x.", at.Rights)
		default:
			m.Rights = fmt.Sprintf("%x.%s", at.Rights, hidden[at.Account])
		}
		marks[top], seen = m, append(seen, top)
	}
	folders, err := t.Folders(ctx, seen)
	if err != nil {
		return nil, err
	}
	var files []drive.NodeID // which have no sum
	for _, top := range seen {
		m := marks[top]
		if mark, folder := folders[top]; folder {
			m.Top = mark
		} else {
			files = append(files, top)
		}
		marks[top] = m
	}
	nodes, err := tree.ByID(ctx, t.f.opt.Tree, t.f.opt.DB, files...)
	if err != nil {
		return nil, err
	}
	for _, id := range files {
		m := marks[id]
		m.Top = tree.Mark{Seq: nodes[id].Seq}
		marks[id] = m
	}
	return marks, nil
}

// AccountAt returns the account that a place of the caller's is in. Unlike Account it knows that of
// a folder that is shared by name, too.
func (t *FolderTags) AccountAt(ctx context.Context, who drive.Who, place string) (drive.AccountID, error) {
	if place == "" {
		return who.Account, nil
	}
	p, _, _, err := t.f.enterPath(ctx, who, drive.Address{Place: place, Path: drive.Path{}}, access.Upload)
	if drive.IsKind(err, drive.Forbidden) { // a viewer, who has none
		err = nil
	}
	return p.Who.Account, err
}

// numbersAtOnce is how many nodes one transaction numbers.
const numbersAtOnce = 500

// Numbers returns the numbers of nodes that the caller has been shown; those that have none get
// one. A node that has gone meanwhile has none.
func (t *FolderTags) Numbers(ctx context.Context, ids []drive.NodeID) (map[drive.NodeID]int64, error) {
	found, err := t.f.opt.Tree.Numbers(ctx, t.f.opt.DB, ids)
	if err != nil {
		return nil, err
	}
	var missing []drive.NodeID
	for _, id := range ids {
		if found[id] == 0 {
			missing = append(missing, id)
		}
	}
	for some := range slices.Chunk(missing, numbersAtOnce) {
		err := t.f.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return t.f.opt.Tree.Number(ctx, tx, some) })
		if err != nil {
			return nil, err
		}
	}
	if len(missing) == 0 {
		return found, nil
	}
	return t.f.opt.Tree.Numbers(ctx, t.f.opt.DB, ids)
}

// ByNumber returns the node that has a number, as Get does.
func (t *FolderTags) ByNumber(ctx context.Context, who drive.Who, number int64) (NodeView, error) {
	id, err := t.f.opt.Tree.ByNumber(ctx, t.f.opt.DB, number)
	if err != nil {
		return NodeView{}, err
	}
	return t.f.Get(ctx, who, id)
}

// Rights returns what the caller may do at nodes that are not their own.
func (t *FolderTags) Rights(ctx context.Context, who drive.Who, ids []drive.NodeID) (map[drive.NodeID]access.Standing, error) {
	return t.f.opt.Access.RightsOf(ctx, t.f.opt.DB, who, ids)
}
