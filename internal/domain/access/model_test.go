package access_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/access/accesstest"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/testkit/depth"
)

// fixture is a database with users, groups, two personal drives and two spaces, and the model of
// the same.
type fixture struct {
	*access.Access
	*accesstest.Model
	db     *sqldb.DB
	tree   *tree.Tree
	people []drive.Who
	checks int // number of checks and changes
}

func newFixture(t testing.TB, people, groups int) *fixture {
	t.Helper()
	db := sqldbtest.Open(t)
	w := &fixture{db: db, Model: accesstest.New()}
	w.Now = time.UnixMilli(1_800_000_000_000)
	clock := func() time.Time { return w.Now }
	w.Access = access.New(access.Options{DB: db, Now: clock})
	w.tree = tree.New(tree.Options{Now: clock, OnFolderTrashed: func(ctx context.Context, tx *sqldb.Tx, n tree.Node) error {
		return w.InvalidateIfGranted(ctx, tx, n.Account)
	}})
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
			w.AddGroup(g.ID)
			return err
		})
	}
	for i := range 4 {
		d := accesstest.Account{State: access.Active}
		if i >= 2 {
			d.Account, d.Links, d.Outward = drive.NewID[drive.AccountID](), access.Editors, access.Managers
		} else {
			d.Owner, d.Account = w.people[i].User, w.people[i].Account
		}
		w.write(t, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			if err := users.CreateAccount(ctx, tx, d.Account); err != nil {
				return err
			}
			if err := (quota.Ledger{}).Create(ctx, tx, d.Account, nil); err != nil {
				return err
			}
			if d.Root, err = w.tree.Create(ctx, tx, d.Account); err != nil || !d.IsSpace() {
				return err
			}
			_, err = w.CreateSpace(ctx, tx, access.Space{ID: d.Account, Root: d.Root, Name: fmt.Sprintf("space %d", i)})
			return err
		})
		w.AddAccount(d)
	}
	return w
}

func (f *fixture) write(t testing.TB, fn func(context.Context, *sqldb.Tx) error) {
	t.Helper()
	if err := f.db.Write(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

// compareAll compares a user's rights at many nodes from one call.
func (f *fixture) compareAll(t testing.TB, who drive.Who) {
	t.Helper()
	want := map[drive.NodeID]string{}
	for node := range f.SharedWith(who.User) {
		want[node] = ""
	}
	if d := cmp.Diff(want, f.mountsOf(t, who, false)); d != "" {
		t.Fatalf("what is shared with %v by name (-model +product): %s", who.User, d)
	}
	rights, err := f.RightsOf(t.Context(), f.db, who, f.Nodes)
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range f.Nodes {
		own := f.AccountOf(node).Account == who.Account // own nodes are not queried
		if want := f.Rights(who.User, node); rights[node].Rights != want && !own {
			t.Fatalf("%v may %04b at %v, by many at once, and the model says %04b", who.User, rights[node].Rights, node, want)
		}
	}
	passes, err := f.PassesOf(t.Context(), f.db, who, append(f.Nodes, drive.NewID[drive.NodeID]()))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, node := range f.Nodes {
		one, err := f.At(t.Context(), f.db, who, node)
		if many, ok := passes[node]; ok != (err == nil) || many != one {
			t.Fatalf("%v gets %+v at %v, by many at once %+v (%v)", who.User, one, node, many, err)
		} else if ok {
			seen++
		}
	}
	if seen != len(passes) {
		t.Fatalf("%v gets %d passes to %d nodes", who.User, len(passes), seen)
	}
}

// randomStep makes one random change or check.
func (f *fixture) randomStep(t testing.TB, r *rand.Rand) {
	t.Helper()
	f.checks++
	node := f.Nodes[r.IntN(len(f.Nodes))]
	switch r.IntN(20) {
	case 0, 1, 2:
		f.makeFolder(t, r, node)
	case 3:
		f.moveFolder(t, r, node)
	case 4, 5, 6, 7:
		f.grant(t, r, node)
	case 8, 9:
		f.revoke(t, r)
	case 10:
		f.changeMembership(t, r)
	case 11:
		f.Now = f.Now.Add(time.Duration(r.IntN(600)) * time.Second)
	case 12:
		f.archive(t, r)
	case 13:
		f.changeSettings(t, r)
	case 14:
		f.compareAll(t, f.people[r.IntN(len(f.people))])
	case 15:
		f.trash(t, node)
	case 16, 17:
		f.restore(t, r)
	}
	for range 8 { // most steps are checks
		who, node := f.people[r.IntN(len(f.people))], f.Nodes[r.IntN(len(f.Nodes))]
		f.compare(t, who, node)
	}
}

func (f *fixture) compare(t testing.TB, who drive.Who, node drive.NodeID) {
	t.Helper()
	want := f.Rights(who.User, node)
	f.checks += 2 // by name and by link
	p, err := f.At(t.Context(), f.db, who, node)
	if err != nil && !drive.IsKind(err, drive.NotFound) {
		t.Fatal(err)
	}
	if p.Rights != want || (err != nil) != (want == 0) {
		t.Fatalf("%v may %04b at %v, the model says %04b (%v)", who.User, p.Rights, node, want, err)
	}
	if _, err := f.Enter(t.Context(), f.db, who, node, access.Link); (err == nil) != f.MayLink(who.User, node) {
		t.Fatalf("a link with %04b: %v", want, err)
	}
	for _, use := range access.Uses() {
		f.checks++
		_, err := f.Enter(t.Context(), f.db, who, node, use)
		if allowed := want.Has(use.Needs()); allowed != (err == nil) {
			t.Fatalf("use %d with %04b: %v", use, want, err)
		}
		if use >= access.List {
			break // the table has its own test
		}
	}
}

func (f *fixture) makeFolder(t testing.TB, r *rand.Rand, parent drive.NodeID) {
	t.Helper()
	of := f.AccountIndex[parent]
	f.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := f.tree.CreateFolder(ctx, tx, f.Accounts[of].Account, tree.Place{
			Parent: parent, Name: drive.Name(fmt.Sprint(r.Int64())), Conflict: drive.ConflictFail,
		})
		if drive.IsKind(err, drive.BadName, drive.ParentGone) { // too deep or trashed
			return nil
		}
		if err == nil {
			f.Add(n.ID, parent, of)
		}
		return err
	})
}

