package access

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Lens filters the nodes of an account by what a guest may see. The zero Lens shows everything.
type Lens struct {
	access *Access
	who    drive.Who
	grants map[drive.NodeID][]grantStep // of the user, by node
}

// Lens returns the lens of a pass. It costs one statement for a guest and none for the owner or a
// manager of the space, who see everything.
func (a *Access) Lens(ctx context.Context, q sqldb.Querier, p Pass) (Lens, error) {
	if !p.Who.Guest || p.All && p.Space != "" {
		return Lens{}, nil
	}
	all, err := LensesOf(ctx, q, a, p.Who.User, []drive.AccountID{p.Who.Account})
	l := all[p.Who.Account]
	l.who = p.Who
	return l, err
}

// LensesOf returns a guest's lenses by account, with one statement per 500 accounts. Do not call it
// for accounts of which the user sees everything.
func LensesOf(ctx context.Context, q sqldb.Querier, a *Access, user drive.UserID, accounts []drive.AccountID) (map[drive.AccountID]Lens, error) {
	type accountGrant struct {
		account drive.AccountID
		grantStep
	}
	lenses := make(map[drive.AccountID]Lens, len(accounts))
	for _, id := range accounts {
		lenses[id] = Lens{access: a, who: drive.Who{User: user, Account: id, Guest: true}, grants: map[drive.NodeID][]grantStep{}}
	}
	for some := range slices.Chunk(accounts, nodesPerStatement) {
		marks, in := sqldb.ListArgs(some)
		rows, err := q.Query(ctx, `WITH `+mineCTE+`
			SELECT g.account_id, g.node_id, g.role, g.expires_at FROM mine JOIN grants g ON g.principal_id = mine.id WHERE g.account_id IN (`+marks+`)`,
			append([]any{user.String(), user.String()}, in...)...)
		all, err := sqldb.Scan(rows, err, func(g *accountGrant, scan func(...any) error) error {
			return scan(&g.account, &g.node, &g.role, &g.expires)
		})
		if err != nil {
			return nil, fmt.Errorf("list the grants of %s: %w", user, err)
		}
		for _, g := range all {
			at := lenses[g.account].grants
			at[g.node] = append(at[g.node], g.grantStep)
		}
	}
	return lenses, nil
}

// rights returns the rights that the grants of the user and the user's groups at a node give;
// granted is false if there are none.
func (l Lens) rights(node drive.NodeID) (r Right, granted bool) {
	now := l.access.now()
	for _, s := range l.grants[node] {
		if s.expires == 0 || s.expires > now {
			r, granted = r|s.role.Rights(), true
		}
	}
	return r, granted
}

// Digest returns a hash of the lens that changes when the user's effective grants in the account
// change. It is the same in every process; "" for the zero Lens.
func (l Lens) Digest() string {
	if l.access == nil {
		return ""
	}
	sum := sha256.New()
	for _, id := range slices.SortedFunc(maps.Keys(l.grants), func(a, b drive.NodeID) int { return strings.Compare(a.String(), b.String()) }) {
		if r, granted := l.rights(id); granted {
			fmt.Fprintf(sum, "%s %x\n", id, r)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// MayHideBelow reports whether a grant at some other node than this takes the right See away, so
// that a node below a visible one may be invisible. It does not check where that node is, so true
// means only that the caller must filter.
func (l Lens) MayHideBelow(node drive.NodeID) bool {
	for id := range l.grants {
		if r, granted := l.rights(id); granted && id != node && !r.Has(See) {
			return true
		}
	}
	return false
}

// Hidden returns the nodes whose grants deny access. Their descendants are hidden, too, unless a
// nearer grant shows them.
func (l Lens) Hidden() []drive.NodeID {
	if l.access == nil {
		return nil
	}
	var dark []drive.NodeID
	for id := range l.grants {
		if r, granted := l.rights(id); granted && !r.Has(See) {
			dark = append(dark, id)
		}
	}
	return dark
}

// ShowsChild reports whether a child of a folder is visible. The caller must know that the folder
// itself is: the child is visible unless a grant at the child takes the right See away.
func (l Lens) ShowsChild(id drive.NodeID) bool {
	if l.access == nil {
		return true
	}
	r, granted := l.rights(id)
	return !granted || r.Has(See)
}

// Visibility tells whether a node is visible, and from which top.
type Visibility struct {
	Seen  bool         // the node is visible
	Top   drive.NodeID // see Pass
	Level int          // of Top, in levels above the node
}

// Visibilities returns, by id, which nodes of the account are visible, and from where. Every id has
// an entry; a node that does not exist is not visible. It costs one statement; without ids it
// returns nil.
func (l Lens) Visibilities(ctx context.Context, q sqldb.Querier, ids []drive.NodeID) (map[drive.NodeID]Visibility, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	args := make([]any, 0, len(ids)+1)
	for _, id := range ids {
		args = append(args, id)
	}
	rows, err := q.Query(ctx, `WITH RECURSIVE up (start, id, parent_id, level) AS (
			SELECT id, id, parent_id, 0 FROM nodes WHERE id IN (`+sqldb.Placeholders(len(ids))+`)
			UNION ALL
			SELECT up.start, n.id, n.parent_id, up.level + 1 FROM up JOIN nodes n ON n.id = up.parent_id WHERE up.level < ?)
		SELECT start, id, level, parent_id IS NULL FROM up`, append(args, maxLevels)...)
	type link struct {
		start drive.NodeID
		grantStep
	}
	all, err := sqldb.Scan(rows, err, func(s *link, scan func(...any) error) error {
		return scan(&s.start, &s.node, &s.level, &s.atRoot)
	})
	if err != nil {
		return nil, fmt.Errorf("look which of %d nodes are seen: %w", len(ids), err)
	}
	stepsOf := map[drive.NodeID][]grantStep{}
	for _, at := range all {
		for _, g := range l.grants[at.node] {
			g.level, g.atRoot = at.level, at.atRoot
			stepsOf[at.start] = append(stepsOf[at.start], g)
		}
	}
	spots := make(map[drive.NodeID]Visibility, len(ids))
	for _, id := range ids {
		sortByLevel(stepsOf[id])
		v := decide(stepsOf[id], l.access.now())
		spots[id] = Visibility{Seen: v.rights.Has(See), Top: v.top, Level: v.level}
	}
	return spots, nil
}
