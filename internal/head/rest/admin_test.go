package rest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/growth"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/head/rest"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

func TestDeadLettersAreListedReplayedAndDropped(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	boss := s.admin(t)
	err := s.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		for i := range 3 {
			r, err := stream.New(stream.TopicUploads, stream.UploadDone, drive.NewID[drive.AccountID](), fmt.Sprint(i), nil)
			if err != nil {
				return err
			}
			if err := s.letters.Add(ctx, tx, "indexer", r, 5, errors.New("dial tcp 10.0.0.1: refused")); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	page := boss.get(t, "/admin/dead-letters?limit=2")
	letters := page.items(t)
	if len(letters) != 2 || letters[0]["consumer"] != "indexer" || letters[0]["event"].(map[string]any)["subject"] != "0" {
		t.Fatalf("the letters are %s", page)
	}
	if letters[0]["error"] != "dial tcp 10.0.0.1: refused" {
		t.Errorf("the administrator does not see the error: %s", page)
	}
	next := page.json(t, http.StatusOK)["next_cursor"].(string)
	third := boss.get(t, "/admin/dead-letters?cursor="+next).items(t)[0]["id"].(string)
	if rest := boss.get(t, "/admin/dead-letters?cursor="+next).items(t); len(rest) != 1 {
		t.Errorf("the second page is %v", rest)
	}
	one, two := "/admin/dead-letters/"+letters[0]["id"].(string), "/admin/dead-letters/"+letters[1]["id"].(string)
	if got := boss.get(t, one); !strings.Contains(string(page.body), strings.TrimSpace(string(got.body))) {
		t.Errorf("one alone is %s, and in the list it is %v", got, letters[0])
	}
	for _, c := range []struct {
		method, path string
		status       int
	}{{"POST", one + "/replay", 204}, {"GET", one, 404}, {"POST", one + "/replay", 404}, {"DELETE", two, 204}, {"DELETE", two, 404}} {
		if got := boss.send(t, c.method, c.path, nil); got.StatusCode != c.status {
			t.Errorf("%s %s: %s", c.method, c.path, got)
		}
	}
	several := func(ids ...string) response {
		return boss.send(t, "POST", "/admin/dead-letters/replay", map[string]any{"ids": ids})
	}
	for want, ids := range []string{"999", third} { // one that is not there; one that is
		if got := several(ids).json(t, http.StatusOK)["replayed"]; got != float64(want) {
			t.Errorf("replay of %s: %v, want %d", ids, got, want)
		}
	}
	for _, ids := range [][]string{{}, {"x"}, make([]string, 1001)} {
		if got := several(ids...); got.StatusCode != http.StatusBadRequest {
			t.Errorf("replay of %d ids: %s", len(ids), got)
		}
	}
	if left := boss.get(t, "/admin/dead-letters").items(t); len(left) != 0 {
		t.Errorf("letters that were replayed are still listed: %v", left)
	}
}

func TestFindingsArePaged(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{}, func(o *rest.Options) {
		o.Findings = func(_ context.Context, cursor string, limit int) ([]rest.Finding, string, error) {
			if cursor == "2" {
				return []rest.Finding{{ID: "1", At: 1}}, "", nil
			}
			return []rest.Finding{{ID: "2", At: 2, Invariant: "Q1", Subject: "account", Expected: "1", Found: fmt.Sprint(limit), Repaired: true}}, "2", nil
		}
	})
	boss := s.admin(t)
	first := boss.get(t, "/admin/findings?limit=1")
	if got := first.items(t)[0]; got["invariant"] != "Q1" || got["found"] != "1" || got["repaired"] != true {
		t.Errorf("the finding is %v", got)
	}
	if got := boss.get(t, "/admin/findings?cursor="+first.json(t, 200)["next_cursor"].(string)).json(t, 200); got["next_cursor"] != nil {
		t.Errorf("the last page is %v", got)
	}
}

func TestAResetTakesOneAccountOrAll(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob, boss := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0), s.admin(t)
	for _, u := range []user{ann, bob} {
		u.post(t, "/uploads", map[string]any{"path": "/x", "size": 10}).json(t, http.StatusCreated)
	}
	account := ann.get(t, "/me").json(t, 200)["account"].(map[string]any)["id"]
	if got := boss.post(t, "/admin/uploads/reset", map[string]any{"account_id": account}).json(t, 200)["reset"]; got != 1.0 {
		t.Errorf("reset %v", got)
	}
	if got := boss.get(t, "/admin/uploads").items(t); len(got) != 1 || got[0]["user_id"] != bob.id {
		t.Errorf("left is %v", got)
	}
	if got := boss.post(t, "/admin/uploads/reset", `{"account_id":null}`).json(t, 200)["reset"]; got != 1.0 {
		t.Errorf("reset %v", got)
	}
}

