package files

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// FolderTags computes change tags, by which heads detect whether anything below a folder has
// changed. It also maps nodes to their numeric ids.
type FolderTags struct{ files *Files }

// NewFolderTags returns the FolderTags of f.
func NewFolderTags(f *Files) *FolderTags { return &FolderTags{f} }

// PlaceTag is the change tag of the top of a space or shared folder, as one user sees it.
type PlaceTag struct {
	Top    tree.ChangeTag
	Rights string // changes with the caller's rights in the account; empty: the caller's own account
}

// Folders returns the change tags of folders by id. Files and missing nodes have no entry. The
// caller must be allowed to see the folders. Data read after Folders returns is at least as new as
// the tag, so a client that stores a tag with a listing misses no change.
func (t *FolderTags) Folders(ctx context.Context, ids []drive.NodeID) (map[drive.NodeID]tree.ChangeTag, error) {
	sums, err := t.files.sums.get(ctx, t.files.opt.DB, ids)
	if err != nil {
		return nil, err
	}
	marks := make(map[drive.NodeID]tree.ChangeTag, len(sums))
	for id, s := range sums {
		marks[id] = s.ChangeTag()
	}
	return marks, nil
}

// Place returns the mark of the space or shared folder named by place. For an empty place (the
// caller's own drive) it returns the zero PlaceTag.
//
// Errors: NotFound; Forbidden {role, needs} if the caller may not list the place.
func (t *FolderTags) Place(ctx context.Context, who drive.Who, place string) (m PlaceTag, err error) {
	if place == "" {
		return PlaceTag{}, nil
	}
	p, n, rest, err := t.files.authorizePath(ctx, who, drive.Address{Place: place, Path: drive.Path{}}, access.List)
	if err == nil && len(rest) > 0 { // deleted between two statements
		err = drive.Fail(drive.NotFound)
	}
	if err != nil {
		return PlaceTag{}, err
	}
	if p.Who.Guest {
		lens, err := t.files.access.Lens(ctx, t.files.opt.DB, p)
		if err != nil {
			return PlaceTag{}, err
		}
		m.Rights = fmt.Sprintf("%x.%s", p.Rights, lens.Digest())
	}
	m.Top, err = t.topMark(ctx, n)
	return m, err
}

// topMark returns the change tag of a folder, which changes with anything below it; of a file, one
// with its own sequence number.
func (t *FolderTags) topMark(ctx context.Context, n tree.Node) (tree.ChangeTag, error) {
	if !n.IsFolder() {
		return tree.ChangeTag{Seq: n.Seq}, nil
	}
	marks, err := t.Folders(ctx, []drive.NodeID{n.ID})
	return marks[n.ID], err
}

// Tops returns the change tags of space roots and shared nodes by id. Nodes that the caller may not
// see are missing. It costs a constant number of statements.
func (t *FolderTags) Tops(ctx context.Context, who drive.Who, tops []drive.NodeID) (map[drive.NodeID]PlaceTag, error) {
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
	lenses, err := access.LensesOf(ctx, t.files.opt.DB, t.files.access, who.User, slices.Collect(maps.Keys(accounts)))
	if err != nil {
		return nil, err
	}
	hidden := make(map[drive.AccountID]string, len(accounts)) // computed once per account
	for account := range accounts {
		hidden[account] = lenses[account].Digest()
	}
	var visible []drive.NodeID
	marks := make(map[drive.NodeID]PlaceTag, len(tops))
	for _, top := range tops {
		at := rights[top]
		if !accounts[at.Account] || !at.Rights.Has(access.See) {
			continue
		}
		m := PlaceTag{}
		switch {
		case at.Own:
		case at.All: // a space manager sees everything, so there is no lens, as in Place
			m.Rights = fmt.Sprintf("%x.", at.Rights)
		default:
			m.Rights = fmt.Sprintf("%x.%s", at.Rights, hidden[at.Account])
		}
		marks[top], visible = m, append(visible, top)
	}
	folders, err := t.Folders(ctx, visible)
	if err != nil {
		return nil, err
	}
	var files []drive.NodeID // files have no sum
	for _, top := range visible {
		m := marks[top]
		if mark, folder := folders[top]; folder {
			m.Top = mark
		} else {
			files = append(files, top)
		}
		marks[top] = m
	}
	nodes, err := tree.ByID(ctx, t.files.opt.Tree, t.files.opt.DB, files...)
	if err != nil {
		return nil, err
	}
	for _, id := range files {
		m := marks[id]
		m.Top = tree.ChangeTag{Seq: nodes[id].Seq}
		marks[id] = m
	}
	return marks, nil
}

// AccountAt returns the account that contains a space or shared folder; for an empty place, the
// caller's account. Unlike Files.Account it accepts shared folders.
func (t *FolderTags) AccountAt(ctx context.Context, who drive.Who, place string) (drive.AccountID, error) {
	if place == "" {
		return who.Account, nil
	}
	p, _, _, err := t.files.authorizePath(ctx, who, drive.Address{Place: place, Path: drive.Path{}}, access.Upload)
	if drive.IsKind(err, drive.Forbidden) { // a viewer lacks the right and may still know the account
		err = nil
	}
	return p.Who.Account, err
}

// nodesPerStatement is how many nodes one transaction numbers, or one statement reads.
const nodesPerStatement = 500

// Numbers returns the numeric ids of nodes by node id and assigns missing ones. The caller must be
// allowed to see the nodes. A node deleted meanwhile has no entry.
func (t *FolderTags) Numbers(ctx context.Context, ids []drive.NodeID) (map[drive.NodeID]int64, error) {
	found, err := t.files.opt.Tree.Numbers(ctx, t.files.opt.DB, ids)
	if err != nil {
		return nil, err
	}
	var missing []drive.NodeID
	for _, id := range ids {
		if found[id] == 0 {
			missing = append(missing, id)
		}
	}
	for some := range slices.Chunk(missing, nodesPerStatement) {
		err := t.files.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return t.files.opt.Tree.Number(ctx, tx, some) })
		if err != nil {
			return nil, err
		}
	}
	if len(missing) == 0 {
		return found, nil
	}
	return t.files.opt.Tree.Numbers(ctx, t.files.opt.DB, ids)
}

// ByNumber returns the live or trashed node with a numeric id, as WebDAV clients use them. It
// returns NotFound for an unknown number and for a node that the caller may not see.
func (t *FolderTags) ByNumber(ctx context.Context, who drive.Who, number int64) (NodeView, error) {
	id, err := t.files.opt.Tree.ByNumber(ctx, t.files.opt.DB, number)
	if err != nil {
		return NodeView{}, err
	}
	return t.files.Get(ctx, who, id)
}

// Rights returns the caller's rights at nodes of other accounts, by node id. Nodes without rights
// are absent.
func (t *FolderTags) Rights(ctx context.Context, who drive.Who, ids []drive.NodeID) (map[drive.NodeID]access.NodeRights, error) {
	return t.files.opt.Access.RightsOf(ctx, t.files.opt.DB, who, ids)
}
