package files

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/singleflight"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// FolderTags tell heads, for each folder of an account, whether anything below it has changed. They
// are remembered until something changes in the account, however many clients ask meanwhile.
type FolderTags struct {
	f      *Files
	flight singleflight.Group

	mu      sync.Mutex
	known   map[drive.AccountID]*accountMarks
	folders int // of all accounts
}

type accountMarks struct {
	seq int64
	of  map[drive.NodeID]tree.Mark
}

// maxMarked is how many folders are remembered, some 100 bytes each.
const maxMarked = 500_000

// NewFolderTags returns the tags of the folders of f.
func NewFolderTags(f *Files) *FolderTags {
	return &FolderTags{f: f, known: map[drive.AccountID]*accountMarks{}}
}

// FolderMarks are those of the folders of an account, as somebody sees it from a place.
type FolderMarks struct {
	Of     map[drive.NodeID]tree.Mark
	Top    tree.Mark // of the place itself
	Rights string    // changes with what the caller has been given anywhere in the account; empty: it is theirs
}

// Of returns the marks of the folders of the account that a place of the caller's is in; empty:
// their own. What the caller reads of the account after Of has returned is at least as new as the
// marks say, so that a client that keeps a mark with a listing misses nothing.
//
// Errors: NotFound, Forbidden {role, needs} for a place of which the caller may not see what is in
// it.
func (t *FolderTags) Of(ctx context.Context, who drive.Who, place string) (m FolderMarks, err error) {
	if place == "" {
		m.Of, err = t.marks(ctx, who.Account)
		return m, err
	}
	p, n, rest, err := t.f.enterPath(ctx, who, drive.Address{Place: place, Path: drive.Path{}}, access.List)
	if err == nil && len(rest) > 0 { // it has gone between two statements
		err = drive.Fail(drive.NotFound)
	}
	if err != nil {
		return FolderMarks{}, err
	}
	if p.Who.Guest {
		lens, err := t.f.access.Lens(ctx, t.f.opt.DB, p)
		if err != nil {
			return FolderMarks{}, err
		}
		m.Rights = fmt.Sprintf("%x.%s", p.Rights, lens.Sum())
	}
	if m.Of, err = t.marks(ctx, p.Who.Account); err != nil {
		return FolderMarks{}, err
	}
	var folder bool
	if m.Top, folder = m.Of[n.ID]; !folder {
		m.Top = tree.Mark{Seq: n.Seq}
	}
	return m, nil
}

// OfTops is Of for the roots of spaces, and for what is shared with the caller by name: what they
// may not see there is missing. It costs some statements, for however many tops and accounts.
func (t *FolderTags) OfTops(ctx context.Context, who drive.Who, tops []drive.NodeID) (map[drive.NodeID]FolderMarks, error) {
	rights, err := t.Rights(ctx, who, tops)
	if err != nil {
		return nil, err
	}
	all, err := t.accountsOf(ctx, who, rights)
	if err != nil {
		return nil, err
	}
	var files []drive.NodeID // they have no mark
	marks := map[drive.NodeID]FolderMarks{}
	for _, top := range tops {
		at := rights[top]
		account, there := all[at.Account]
		if !there || !at.Rights.Has(access.See) {
			continue
		}
		m := FolderMarks{Of: account.of}
		switch {
		case at.Own:
		case at.All: // who has no lens, as in Of
			m.Rights = fmt.Sprintf("%x.", at.Rights)
		default:
			m.Rights = fmt.Sprintf("%x.%s", at.Rights, account.lens)
		}
		var folder bool
		if m.Top, folder = m.Of[top]; !folder {
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

// seenAccount is what somebody sees of an account.
type seenAccount struct {
	of   map[drive.NodeID]tree.Mark
	lens string
}

// accountsOf reads what the caller sees of the accounts that they have rights in.
func (t *FolderTags) accountsOf(ctx context.Context, who drive.Who, rights map[drive.NodeID]access.Standing) (map[drive.AccountID]seenAccount, error) {
	var ids []drive.AccountID
	for _, at := range rights {
		if at.Rights.Has(access.See) && !slices.Contains(ids, at.Account) {
			ids = append(ids, at.Account)
		}
	}
	db := t.f.opt.DB
	lenses, err := access.LensesOf(ctx, db, t.f.access, who.User, ids)
	if err != nil {
		return nil, err
	}
	seqs, err := t.f.opt.Tree.Seqs(ctx, db, ids)
	if err != nil {
		return nil, err
	}
	all := make(map[drive.AccountID]seenAccount, len(ids))
	for id, seq := range seqs {
		of, err := t.marksAt(ctx, db, id, seq)
		if err != nil {
			return nil, err
		}
		all[id] = seenAccount{of, lenses[id].Sum()}
	}
	return all, nil
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

// marks are those of an account.
func (t *FolderTags) marks(ctx context.Context, account drive.AccountID) (map[drive.NodeID]tree.Mark, error) {
	q := t.f.opt.DB.For(account)
	seq, err := t.f.opt.Tree.Seq(ctx, q, account)
	if err != nil {
		return nil, err
	}
	return t.marksAt(ctx, q, account, seq)
}

// marksAt are those of an account that has come to a number, or to a later one: from where the
// number was read.
func (t *FolderTags) marksAt(ctx context.Context, q sqldb.Querier, account drive.AccountID, seq int64) (map[drive.NodeID]tree.Mark, error) {
	t.mu.Lock()
	known := t.known[account]
	t.mu.Unlock()
	if known != nil && known.seq == seq {
		return known.of, nil
	}
	// Another request that reads just now may have begun before this change.
	made, err, _ := t.flight.Do(fmt.Sprint(account, seq), func() (any, error) {
		of, err := t.f.opt.Tree.Marks(context.WithoutCancel(ctx), q, account)
		if err == nil {
			t.keep(account, &accountMarks{seq, of})
		}
		return of, err
	})
	if err != nil {
		return nil, err
	}
	return made.(map[drive.NodeID]tree.Mark), nil
}

// keep remembers the marks of an account. When there are too many those of some others go,
// whichever they are: were it all of them, one account more than there is room for would have
// everybody's read again in each round of their clients.
func (t *FolderTags) keep(account drive.AccountID, a *accountMarks) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if was := t.known[account]; was != nil {
		t.folders -= len(was.of)
		delete(t.known, account)
	}
	for other, was := range t.known {
		if t.folders+len(a.of) <= maxMarked {
			break
		}
		t.folders -= len(was.of)
		delete(t.known, other)
	}
	t.known[account] = a
	t.folders += len(a.of)
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
