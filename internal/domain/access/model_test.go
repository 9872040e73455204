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

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/access/accesstest"
	"smartdrive/internal/domain/account"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/sqldb/sqldbtest"
	"smartdrive/internal/testkit/depth"
)

// world is a database with people, groups, two personal drives and two spaces, and beside it the
// model.
type world struct {
	*access.Access
	*accesstest.Model
	db     *sqldb.DB
	tree   *tree.Tree
	people []drive.Who
	asked  int // questions, and changes
}

func newWorld(t testing.TB, people, groups int) *world {
	t.Helper()
	db := sqldbtest.Open(t)
	w := &world{db: db, Model: accesstest.New()}
	w.Now = time.UnixMilli(1_800_000_000_000)
	clock := func() time.Time { return w.Now }
	w.Access = access.New(access.Options{DB: db, Now: clock})
	w.tree = tree.New(tree.Options{Now: clock, Trashed: func(ctx context.Context, tx *sqldb.Tx, n tree.Node) error { return w.Moved(ctx, tx, n.Account) }})
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
		d := accesstest.Room{State: access.Active}
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
		w.AddRoom(d)
	}
	return w
}

func (w *world) write(t testing.TB, fn func(context.Context, *sqldb.Tx) error) {
	t.Helper()
	if err := w.db.Write(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

// compareAll compares what a person is told of many nodes in one answer.
func (w *world) compareAll(t testing.TB, who drive.Who) {
	t.Helper()
	want := map[drive.NodeID]string{}
	for node := range w.SharedWith(who.User) {
		want[node] = ""
	}
	if d := cmp.Diff(want, w.mounts(t, who, false)); d != "" {
		t.Fatalf("what is shared with %v by name (-model +product): %s", who.User, d)
	}
	rights, err := w.RightsOf(t.Context(), w.db, who, w.Nodes)
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range w.Nodes {
		own := w.Room(node).Account == who.Account // of which it is not asked
		if want := w.Rights(who.User, node); rights[node].Rights != want && !own {
			t.Fatalf("%v may %04b at %v, by many at once, and the model says %04b", who.User, rights[node].Rights, node, want)
		}
	}
	passes, err := w.PassesOf(t.Context(), w.db, who, append(w.Nodes, drive.NewID[drive.NodeID]()))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, node := range w.Nodes {
		one, err := w.At(t.Context(), w.db, who, node)
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

// step does one thing at random.
func (w *world) step(t testing.TB, r *rand.Rand) {
	t.Helper()
	w.asked++
	node := w.Nodes[r.IntN(len(w.Nodes))]
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
		w.Now = w.Now.Add(time.Duration(r.IntN(600)) * time.Second)
	case 12:
		w.archive(t, r)
	case 13:
		w.rule(t, r)
	case 14:
		w.compareAll(t, w.people[r.IntN(len(w.people))])
	case 15:
		w.trash(t, node)
	case 16, 17:
		w.restore(t, r)
	}
	for range 8 { // most of what people do is to ask
		who, node := w.people[r.IntN(len(w.people))], w.Nodes[r.IntN(len(w.Nodes))]
		w.compare(t, who, node)
	}
}

func (w *world) compare(t testing.TB, who drive.Who, node drive.NodeID) {
	t.Helper()
	want := w.Rights(who.User, node)
	w.asked += 2 // by name and for links
	p, err := w.At(t.Context(), w.db, who, node)
	if err != nil && !drive.IsKind(err, drive.NotFound) {
		t.Fatal(err)
	}
	if p.Rights != want || (err != nil) != (want == 0) {
		t.Fatalf("%v may %04b at %v, the model says %04b (%v)", who.User, p.Rights, node, want, err)
	}
	if _, err := w.Enter(t.Context(), w.db, who, node, access.Link); (err == nil) != w.MayLink(who.User, node) {
		t.Fatalf("a link with %04b: %v", want, err)
	}
	for _, use := range access.Uses() {
		w.asked++
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
	of := w.Of[parent]
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := w.tree.CreateFolder(ctx, tx, w.Rooms[of].Account, tree.Place{
			Parent: parent, Name: drive.Name(fmt.Sprint(r.Int64())), Conflict: drive.ConflictFail,
		})
		if drive.IsKind(err, drive.BadName, drive.ParentGone) { // too deep, or in the trash
			return nil
		}
		if err == nil {
			w.Add(n.ID, parent, of)
		}
		return err
	})
}

func (w *world) moveFolder(t testing.TB, r *rand.Rand, id drive.NodeID) {
	t.Helper()
	parent := w.Nodes[r.IntN(len(w.Nodes))]
	if w.Up[id].IsZero() || w.Of[parent] != w.Of[id] {
		return
	}
	account := w.Room(id).Account
	err := w.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := w.tree.Edit(ctx, tx, account, id, tree.Edit{Parent: parent}); err != nil {
			return err
		}
		return w.Moved(ctx, tx, account)
	})
	switch {
	case err == nil:
		w.Up[id] = parent
	case !drive.IsKind(err, drive.Cycle, drive.BadName, drive.NameTaken, drive.WrongState, drive.ParentGone):
		t.Fatal(err)
	}
}

func (w *world) trash(t testing.TB, id drive.NodeID) {
	t.Helper()
	if w.Up[id].IsZero() {
		return
	}
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := w.tree.Trash(ctx, tx, w.Room(id).Account, id, 0)
		return err
	})
	if !w.InTrash(id) {
		w.Trash[id] = true
	}
}