// Who becomes an administrator may administer at once, with the session that they have, and who
// stops being one may not.
func TestARoleChangesAfterCreation(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u, boss := s.newUser(t, "ann", 0), s.admin(t)
	u.get(t, "/admin/users").problem(t, drive.Forbidden, nil)
	if got := boss.send(t, "PATCH", "/admin/users/"+u.id, `{"admin":true}`).json(t, http.StatusOK); got["admin"] != true {
		t.Errorf("the user is %v", got)
	}
	u.get(t, "/admin/users").json(t, http.StatusOK)
	me := boss.get(t, "/me").json(t, http.StatusOK)["user"].(map[string]any)["id"].(string)
	u.send(t, "PATCH", "/admin/users/"+me, `{"admin":false}`).json(t, http.StatusOK)
	boss.get(t, "/admin/users").problem(t, drive.Forbidden, nil)
	u.send(t, "PATCH", "/admin/users/"+u.id, `{"admin":false}`).problem(t, drive.WrongState, map[string]any{"state": "last-admin"})
	if got := u.send(t, "PATCH", "/admin/users/"+me, `{"state":"active"}`).json(t, http.StatusOK); got["admin"] != false {
		t.Errorf("a change of something else makes it %v", got["admin"])
	}
}

func TestDisabledUserIsRefused(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u, boss := s.newUser(t, "ann", 0), s.admin(t)
	boss.send(t, "PATCH", "/admin/users/"+u.id, `{"state":"disabled"}`).json(t, http.StatusOK)
	u.get(t, "/me").problem(t, drive.Unauthenticated, nil)
	boss.send(t, "PATCH", "/admin/users/"+u.id, `{"state":"active","password":"a new password"}`).json(t, http.StatusOK)
	u.get(t, "/me").problem(t, drive.Unauthenticated, nil) // the session ended with the password
	in := map[string]any{"name": "ann", "password": "a new password"}
	u.post(t, "/sessions", in).json(t, http.StatusCreated)
}

func TestWorkOnManyNodesBecomesAnOperation(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{}, func(o *rest.Options) {
		o.Files = files.New(files.Options{DB: o.DB, Tree: o.Uploads.Tree, Store: o.Uploads.Store, Direct: 2, Batch: 2, Now: o.Now})
		o.BaseURL = "https://example.org/drive/"
	})
	u := s.newUser(t, "ann", 0)
	for _, name := range []string{"1", "2", "3"} {
		u.put(t, "/many/"+name, []byte(name))
	}
	folder := u.get(t, "/nodes?path=/many").json(t, 200)["id"].(string)
	copied := u.post(t, "/nodes/"+folder+"/copy", map[string]any{"parent": "root", "name": "more"}, "Idempotency-Key", "k")
	op := copied.json(t, http.StatusAccepted)
	at := copied.Header.Get("Location")
	if at != "/drive/api/v1/operations/"+op["id"].(string) {
		t.Fatalf("Location is %q", at)
	}
	again := u.post(t, "/nodes/"+folder+"/copy", map[string]any{"parent": "root", "name": "more"}, "Idempotency-Key", "k")
	if again.StatusCode != http.StatusAccepted || again.Header.Get("Location") != at {
		t.Errorf("again: %s", again)
	}
	at = strings.TrimPrefix(at, "/drive/api/v1")
	if got := u.get(t, at).json(t, 200)["state"]; got != "running" {
		t.Errorf("the operation is %v", got)
	}
	s.admin(t).get(t, at).problem(t, drive.NotFound, nil)
	gone := u.send(t, "DELETE", "/nodes/"+folder+"?permanent=true", nil)
	if gone.json(t, http.StatusAccepted)["state"] != "running" || gone.Header.Get("Location") == "" {
		t.Errorf("deleted: %s", gone)
	}
}

func TestGrowthIsShownToAdministrators(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	boss := s.admin(t)
	if got := boss.get(t, "/admin/growth"); got.StatusCode != 200 || string(got.body) != `{"days":[]}` {
		t.Errorf("before there are figures: %s", got)
	}
	g := growth.New(s.DB, s.Clock.Now)
	free := drive.ByteSize(1000)
	if err := g.Record(t.Context(), &free); err != nil {
		t.Fatal(err)
	}
	days := boss.get(t, "/admin/growth?days=1").json(t, 200)["days"].([]any)
	if len(days) != 1 || days[0].(map[string]any)["free"] != 1000.0 || days[0].(map[string]any)["accounts"] == 0.0 {
		t.Errorf("the days are %v", days)
	}
	for _, days := range []string{"0", "3661", "x"} {
		if got := boss.get(t, "/admin/growth?days="+days); got.StatusCode != 400 {
			t.Errorf("%s days: %s", days, got)
		}
	}
}
