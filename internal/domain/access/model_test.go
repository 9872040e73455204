package access_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/account"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/sqldb/sqldbtest"
	"smartdrive/internal/testkit/depth"
)

// world is a database with people, groups, two personal drives and two spaces, and beside it the
// model: lists that are walked from a node upwards.
type world struct {
	*access.Access
	db     *sqldb.DB
	tree   *tree.Tree
	now    time.Time
	people []drive.Who
	groups []drive.GroupID
	drives []room

	member map[drive.GroupID]map[drive.UserID]bool
	grants []access.Grant
	up     map[drive.NodeID]drive.NodeID // each node's parent; zero: it is a root
	of     map[drive.NodeID]int          // the drive of a node
	nodes  []drive.NodeID
}

// room is an account of the world.
type room struct {
	account drive.AccountID
	root    drive.NodeID
	owner   int // the person; -1: it is a space
	state   access.State
	links   access.Givers // of a space
	outward access.Givers
}

func newWorld(t testing.TB, people, groups int) *world {
	t.Helper()
	db := sqldbtest.Open(t)
	w := &world{
		db: db, now: time.UnixMilli(1_800_000_000_000), member: map[drive.GroupID]map[drive.UserID]bool{},
		up: map[drive.NodeID]drive.NodeID{}, of: map[drive.NodeID]int{},
	}
	clock := func() time.Time { return w.now }
	w.Access, w.tree = access.New(access.Options{DB: db, Now: clock}), tree.New(tree.Options{Now: clock})
	cheap := account.Options{Cost: account.Cost{MemoryKiB: 64, Passes: 1, Threads: 1}}
	users := account.NewUsers(db, account.NewAuth(db, cheap), cheap)
	for i := range people {
		draft, err := users.Draft(t.Context(), fmt.Sprintf("person %d", i), "correct horse battery", false)
		if err != nil {
			t.Fatal(err)
		}
		w.people = append(w.people, drive.Who{User: draft.User().ID, Account: draft.Account()})
		w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := users.Create(ctx, tx, draft)
			return err
		})
	}
	for i := range groups {
		w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			g, err := w.CreateGroup(ctx, tx, fmt.Sprintf("group %d", i))
			w.groups = append(w.groups, g.ID)
			w.member[g.ID] = map[drive.UserID]bool{}
			return err
		})
	}
	for i := range 4 {
		d := room{owner: i, state: access.Active}
		if i >= 2 {
			d.owner, d.account = -1, drive.NewID[drive.AccountID]()
			d.links, d.outward = access.Editors, access.Managers
		} else {
			d.account = w.people[i].Account
		}
		w.write(t, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			if err := users.CreateAccount(ctx, tx, d.account); err != nil {
				return err
			}
			if err := (quota.Ledger{}).Create(ctx, tx, d.account, nil); err != nil {
				return err
			}
			if d.root, err = w.tree.Create(ctx, tx, d.account); err != nil || d.owner >= 0 {
				return err
			}
			_, err = w.CreateSpace(ctx, tx, access.Space{ID: d.account, Root: d.root, Name: fmt.Sprintf("space %d", i)})
			return err
		})
		w.drives = append(w.drives, d)
		w.add(d.root, drive.NodeID{}, i)
	}
	return w
}

func (w *world) add(id, parent drive.NodeID, of int) {
	w.nodes, w.up[id], w.of[id] = append(w.nodes, id), parent, of
}