func (f *fixture) moveFolder(t testing.TB, r *rand.Rand, id drive.NodeID) {
	t.Helper()
	parent := f.Nodes[r.IntN(len(f.Nodes))]
	if f.Parent[id].IsZero() || f.AccountIndex[parent] != f.AccountIndex[id] {
		return
	}
	account := f.AccountOf(id).Account
	err := f.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := f.tree.Edit(ctx, tx, account, id, tree.Edit{Parent: parent}); err != nil {
			return err
		}
		return f.InvalidateIfGranted(ctx, tx, account)
	})
	switch {
	case err == nil:
		f.Parent[id] = parent
	case !drive.IsKind(err, drive.Cycle, drive.BadName, drive.NameTaken, drive.WrongState, drive.ParentGone):
		t.Fatal(err)
	}
}

func (f *fixture) trash(t testing.TB, id drive.NodeID) {
	t.Helper()
	if f.Parent[id].IsZero() {
		return
	}
	f.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := f.tree.Trash(ctx, tx, f.AccountOf(id).Account, id, 0)
		return err
	})
	if !f.InTrash(id) {
		f.Trash[id] = true
	}
}

// restore restores a random node from the trash.
func (f *fixture) restore(t testing.TB, r *rand.Rand) {
	t.Helper()
	id := f.Nodes[r.IntN(len(f.Nodes))]
	if len(f.Trash) > 0 && r.IntN(2) == 0 {
		trashed := slices.SortedFunc(maps.Keys(f.Trash), func(a, b drive.NodeID) int { return strings.Compare(a.String(), b.String()) })
		id = trashed[r.IntN(len(trashed))]
	}
	if f.Parent[id].IsZero() {
		return
	}
	account := f.AccountOf(id).Account
	var n tree.Node
	err := f.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if n, err = f.tree.Restore(ctx, tx, account, id, tree.Restore{}); err == nil {
			err = f.InvalidateIfGranted(ctx, tx, account)
		}
		return err
	})
	if drive.IsKind(err, drive.BadName) {
		return // too deep
	}
	if err != nil {
		t.Fatal(err)
	}
	delete(f.Trash, id)
	f.Parent[id] = n.Parent
}

func (f *fixture) grant(t testing.TB, r *rand.Rand, node drive.NodeID) {
	t.Helper()
	g := access.Grant{Node: node, Account: f.AccountOf(node).Account, Kind: access.User, Role: access.Roles()[r.IntN(len(access.Roles()))]}
	if g.Principal = drive.PrincipalID(f.people[r.IntN(len(f.people))].User); r.IntN(2) == 0 {
		g.Kind, g.Principal = access.Group, drive.PrincipalID(f.Groups[r.IntN(len(f.Groups))])
	}
	if r.IntN(3) == 0 {
		g.Expires = drive.TimeOf(f.Now).Add(time.Duration(1+r.IntN(1800)) * time.Second)
	}
	f.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := f.Access.Grant(ctx, tx, g)
		return err
	})
	f.Model.Grant(g)
}

