package account

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

func argsOf(err error) drive.Args {
	if e, ok := errors.AsType[*drive.Error](err); ok {
		return e.Args
	}
	return nil
}

func TestFieldsAreChecked(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for name, c := range map[string]struct {
		name, password, field string
	}{
		"no name":            {"", secret, "name"},
		"longest name":       {strings.Repeat("n", 64), secret, ""},
		"name too long":      {strings.Repeat("n", 65), secret, "name"},
		"slash":              {"a/b", secret, "name"},
		"colon":              {"a:b", secret, "name"},
		"control":            {"a\nb", secret, "name"},
		"invisible":          {"a\u200bdmin", secret, "name"},
		"space at the end":   {"admin ", secret, "name"},
		"inner space":        {"Ann Lee", secret, ""},
		"chinese":            {"王小明", secret, ""},
		"not utf-8":          {"a\xff", secret, "name"},
		"shortest password":  {"p10", "zebra-jam1", ""},
		"password too short": {"p9", "zebra-jam", "password"},
		"longest password":   {"p1024", strings.Repeat("zebra-jam", 113) + "zebra-j", ""},
		"password too long":  {"p1025", strings.Repeat("zebra-jam", 114), "password"},
		"common password":    {"p", "Password123!", "password"},
	} {
		_, err := f.users.Draft(t.Context(), c.name, c.password, false)
		if c.field == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if got := argsOf(err)["field"]; !drive.IsKind(err, drive.BadRequest) || got != c.field {
			t.Errorf("%s: error %v, want one of field %s", name, err, c.field)
		}
	}
}

func TestNamesAreNormalized(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	draft, err := f.users.Draft(t.Context(), "Zoe\u0308", "my passwo\u0308rd", false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.create(t.Context(), draft); err != nil {
		t.Fatal(err)
	}
	if _, err := f.sessions.Login(t.Context(), Login{Name: "zo\u00eb", Password: "my passw\u00f6rd"}); err != nil {
		t.Fatal(err)
	}
}

// TestConcurrentCreationMakesOneUser (I2): concurrent and repeated creation makes one row.
func TestConcurrentCreationMakesOneUser(t *testing.T) {
	t.Parallel()
	const callers = 50
	same := func(t *testing.T, f *fixture) (drafts [callers]Draft) {
		d, err := f.users.Draft(t.Context(), "ann", secret, false)
		if err != nil {
			t.Fatal(err)
		}
		for i := range drafts {
			drafts[i] = d
		}
		return drafts
	}
	different := func(t *testing.T, f *fixture) (drafts [callers]Draft) {
		for i := range drafts {
			d, err := f.users.Draft(t.Context(), []string{"ann", "Ann", "ANN"}[i%3], secret, false)
			if err != nil {
				t.Fatal(err)
			}
			drafts[i] = d
		}
		return drafts
	}
	for name, c := range map[string]struct {
		drafts  func(*testing.T, *fixture) [callers]Draft
		succeed int
	}{"the same draft": {same, callers}, "the same name": {different, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			var errs [callers]error
			var all sync.WaitGroup
			for i, d := range c.drafts(t, f) {
				all.Go(func() { _, errs[i] = f.create(t.Context(), d) })
			}
			all.Wait()
			succeeded := 0
			for _, err := range errs {
				if err == nil {
					succeeded++
				} else {
					wantKind(t, err, drive.NameTaken)
				}
			}
			var users, accounts int
			if err := f.db.QueryRow(t.Context(), "SELECT (SELECT COUNT(*) FROM users), (SELECT COUNT(*) FROM accounts)").
				Scan(&users, &accounts); err != nil {
				t.Fatal(err)
			}
			if succeeded != c.succeed || users != 1 || accounts != 1 {
				t.Fatalf("%d succeeded, %d users, %d accounts", succeeded, users, accounts)
			}
		})
	}
}

func TestListPagesThroughAllUsersOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var want []string
	for i := range 7 {
		want = append(want, f.add(t, fmt.Sprintf("User%d", i), false).Name)
	}
	gone := f.add(t, "gone", false)
	if err := f.remove(t, gone.ID); err != nil {
		t.Fatal(err)
	}
	var got []string
	for cursor := ""; ; {
		page, next, err := f.users.List(t.Context(), f.db, cursor, 3)
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range page {
			got = append(got, u.Name)
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
	if _, _, err := f.users.List(t.Context(), f.db, "no cursor!", 3); !drive.IsKind(err, drive.CursorInvalid) {
		t.Fatalf("got %v", err)
	}
}

func TestDeletedUserFreesName(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.add(t, "root", true)
	ann := f.add(t, "ann", false)
	bearer := f.login(t, "ann").Secret
	f.who(t, bearer)
	if err := f.users.SetPreferences(t.Context(), ann.ID, []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	if err := f.remove(t, ann.ID); err != nil {
		t.Fatal(err)
	}
	f.wantRefused(t, bearer, "invalid")
	if err := f.users.SetPreferences(t.Context(), ann.ID, []byte(`{"late":1}`)); err != nil { // of a request that was running
		t.Fatal(err)
	}
	_, err := f.sessions.Login(t.Context(), Login{Name: "ann", Password: secret})
	wantKind(t, err, drive.Unauthenticated)
	_, err = f.users.LinkEpoch(t.Context(), ann.ID)
	wantKind(t, err, drive.NotFound)
	wantKind(t, f.remove(t, ann.ID), drive.NotFound)
	if again := f.add(t, "Ann", false); again.ID == ann.ID {
		t.Fatal("the deleted user came back")
	}

	if early, err := f.users.ListDeleted(t.Context(), f.db, drive.TimeOf(f.clock.Now().Add(-DeletedKeep)), 10); err != nil || len(early) != 0 {
		t.Fatalf("to be purged at once: %v, %v", early, err)
	}
	f.clock.Advance(DeletedKeep + time.Second)
	due, err := f.users.ListDeleted(t.Context(), f.db, drive.TimeOf(f.clock.Now().Add(-DeletedKeep)), 10)
	if err != nil || len(due) != 1 || due[0].ID != ann.ID {
		t.Fatalf("to be purged: %v, %v", due, err)
	}
	for range 2 { // idempotent
		if err := f.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return f.users.Purge(ctx, tx, due[0]) }); err != nil {
			t.Fatal(err)
		}
	}
	if kept, err := f.users.Preferences(t.Context(), f.db, ann.ID); err != nil || string(kept) != "{}" {
		t.Fatalf("preferences after the purge: %s, %v", kept, err)
	}
	if err := f.users.SetPreferences(t.Context(), ann.ID, []byte(`{"late":2}`)); err != nil {
		t.Fatal(err)
	}
	if kept, err := f.users.Preferences(t.Context(), f.db, ann.ID); err != nil || string(kept) != "{}" {
		t.Fatalf("preferences of nobody: %s, %v", kept, err)
	}
	if left, err := f.users.ListDeleted(t.Context(), f.db, drive.TimeOf(f.clock.Now()), 10); err != nil || len(left) != 0 {
		t.Fatalf("left after the purge: %v, %v", left, err)
	}
}

func TestPurgeIgnoresActiveUser(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ann := f.add(t, "ann", false)
	if err := f.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error { return f.users.Purge(ctx, tx, ann) }); err != nil {
		t.Fatal(err)
	}
	f.login(t, "ann")
}

func TestLastAdministratorStays(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first, second := f.add(t, "first", true), f.add(t, "second", true)
	if err := f.update(t, second.ID, Patch{State: Disabled}); err != nil {
		t.Fatal(err)
	}
	wantKind(t, f.update(t, first.ID, Patch{State: Disabled}), drive.WrongState)
	wantKind(t, f.remove(t, first.ID), drive.WrongState)
	no := false
	wantKind(t, f.update(t, first.ID, Patch{Admin: &no}), drive.WrongState)
	f.login(t, "first")
	if err := f.remove(t, second.ID); err != nil { // not active, so not the last active one
		t.Fatal(err)
	}
}

// TestConcurrentFirstPreferences: two concurrent first writes both succeed, and one of them stays.
func TestConcurrentFirstPreferences(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ann := f.add(t, "ann", false)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			if err := f.users.SetPreferences(t.Context(), ann.ID, fmt.Appendf(nil, `{"tab":%d}`, i)); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if kept, err := f.users.Preferences(t.Context(), f.db, ann.ID); err != nil || !strings.HasPrefix(string(kept), `{"tab":`) {
		t.Errorf("kept is %s, %v", kept, err)
	}
}