func (w *world) write(t testing.TB, fn func(context.Context, *sqldb.Tx) error) {
	t.Helper()
	if err := w.db.Write(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

// mine reports whether a grant is one of a person's.
func (w *world) mine(who drive.Who, g access.Grant) bool {
	return g.Principal == drive.PrincipalID(who.User) || w.member[drive.GroupID(g.Principal)][who.User]
}

// may is the model: a list of grants and a walk.
func (w *world) may(who drive.Who, node drive.NodeID) access.Right {
	d := w.drives[w.of[node]]
	if d.account == who.Account {
		return access.All
	}
	if d.state == access.Deleted {
		return 0
	}
	if d.outward == access.Nobody && !w.belongs(who, d) {
		return 0
	}
	rights, decided := access.Right(0), false
	for at := node; ; at = w.up[at] {
		here, any := access.Right(0), false
		for _, g := range w.grants {
			if g.Node != at || !w.mine(who, g) || g.Expires != 0 && g.Expires <= drive.TimeOf(w.now) {
				continue
			}
			any = true
			here |= g.Role.Rights()
			if at == d.root && d.owner < 0 && g.Role == access.Manager {
				return w.readOnly(d, access.All)
			}
		}
		if any && !decided {
			rights, decided = here, true
		}
		if w.up[at].IsZero() {
			return w.readOnly(d, rights)
		}
	}
}

// belongs reports whether a person has a role at the root of a space.
func (w *world) belongs(who drive.Who, d room) bool {
	return slices.ContainsFunc(w.grants, func(g access.Grant) bool { return g.Node == d.root && w.gives(who, g) })
}

// gives reports whether a grant gives a person something, as far as it says itself.
func (w *world) gives(who drive.Who, g access.Grant) bool {
	return w.mine(who, g) && g.Role != access.None && (g.Expires == 0 || g.Expires > drive.TimeOf(w.now))
}

// mayLink is the model of who may give out links.
func (w *world) mayLink(who drive.Who, node drive.NodeID) bool {
	d, rights := w.drives[w.of[node]], w.may(who, node)
	switch {
	case d.account == who.Account || d.links == "" || d.links == access.Editors:
		return rights.Has(access.Change)
	case d.links == access.Managers:
		return rights.Has(access.Manage) && rights.Has(access.Change)
	}
	return false
}

// shared is the model of what is shared with a person by name.
func (w *world) sharedWith(who drive.Who) map[drive.NodeID]string {
	all := map[drive.NodeID]string{}
	for _, g := range w.grants {
		d := w.drives[w.of[g.Node]]
		space := d.owner < 0
		if w.gives(who, g) && !(space && (g.Node == d.root || d.state == access.Deleted || d.outward == access.Nobody && !w.belongs(who, d))) {
			all[g.Node] = ""
		}
	}
	return all
}

// compareAll compares what a person is told of many nodes in one answer.
func (w *world) compareAll(t testing.TB, who drive.Who) {
	t.Helper()
	if d := cmp.Diff(w.sharedWith(who), w.mounts(t, who, false)); d != "" {
		t.Fatalf("what is shared with %v by name (-model +product): %s", who.User, d)
	}
	rights, err := w.RightsOf(t.Context(), w.db, who, w.nodes)
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range w.nodes {
		own := w.drives[w.of[node]].account == who.Account // of which it is not asked
		if want := w.may(who, node); rights[node].Rights != want && !own {
			t.Fatalf("%v may %04b at %v, by many at once, and the model says %04b", who.User, rights[node].Rights, node, want)
		}
	}
}

func (w *world) readOnly(d room, r access.Right) access.Right {
	if d.state == access.Archived {
		return r & access.See
	}
	return r
}

// step does one thing at random.
func (w *world) step(t testing.TB, r *rand.Rand) {
	t.Helper()
	node := w.nodes[r.IntN(len(w.nodes))]
	switch r.IntN(20) {
	case 0, 1, 2:
		w.makeFolder(t, r, node)
	case 3:
		w.moveFolder(t, r, node)
	case 4, 5, 6, 7:
		w.grant(t, r, node)
	case 8, 9:
		w.take(t, r)
	case 10:
		w.join(t, r)
	case 11:
		w.now = w.now.Add(time.Duration(r.IntN(600)) * time.Second)
	case 12:
		w.archive(t, r)
	case 13:
		w.rule(t, r)
	case 14:
		w.compareAll(t, w.people[r.IntN(len(w.people))])
	}
	for range 8 { // most of what people do is to ask
		who, node := w.people[r.IntN(len(w.people))], w.nodes[r.IntN(len(w.nodes))]
		w.compare(t, who, node)
	}
}

func (w *world) compare(t testing.TB, who drive.Who, node drive.NodeID) {
	t.Helper()
	want := w.may(who, node)
	p, err := w.At(t.Context(), w.db, who, node)
	if err != nil && !drive.IsKind(err, drive.NotFound) {
		t.Fatal(err)
	}
	if p.Rights != want || (err != nil) != (want == 0) {
		t.Fatalf("%v may %04b at %v, the model says %04b (%v)", who.User, p.Rights, node, want, err)
	}
	if _, err := w.Enter(t.Context(), w.db, who, node, access.Link); (err == nil) != w.mayLink(who, node) {
		t.Fatalf("a link with %04b: %v", want, err)
	}
	for _, use := range access.Uses() {
		_, err := w.Enter(t.Context(), w.db, who, node, use)
		if allowed := want.Has(use.Needs()); allowed != (err == nil) {
			t.Fatalf("use %d with %04b: %v", use, want, err)
		}
		if use >= access.List {
			break // the table has its own test
		}
	}
}

func (w *world) makeFolder(t testing.TB, r *rand.Rand, parent drive.NodeID) {
	t.Helper()
	of := w.of[parent]
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := w.tree.CreateFolder(ctx, tx, w.drives[of].account, tree.Place{
			Parent: parent, Name: drive.Name(fmt.Sprint(r.Int64())), Conflict: drive.ConflictFail,
		})
		if drive.IsKind(err, drive.BadName) { // too deep
			return nil
		}
		if err == nil {
			w.add(n.ID, parent, of)
		}
		return err
	})
}

func (w *world) moveFolder(t testing.TB, r *rand.Rand, id drive.NodeID) {
	t.Helper()
	parent := w.nodes[r.IntN(len(w.nodes))]
	if w.up[id].IsZero() || w.of[parent] != w.of[id] {
		return
	}
	account := w.drives[w.of[id]].account
	err := w.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := w.tree.Edit(ctx, tx, account, id, tree.Edit{Parent: parent}); err != nil {
			return err
		}
		return w.Moved(ctx, tx, account)
	})
	switch {
	case err == nil:
		w.up[id] = parent
	case !drive.IsKind(err, drive.Cycle, drive.BadName, drive.NameTaken):
		t.Fatal(err)
	}
}