// restore brings back something that was put into the trash, or lies below it.
func (w *world) restore(t testing.TB, r *rand.Rand) {
	t.Helper()
	id := w.Nodes[r.IntN(len(w.Nodes))]
	if len(w.Trash) > 0 && r.IntN(2) == 0 {
		trashed := slices.SortedFunc(maps.Keys(w.Trash), func(a, b drive.NodeID) int { return strings.Compare(a.String(), b.String()) })
		id = trashed[r.IntN(len(trashed))]
	}
	if w.Up[id].IsZero() {
		return
	}
	account := w.Room(id).Account
	var n tree.Node
	err := w.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if n, err = w.tree.Restore(ctx, tx, account, id, tree.Restore{}); err == nil {
			err = w.Moved(ctx, tx, account)
		}
		return err
	})
	if drive.IsKind(err, drive.BadName) {
		return // it would lie too deep
	}
	if err != nil {
		t.Fatal(err)
	}
	delete(w.Trash, id)
	w.Up[id] = n.Parent
}

func (w *world) grant(t testing.TB, r *rand.Rand, node drive.NodeID) {
	t.Helper()
	g := access.Grant{Node: node, Account: w.Room(node).Account, Kind: access.User, Role: access.Roles()[r.IntN(len(access.Roles()))]}
	if g.Principal = drive.PrincipalID(w.people[r.IntN(len(w.people))].User); r.IntN(2) == 0 {
		g.Kind, g.Principal = access.Group, drive.PrincipalID(w.Groups[r.IntN(len(w.Groups))])
	}
	if r.IntN(3) == 0 {
		g.Expires = drive.TimeOf(w.Now).Add(time.Duration(1+r.IntN(1800)) * time.Second)
	}
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := w.Set(ctx, tx, g)
		return err
	})
	w.Give(g)
}

func (w *world) take(t testing.TB, r *rand.Rand) {
	t.Helper()
	if len(w.Grants) == 0 {
		return
	}
	g := w.Grants[r.IntN(len(w.Grants))]
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, _, err := w.Access.Take(ctx, tx, g.Node, g.Principal)
		return err
	})
	w.Model.Take(g.Node, g.Principal)
}

func (w *world) join(t testing.TB, r *rand.Rand) {
	t.Helper()
	id, user := w.Groups[r.IntN(len(w.Groups))], w.people[r.IntN(len(w.people))].User
	in := !w.Member[id][user]
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		if in {
			return w.AddMember(ctx, tx, id, user)
		}
		return w.RemoveMember(ctx, tx, id, user)
	})
	w.Member[id][user] = in
}

func (w *world) archive(t testing.TB, r *rand.Rand) {
	t.Helper()
	d := &w.Rooms[2+r.IntN(2)]
	d.State = []access.State{access.Active, access.Active, access.Archived, access.Deleted}[r.IntN(4)]
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := w.ChangeSpace(ctx, tx, d.Account, access.SpaceChange{State: d.State})
		return err
	})
}

// rule changes what the managers of a space decide.
func (w *world) rule(t testing.TB, r *rand.Rand) {
	t.Helper()
	d := &w.Rooms[2+r.IntN(2)]
	d.Links = []access.Givers{access.Editors, access.Managers, access.Nobody}[r.IntN(3)]
	d.Outward = []access.Givers{access.Managers, access.Nobody}[r.IntN(2)]
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := w.ChangeSpace(ctx, tx, d.Account, access.SpaceChange{Settings: access.SettingsChange{Links: &d.Links, Outward: &d.Outward}})
		return err
	})
}

// TestAccessIsThatOfTheModel does random things to groups, grants, spaces, their rules and folders,
// and asks after each of them what people may do: by the product, and by a list and a walk. On
// SQLite these are 100,000 changes and questions in a normal run, and more than 10^6 in a deep one.
// What is said by way of the API is asked by test/columns.
func TestAccessIsThatOfTheModel(t *testing.T) {
	t.Parallel()
	asked := 0
	many := depth.Pick(1, 4, 20)
	if sqldbtest.OnMySQL() {
		many = min(many, 3) // one takes six minutes there: nobody is asked beside another
	}
	for worlds := range sqldbtest.Fewer(many) {
		r := rand.New(rand.NewPCG(19, uint64(worlds)))
		w := newWorld(t, 6, 4)
		for range depth.Pick(100, 700, 6000) {
			w.step(t, r)
		}
		for _, who := range w.people {
			for _, node := range w.Nodes {
				w.compare(t, who, node)
			}
			w.compareAll(t, who)
		}
		asked += w.asked
	}
	if least := depth.Pick(0, 100_000, 1_000_000); asked < least && !sqldbtest.OnMySQL() {
		t.Errorf("%d changes and questions, not %d", asked, least)
	}
	t.Logf("%d changes and questions", asked)
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
	w.makeFolder(t, r, w.Rooms[0].Root)
	folder := w.Nodes[len(w.Nodes)-1]
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := w.Set(ctx, tx, access.Grant{
			Node: folder, Account: w.Rooms[0].Account, Principal: drive.PrincipalID(w.people[1].User), Kind: access.User, Role: access.Viewer,
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
	if _, err := w.At(t.Context(), w.db, first.Who, w.Rooms[0].Root); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("the root: %v", err)
	}
}
