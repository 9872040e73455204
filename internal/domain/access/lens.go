package access

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Lens is what a guest sees of an account: it tells the nodes of a listing apart. The zero Lens
// sees everything.
type Lens struct {
	a      *Access
	who    drive.Who
	grants map[drive.NodeID][]step
}

// Lens returns what the one whose pass it is sees of the account. One statement for a guest, none
// for the owner and for a manager of a space.
func (a *Access) Lens(ctx context.Context, q sqldb.Querier, p Pass) (Lens, error) {
	if !p.Who.Guest || p.All && p.Space != "" {
		return Lens{}, nil
	}
	all, err := LensesOf(ctx, q, a, p.Who.User, []drive.AccountID{p.Who.Account})
	l := all[p.Who.Account]
	l.who = p.Who
	return l, err
}

// LensesOf are what a guest sees of accounts, those excepted of which Lens says that it is all: one
// statement for every 500.
func LensesOf(ctx context.Context, q sqldb.Querier, a *Access, user drive.UserID, accounts []drive.AccountID) (map[drive.AccountID]Lens, error) {
	type given struct {
		account drive.AccountID
		step
	}
	lenses := make(map[drive.AccountID]Lens, len(accounts))
	for _, id := range accounts {
		lenses[id] = Lens{a: a, who: drive.Who{User: user, Account: id, Guest: true}, grants: map[drive.NodeID][]step{}}
	}
	for some := range slices.Chunk(accounts, manyAtOnce) {
		marks, in := sqldb.In(some)
		rows, err := q.Query(ctx, `WITH `+mine+`
			SELECT g.account_id, g.node_id, g.role, g.expires_at FROM mine JOIN grants g ON g.principal_id = mine.id WHERE g.account_id IN (`+marks+`)`,
			append([]any{user.String(), user.String()}, in...)...)
		all, err := sqldb.Scan(rows, err, func(g *given, scan func(...any) error) error {
			return scan(&g.account, &g.node, &g.role, &g.expires)
		})
		if err != nil {
			return nil, fmt.Errorf("list the grants of %s: %w", user, err)
		}
		for _, g := range all {
			at := lenses[g.account].grants
			at[g.node] = append(at[g.node], g.step)
		}
	}
	return lenses, nil
}

// rights are those that the user's own grants at a node come to; granted is false where there are
// none.
func (l Lens) rights(node drive.NodeID) (r Right, granted bool) {
	now := l.a.now()
	for _, s := range l.grants[node] {
		if s.expires == 0 || s.expires > now {
			r, granted = r|s.role.Rights(), true
		}
	}
	return r, granted
}

// Sum names what the lens has been made of: it is the same for as long as the user's grants in the
// account give the same rights, wherever and whenever they are read. The zero Lens has none.
func (l Lens) Sum() string {
	if l.a == nil {
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

// Narrows reports whether there may be something that the lens hides below a node that it sees, the
// node itself excepted.
func (l Lens) Narrows(node drive.NodeID) bool {
	for id := range l.grants {
		if r, granted := l.rights(id); granted && id != node && !r.Has(See) {
			return true
		}
	}
	return false
}

// Hidden lists the nodes at which the lens goes dark: what lies below one is hidden, too, as far as
// no nearer grant shows it.
func (l Lens) Hidden() []drive.NodeID {
	if l.a == nil {
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

// ShowsChild reports whether a child of a folder that is seen is seen, too.
func (l Lens) ShowsChild(id drive.NodeID) bool {
	if l.a == nil {
		return true
	}
	r, granted := l.rights(id)
	return !granted || r.Has(See)
}

// Spot says how a node is seen.
type Spot struct {
	Seen  bool
	Top   drive.NodeID // see Pass
	Level int
}

// Spots tells which nodes of an account are seen, and from where. One statement, and none where
// nothing is hidden.
func (l Lens) Spots(ctx context.Context, q sqldb.Querier, ids []drive.NodeID) (map[drive.NodeID]Spot, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	args := make([]any, 0, len(ids)+1)
	for _, id := range ids {
		args = append(args, id)
	}
	rows, err := q.Query(ctx, `WITH RECURSIVE up (start, id, parent_id, level) AS (
			SELECT id, id, parent_id, 0 FROM nodes WHERE id IN (`+sqldb.Marks(len(ids))+`)
			UNION ALL
			SELECT up.start, n.id, n.parent_id, up.level + 1 FROM up JOIN nodes n ON n.id = up.parent_id WHERE up.level < ?)
		SELECT start, id, level, parent_id IS NULL FROM up`, append(args, maxClimb)...)
	type link struct {
		start drive.NodeID
		step
	}
	all, err := sqldb.Scan(rows, err, func(s *link, scan func(...any) error) error {
		return scan(&s.start, &s.node, &s.level, &s.root)
	})
	if err != nil {
		return nil, fmt.Errorf("look which of %d nodes are seen: %w", len(ids), err)
	}
	ways := map[drive.NodeID][]step{}
	for _, at := range all {
		for _, g := range l.grants[at.node] {
			g.level, g.root = at.level, at.root
			ways[at.start] = append(ways[at.start], g)
		}
	}
	spots := make(map[drive.NodeID]Spot, len(ids))
	for _, id := range ids {
		sortSteps(ways[id])
		v := decide(ways[id], l.a.now())
		spots[id] = Spot{Seen: v.rights.Has(See), Top: v.top, Level: v.level}
	}
	return spots, nil
}