func (f *fixture) revoke(t testing.TB, r *rand.Rand) {
	t.Helper()
	if len(f.Grants) == 0 {
		return
	}
	g := f.Grants[r.IntN(len(f.Grants))]
	f.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, _, err := f.Access.Revoke(ctx, tx, g.Node, g.Principal)
		return err
	})
	f.Model.Revoke(g.Node, g.Principal)
}

func (f *fixture) changeMembership(t testing.TB, r *rand.Rand) {
	t.Helper()
	id, user := f.Groups[r.IntN(len(f.Groups))], f.people[r.IntN(len(f.people))].User
	in := !f.Member[id][user]
	f.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		if in {
			return f.AddMember(ctx, tx, id, user)
		}
		return f.RemoveMember(ctx, tx, id, user)
	})
	f.Member[id][user] = in
}

func (f *fixture) archive(t testing.TB, r *rand.Rand) {
	t.Helper()
	d := &f.Accounts[2+r.IntN(2)]
	d.State = []access.State{access.Active, access.Active, access.Archived, access.Deleted}[r.IntN(4)]
	f.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := f.ChangeSpace(ctx, tx, d.Account, access.SpaceChange{State: d.State})
		return err
	})
}

// changeSettings changes the settings of a space.
func (f *fixture) changeSettings(t testing.TB, r *rand.Rand) {
	t.Helper()
	d := &f.Accounts[2+r.IntN(2)]
	d.Links = []access.SharingPolicy{access.Editors, access.Managers, access.Nobody}[r.IntN(3)]
	d.Outward = []access.SharingPolicy{access.Managers, access.Nobody}[r.IntN(2)]
	f.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := f.ChangeSpace(ctx, tx, d.Account, access.SpaceChange{Settings: access.SettingsChange{Links: &d.Links, Outward: &d.Outward}})
		return err
	})
}

// TestAccessMatchesModel makes random changes of groups, grants, spaces, settings and folders, and
// compares rights with the model after each. On SQLite it makes 100,000 changes and checks in a
// normal run and more than 10^6 in a deep one. Package test/columns checks the same through the
// API.
func TestAccessMatchesModel(t *testing.T) {
	t.Parallel()
	asked := 0
	many := depth.Pick(1, 4, 20)
	if sqldbtest.OnMySQL() {
		many = min(many, 3) // one takes six minutes there, so only few run
	}
	for worlds := range sqldbtest.Repetitions(many) {
		r := rand.New(rand.NewPCG(19, uint64(worlds)))
		w := newFixture(t, 6, 4)
		for range depth.Pick(100, 700, 6000) {
			w.randomStep(t, r)
		}
		for _, who := range w.people {
			for _, node := range w.Nodes {
				w.compare(t, who, node)
			}
			w.compareAll(t, who)
		}
		asked += w.checks
	}
	if least := depth.Pick(0, 100_000, 1_000_000); asked < least && !sqldbtest.OnMySQL() {
		t.Errorf("%d changes and questions, not %d", asked, least)
	}
	t.Logf("%d changes and questions", asked)
}

func TestUsesNameWeakestSufficientRole(t *testing.T) {
	t.Parallel()
	for _, use := range access.Uses() {
		if !use.MinRole().Rights().Has(use.Needs()) || use.Needs() == 0 {
			t.Errorf("use %d: %s has no right %04b", use, use.MinRole(), use.Needs())
		}
		for _, role := range access.Roles() {
			if role == use.MinRole() {
				break
			}
			if role != access.Uploader && role.Rights().Has(use.Needs()) {
				t.Errorf("use %d: %s suffices, the table says %s", use, role, use.MinRole())
			}
		}
	}
}

// TestGuestStaysGuest: a Who that acts on another user's account is not its owner.
func TestGuestStaysGuest(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(19, 1))
	w := newFixture(t, 2, 0)
	w.makeFolder(t, r, w.Accounts[0].Root)
	folder := w.Nodes[len(w.Nodes)-1]
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := w.Access.Grant(ctx, tx, access.Grant{
			Node: folder, Account: w.Accounts[0].Account, Principal: drive.PrincipalID(w.people[1].User), Kind: access.User, Role: access.Viewer,
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
	if _, err := w.At(t.Context(), w.db, first.Who, w.Accounts[0].Root); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("the root: %v", err)
	}
}