func (w *world) grant(t testing.TB, r *rand.Rand, node drive.NodeID) {
	t.Helper()
	g := access.Grant{Node: node, Account: w.drives[w.of[node]].account, Kind: access.User, Role: access.Roles()[r.IntN(len(access.Roles()))]}
	if g.Principal = drive.PrincipalID(w.people[r.IntN(len(w.people))].User); r.IntN(2) == 0 {
		g.Kind, g.Principal = access.Group, drive.PrincipalID(w.groups[r.IntN(len(w.groups))])
	}
	if r.IntN(3) == 0 {
		g.Expires = drive.TimeOf(w.now).Add(time.Duration(1+r.IntN(1800)) * time.Second)
	}
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := w.Set(ctx, tx, g)
		return err
	})
	w.grants = slices.DeleteFunc(w.grants, func(h access.Grant) bool { return h.Node == g.Node && h.Principal == g.Principal })
	w.grants = append(w.grants, g)
}

func (w *world) take(t testing.TB, r *rand.Rand) {
	t.Helper()
	if len(w.grants) == 0 {
		return
	}
	i := r.IntN(len(w.grants))
	g := w.grants[i]
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, _, err := w.Take(ctx, tx, g.Node, g.Principal)
		return err
	})
	w.grants = slices.Delete(w.grants, i, i+1)
}

func (w *world) join(t testing.TB, r *rand.Rand) {
	t.Helper()
	id, user := w.groups[r.IntN(len(w.groups))], w.people[r.IntN(len(w.people))].User
	in := !w.member[id][user]
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		if in {
			return w.AddMember(ctx, tx, id, user)
		}
		return w.RemoveMember(ctx, tx, id, user)
	})
	w.member[id][user] = in
}

func (w *world) archive(t testing.TB, r *rand.Rand) {
	t.Helper()
	d := &w.drives[2+r.IntN(2)]
	d.state = []access.State{access.Active, access.Active, access.Archived, access.Deleted}[r.IntN(4)]
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := w.ChangeSpace(ctx, tx, d.account, access.SpaceChange{State: d.state})
		return err
	})
}

// rule changes what the managers of a space decide.
func (w *world) rule(t testing.TB, r *rand.Rand) {
	t.Helper()
	d := &w.drives[2+r.IntN(2)]
	d.links = []access.Givers{access.Editors, access.Managers, access.Nobody}[r.IntN(3)]
	d.outward = []access.Givers{access.Managers, access.Nobody}[r.IntN(2)]
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := w.ChangeSpace(ctx, tx, d.account, access.SpaceChange{Settings: access.SettingsChange{Links: &d.links, Outward: &d.outward}})
		return err
	})
}

// TestAccessIsThatOfTheModel does random things to groups, grants, spaces, their rules and folders,
// and asks after each of them what people may do: by the product, and by a list and a walk.
func TestAccessIsThatOfTheModel(t *testing.T) {
	t.Parallel()
	for worlds := range sqldbtest.Fewer(depth.Pick(1, 4, 20)) {
		r := rand.New(rand.NewPCG(19, uint64(worlds)))
		w := newWorld(t, 6, 4)
		for range depth.Pick(100, 400, 6000) {
			w.step(t, r)
		}
		for _, who := range w.people {
			for _, node := range w.nodes {
				w.compare(t, who, node)
			}
			w.compareAll(t, who)
		}
	}
}

func TestEachUseNamesTheWeakestRoleThatHasItsRight(t *testing.T) {
	t.Parallel()
	for _, use := range access.Uses() {
		if !use.Least().Rights().Has(use.Needs()) || use.Needs() == 0 {
			t.Errorf("use %d: %s has no right %04b", use, use.Least(), use.Needs())
		}
		for _, role := range access.Roles() {
			if role == use.Least() {
				break
			}
			if role != access.Uploader && role.Rights().Has(use.Needs()) {
				t.Errorf("use %d: %s suffices, the table says %s", use, role, use.Least())
			}
		}
	}
}

// TestAGuestWhoEntersAgainIsAGuest: a Who that acts on somebody else's account is not its owner.
func TestAGuestWhoEntersAgainIsAGuest(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(19, 1))
	w := newWorld(t, 2, 0)
	w.makeFolder(t, r, w.drives[0].root)
	folder := w.nodes[len(w.nodes)-1]
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := w.Set(ctx, tx, access.Grant{
			Node: folder, Account: w.drives[0].account, Principal: drive.PrincipalID(w.people[1].User), Kind: access.User, Role: access.Viewer,
		})
		return err
	})
	first, err := w.Enter(t.Context(), w.db, w.people[1], folder, access.Read)
	if err != nil {
		t.Fatal(err)
	}
	again, err := w.At(t.Context(), w.db, first.Who, folder)
	if err != nil || again.Rights != access.Viewer.Rights() {
		t.Errorf("rights %04b, %v", again.Rights, err)
	}
	if _, err := w.At(t.Context(), w.db, first.Who, w.drives[0].root); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("the root: %v", err)
	}
}
