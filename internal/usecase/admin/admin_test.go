package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/idem"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

type fixture struct {
	*Admin
	auth     *account.Auth
	sessions *account.Sessions
	ids      *idem.PreparedIDs
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	db := sqldbtest.Open(t)
	opt := account.Options{Cost: account.Cost{MemoryKiB: 64, Passes: 1, Threads: 1}}
	auth := account.NewAuth(db, opt)
	users := account.NewUsers(db, auth, opt)
	ids, err := idem.OpenPreparedIDs(t.Context(), db, idem.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a := New(Parts{DB: db, Users: users, Trees: tree.New(tree.Options{}), Keys: idem.NewKeys(db, idem.Options{})}, Options{})
	return &fixture{Admin: a, auth: auth, sessions: account.NewSessions(db, users, auth, opt), ids: ids}
}

const secret = "correct horse"

func (f *fixture) add(t *testing.T, in NewUser) User {
	t.Helper()
	in.Password = secret
	u, err := f.CreateUser(t.Context(), Local(), in)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func (f *fixture) login(t *testing.T, name, password string) account.Granted {
	t.Helper()
	g, err := f.sessions.Login(t.Context(), account.Login{Name: name, Password: password})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func (f *fixture) count(t *testing.T, table string) (n int) {
	t.Helper()
	if err := f.parts.DB.QueryRow(t.Context(), "SELECT COUNT(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func wantKind(t *testing.T, err error, kind drive.Kind) {
	t.Helper()
	if !drive.IsKind(err, kind) {
		t.Fatalf("error %v, want %v", err, kind)
	}
}

//go:fix inline
func size(n drive.ByteSize) *drive.ByteSize { return new(n) }

func TestNewUserHasALedgerAndARoot(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]*drive.ByteSize{
		`{}`:                        size(10 * drive.GiB),
		`{"total": null}`:           nil,
		`{"total": 0}`:              size(0),
		`{"total": 12884901888}`:    size(12 * drive.GiB),
		`{"other": 1, "total": 17}`: size(17),
	} {
		var in struct {
			Total Total `json:"total"`
		}
		if err := json.Unmarshal([]byte(body), &in); err != nil {
			t.Fatal(err)
		}
		f := newFixture(t)
		u := f.add(t, NewUser{Name: "ann", Total: in.Total})
		b, err := f.LedgerOf(t.Context(), Local(), u.ID)
		if d := cmp.Diff(quota.Balance{Total: want}, b); err != nil || d != "" {
			t.Errorf("%s: %v %s", body, err, d)
		}
		if root, err := f.parts.Trees.Root(t.Context(), f.parts.DB, u.Account); err != nil || root.IsZero() {
			t.Errorf("%s: root %v, %v", body, root, err)
		}
		f.login(t, "ann", secret)
	}
}

func TestBadTotalsAreRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.add(t, NewUser{Name: "ann"})
	for _, n := range []drive.ByteSize{-1, maxTotal + 1} {
		_, err := f.CreateUser(t.Context(), Local(), NewUser{Name: "bob", Password: secret, Total: Limit(n)})
		wantKind(t, err, drive.BadRequest)
		_, err = f.SetUser(t.Context(), Local(), u.ID, Change{Total: Limit(n)})
		wantKind(t, err, drive.BadRequest)
	}
	for _, s := range []string{`"1"`, `1.5`, `true`, `{}`, `99999999999999999999`} {
		var total Total
		wantKind(t, json.Unmarshal([]byte(s), &total), drive.BadRequest)
	}
}

func TestOnlyAdministratorsMay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ann := f.add(t, NewUser{Name: "ann"})
	who, err := f.auth.Authenticate(t.Context(), f.login(t, "ann", secret).Secret)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"create": func() error { _, err := f.CreateUser(ctx, who, NewUser{Name: "bob", Password: secret}); return err },
		"create once": func() error {
			_, err := f.CreateUserOnce(ctx, who, NewUser{Name: "bob", Password: secret}, idem.Request{}, nil)
			return err
		},
		"set":    func() error { _, err := f.SetUser(ctx, who, ann.ID, Change{Total: Unlimited()}); return err },
		"delete": func() error { return f.DeleteUser(ctx, who, ann.ID) },
		"find":   func() error { _, err := f.FindUser(ctx, who, ann.ID); return err },
		"list":   func() error { _, err := f.ListUsers(ctx, who, UserQuery{Limit: 10}); return err },
		"ledger": func() error { _, err := f.LedgerOf(ctx, who, ann.ID); return err },
	} {
		if err := call(); !drive.IsKind(err, drive.Forbidden) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSetUserIsAllOrNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(t, NewUser{Name: "root", Admin: true})
	ann := f.add(t, NewUser{Name: "ann"})
	bearer := f.login(t, "ann", secret).Secret
	next, short := "battery staple", "short"
	_, err := f.SetUser(t.Context(), Local(), ann.ID, Change{Total: Limit(5), Password: &short})
	wantKind(t, err, drive.BadRequest)
	_, err = f.SetUser(t.Context(), Local(), ann.ID, Change{Total: Limit(5), State: account.Deleted})
	wantKind(t, err, drive.BadRequest)
	if b, err := f.LedgerOf(t.Context(), Local(), ann.ID); err != nil || *b.Total != defaultQuota {
		t.Fatalf("a refused change left total %v, %v", b.Total, err)
	}
	if _, err := f.auth.Authenticate(t.Context(), bearer); err != nil {
		t.Fatal(err)
	}

	u, err := f.SetUser(t.Context(), Local(), ann.ID, Change{Total: Unlimited(), Password: &next})
	if err != nil || u.Balance.Total != nil {
		t.Fatalf("%+v, %v", u, err)
	}
	_, err = f.auth.Authenticate(t.Context(), bearer)
	wantKind(t, err, drive.Unauthenticated)
	f.login(t, "ann", next)
	if u, err = f.SetUser(t.Context(), Local(), ann.ID, Change{State: account.Disabled}); err != nil || u.State != account.Disabled {
		t.Fatalf("%+v, %v", u, err)
	}
	if u.Balance.Total != nil {
		t.Fatal("an absent total changed the total")
	}
	_, err = f.sessions.Login(t.Context(), account.Login{Name: "ann", Password: next})
	wantKind(t, err, drive.Unauthenticated)
	_, err = f.SetUser(t.Context(), Local(), drive.NewID[drive.UserID](), Change{Total: Unlimited()})
	wantKind(t, err, drive.NotFound)
}

func TestListUsersByNameAndByPage(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var want []string
	for i := range 5 {
		want = append(want, f.add(t, NewUser{Name: fmt.Sprintf("User%d", i)}).Name)
	}
	gone := f.add(t, NewUser{Name: "Gone"})
	if err := f.DeleteUser(t.Context(), Local(), gone.ID); err != nil {
		t.Fatal(err)
	}
	names := func(q UserQuery) (got []string) {
		for {
			page, err := f.ListUsers(t.Context(), Local(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range page.Items {
				if *u.Balance.Total != defaultQuota {
					t.Errorf("%s has total %v", u.Name, u.Balance.Total)
				}
				got = append(got, u.Name)
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				return got
			}
		}
	}
	for _, c := range []struct {
		query UserQuery
		want  []string
	}{
		{UserQuery{Limit: 2}, want},
		{UserQuery{Limit: 1000}, want},
		{UserQuery{Name: "uSER3", Limit: 2}, []string{"User3"}},
		{UserQuery{Name: "Gone", Limit: 2}, nil},
		{UserQuery{Name: "a/b", Limit: 2}, nil},
	} {
		if d := cmp.Diff(c.want, names(c.query)); d != "" {
			t.Errorf("%+v: %s", c.query, d)
		}
	}
}

func render(u User) (int, []byte, error) {
	body, err := json.Marshal(map[string]any{"id": u.ID, "name": u.Name})
	return 201, body, err
}

func TestCreateUserOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	root := drive.NewID[drive.UserID]()
	key, err := f.ids.ParseKey(root, "k1")
	if err != nil {
		t.Fatal(err)
	}
	req := idem.Request{User: root, Method: "POST", Route: "/admin/users", Key: key}
	in := NewUser{Name: "ann", Password: secret}
	first, err := f.CreateUserOnce(t.Context(), Local(), in, req, render)
	if err != nil || first.Replayed {
		t.Fatalf("%+v, %v", first, err)
	}
	again, err := f.CreateUserOnce(t.Context(), Local(), in, req, render)
	if err != nil || !again.Replayed || string(again.Body) != string(first.Body) || f.count(t, "users") != 1 {
		t.Fatalf("%+v, %v, %d users", again, err, f.count(t, "users"))
	}
	for name, other := range map[string]NewUser{
		"name":       {Name: "bob", Password: secret},
		"total":      {Name: "ann", Password: secret, Total: Limit(defaultQuota)},
		"unlimited":  {Name: "ann", Password: secret, Total: Unlimited()},
		"admin":      {Name: "ann", Password: secret, Admin: true},
		"odd quotes": {Name: `ann" default`, Password: secret},
	} {
		if _, err := f.CreateUserOnce(t.Context(), Local(), other, req, render); !drive.IsKind(err, drive.KeyReused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	req.Key = idem.Key{}
	_, err = f.CreateUserOnce(t.Context(), Local(), in, req, render)
	wantKind(t, err, drive.NameTaken)
	if f.count(t, "accounts") != 1 || f.count(t, "ledgers") != 1 || f.count(t, "trees") != 1 {
		t.Fatal("a refused creation left rows")
	}
}

func TestFirstUser(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var kept string
	generated, created, err := f.EnsureFirstUser(t.Context(), "", func(password string) error {
		if n := f.count(t, "users"); n != 0 {
			t.Errorf("the user exists before its password is kept")
		}
		kept = password
		return nil
	})
	if err != nil || !created || generated == "" || kept != generated {
		t.Fatalf("%q, kept %q, %v, %v", generated, kept, created, err)
	}
	who, err := f.auth.Authenticate(t.Context(), f.login(t, FirstUser, generated).Secret)
	if err != nil || !who.Admin {
		t.Fatalf("%+v, %v", who, err)
	}
	never := func(string) error { t.Error("a password was kept"); return nil }
	if generated, created, err := f.EnsureFirstUser(t.Context(), "", never); err != nil || created || generated != "" {
		t.Fatalf("the second time: %q, %v, %v", generated, created, err)
	}
	f.login(t, FirstUser, generated)
}

func TestFirstUserWithAGivenPassword(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, _, err := f.EnsureFirstUser(t.Context(), "short", nil)
	wantKind(t, err, drive.BadRequest)
	boom := errors.New("boom")
	if _, _, err := f.EnsureFirstUser(t.Context(), "", func(string) error { return boom }); !errors.Is(err, boom) {
		t.Fatalf("got %v", err)
	}
	if n := f.count(t, "users"); n != 0 {
		t.Fatalf("%d users whose password nobody has", n)
	}
	generated, created, err := f.EnsureFirstUser(t.Context(), secret, nil)
	if err != nil || !created || generated != "" {
		t.Fatalf("%q, %v, %v", generated, created, err)
	}
	f.login(t, strings.ToUpper(FirstUser), secret)
}

// TestConcurrentFirstStartsMakeOneUser (I2): of many concurrent first starts, one creates the
// administrator.
func TestConcurrentFirstStartsMakeOneUser(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const starts = 50
	var made [starts]string
	var all sync.WaitGroup
	for i := range starts {
		all.Go(func() {
			for { // the hashing queue is bounded; a start that is told to retry does so
				generated, _, err := f.EnsureFirstUser(t.Context(), "", nil)
				if !drive.IsKind(err, drive.Rate) {
					if made[i] = generated; err != nil {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	all.Wait()
	var passwords []string
	for _, p := range made {
		if p != "" {
			passwords = append(passwords, p)
		}
	}
	if len(passwords) != 1 || f.count(t, "users") != 1 || f.count(t, "accounts") != 1 ||
		f.count(t, "ledgers") != 1 || f.count(t, "trees") != 1 {
		t.Fatalf("%d passwords, %d users", len(passwords), f.count(t, "users"))
	}
	f.login(t, FirstUser, passwords[0])
}

func TestDeletedUserIsPurgeable(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	u := f.add(t, NewUser{Name: "ann"})
	if err := f.DeleteUser(t.Context(), Local(), u.ID); err != nil {
		t.Fatal(err)
	}
	_, err := f.FindUser(t.Context(), Local(), u.ID)
	wantKind(t, err, drive.NotFound)
	due, err := f.parts.Users.ListDeleted(t.Context(), f.parts.DB, drive.TimeOf(time.Now().Add(time.Minute)), 10)
	if err != nil || len(due) != 1 {
		t.Fatalf("%v, %v", due, err)
	}
	// An account with a ledger cannot be purged.
	if err := f.parts.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return f.parts.Users.Purge(ctx, tx, due[0]) }); err == nil {
		t.Fatal("an account was purged before its ledger and its tree")
	}
}
