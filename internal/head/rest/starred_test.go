package rest_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/star"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

func (u user) star(t testing.TB, method string, id any, want int) {
	t.Helper()
	if r := u.send(t, method, fmt.Sprintf("/nodes/%v/star", id), nil); r.StatusCode != want {
		t.Fatalf("%s star of %v: %d %s", method, id, r.StatusCode, r.body)
	}
}

// wantPaths reads all pages of a list and compares the paths.
func (u user) wantPaths(t testing.TB, path string, want ...string) {
	t.Helper()
	got, cursor := []string{}, ""
	for {
		page := u.get(t, path+"?limit=2"+cursor).json(t, http.StatusOK)
		for _, n := range page["items"].([]any) {
			got = append(got, n.(map[string]any)["path"].(string))
		}
		next, more := page["next_cursor"].(string)
		if !more {
			break
		}
		cursor = "&cursor=" + next
	}
	if d := cmp.Diff(append([]string{}, want...), got); d != "" {
		t.Errorf("%s: %s", path, d)
	}
}

// TestStarsFollowTheirNodes: a star moves with its node, is hidden in the trash, returns with a
// restore, and is deleted with the node.
func TestStarsFollowTheirNodes(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	a := ann.send(t, "PUT", "/files/a.txt", []byte("a")).json(t, http.StatusCreated)["id"]
	folder := ann.mkdir(t, "/Plans").json(t, http.StatusCreated)["id"]
	b := ann.send(t, "PUT", "/files/Plans/b.txt", []byte("b")).json(t, http.StatusCreated)["id"]
	for _, id := range []any{a, folder, b, a} { // the second star of one does nothing, as a repeated request does
		ann.star(t, "PUT", id, http.StatusNoContent)
		s.Clock.Advance(1e6)
	}
	ann.wantPaths(t, "/starred", "/Plans/b.txt", "/Plans", "/a.txt")
	if ids := ann.get(t, "/starred/ids").json(t, http.StatusOK)["items"]; !cmp.Equal(ids, []any{b, folder, a}) {
		t.Errorf("ids %v", ids)
	}
	bob.wantPaths(t, "/starred") // a star is its user's
	bob.star(t, "PUT", a, http.StatusNotFound)

	ann.send(t, "PATCH", fmt.Sprintf("/nodes/%v", folder), map[string]any{"name": "Old plans"}).json(t, http.StatusOK)
	ann.wantPaths(t, "/starred", "/Old plans/b.txt", "/Old plans", "/a.txt")
	ann.send(t, "DELETE", fmt.Sprintf("/nodes/%v", folder), nil)
	ann.wantPaths(t, "/starred", "/a.txt")
	ann.post(t, fmt.Sprintf("/nodes/%v/restore", folder), "{}").json(t, http.StatusOK)
	ann.wantPaths(t, "/starred", "/Old plans/b.txt", "/Old plans", "/a.txt")

	ann.send(t, "DELETE", fmt.Sprintf("/nodes/%v?permanent=true", folder), nil)
	ann.wantPaths(t, "/starred", "/a.txt")
	if err := star.New(s.DB, nil).Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ids := ann.get(t, "/starred/ids").json(t, http.StatusOK)["items"]; !cmp.Equal(ids, []any{a}) {
		t.Errorf("ids after the purge %v", ids)
	}
	ann.star(t, "DELETE", a, http.StatusNoContent)
	ann.star(t, "DELETE", a, http.StatusNoContent)
	ann.wantPaths(t, "/starred")
	ann.get(t, "/starred?cursor=nonsense").problem(t, drive.CursorInvalid, nil)
}

// TestAStarGivesNoRight: what may not be seen is not shown, and is back when it may be seen.
func TestAStarGivesNoRight(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	team := ann.space(t, "Design")
	file := ann.send(t, "PUT", "/files/a.txt?space=design", []byte("a")).json(t, http.StatusCreated)["id"]
	bob.star(t, "PUT", file, http.StatusNotFound)
	member := ann.give(t, team["root_id"], "bob", "viewer")
	bob.star(t, "PUT", file, http.StatusNoContent)
	bob.wantPaths(t, "/starred", "//Design/a.txt")
	ann.take(t, member)
	bob.wantPaths(t, "/starred")
	ann.give(t, team["root_id"], "bob", "viewer")
	bob.wantPaths(t, "/starred", "//Design/a.txt")
}

// TestAStarInASharedFolder: out of the folder, out of the grant, and back.
func TestAStarInASharedFolder(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	folder := ann.mkdir(t, "/Plans").json(t, http.StatusCreated)["id"]
	file := ann.send(t, "PUT", "/files/Plans/b.txt", []byte("b")).json(t, http.StatusCreated)["id"]
	elsewhere := ann.mkdir(t, "/Private").json(t, http.StatusCreated)["id"]
	bob.star(t, "PUT", file, http.StatusNotFound)
	grant := ann.give(t, folder, "bob", "viewer")
	bob.star(t, "PUT", file, http.StatusNoContent)
	there := fmt.Sprintf("//%v/b.txt", folder)
	bob.wantPaths(t, "/starred", there)

	move := func(to any) {
		t.Helper()
		ann.send(t, "PATCH", fmt.Sprintf("/nodes/%v", file), map[string]any{"parent": to}).json(t, http.StatusOK)
	}
	move(elsewhere)
	bob.wantPaths(t, "/starred")
	ann.wantPaths(t, "/starred") // a star is its user's, and not the owner's
	move(folder)
	bob.wantPaths(t, "/starred", there)

	ann.take(t, grant)
	bob.wantPaths(t, "/starred")
	ann.give(t, folder, "bob", "uploader") // who may put files in, and see none
	bob.wantPaths(t, "/starred")
	ann.give(t, folder, "bob", "editor")
	bob.wantPaths(t, "/starred", there)
	ann.send(t, "DELETE", fmt.Sprintf("/nodes/%v", folder), nil)
	bob.wantPaths(t, "/starred")
	bob.wantPaths(t, "/recent") // of one's own drive only
}

// TestStarsAreBounded: the star above the limit is refused on every route.
func TestStarsAreBounded(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann := s.newUser(t, "ann", 0)
	me := ann.get(t, "/me").json(t, http.StatusOK)["user"].(map[string]any)["id"].(string)
	err := s.DB.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		for i := range star.MaxPerUser - 1 {
			if _, err := tx.Exec(ctx, "INSERT INTO stars (node_id, user_id, created_at) VALUES (?, ?, 0)", fmt.Sprintf("%036d", i), me); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var ids []any
	for i := range 4 {
		ids = append(ids, ann.mkdir(t, fmt.Sprintf("/f%d", i)).json(t, http.StatusCreated)["id"])
	}
	codes := make(chan int, len(ids))
	for _, id := range ids {
		go func() { codes <- ann.send(t, "PUT", fmt.Sprintf("/nodes/%v/star", id), nil).StatusCode }()
	}
	var got []int
	for range ids {
		got = append(got, <-codes)
	}
	slices.Sort(got)
	if d := cmp.Diff([]int{204, 429, 429, 429}, got); d != "" {
		t.Error(d)
	}
}

// TestRecentFiles: by the last change, whatever it was; folders and the trash are left out.
func TestRecentFiles(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann := s.newUser(t, "ann", 0)
	for _, name := range []string{"a", "b", "c", "d"} {
		ann.send(t, "PUT", "/files/x/"+name+"?parents=true", []byte(name)).json(t, http.StatusCreated)
	}
	ann.wantPaths(t, "/recent", "/x/d", "/x/c", "/x/b", "/x/a")
	a := ann.get(t, "/nodes?path=/x/a").json(t, http.StatusOK)["id"]
	ann.send(t, "PATCH", fmt.Sprintf("/nodes/%v", a), map[string]any{"name": "z"}).json(t, http.StatusOK)
	c := ann.get(t, "/nodes?path=/x/c").json(t, http.StatusOK)["id"]
	ann.send(t, "DELETE", fmt.Sprintf("/nodes/%v", c), nil)
	ann.wantPaths(t, "/recent", "/x/z", "/x/d", "/x/b")
	x := ann.get(t, "/nodes?path=/x").json(t, http.StatusOK)["id"]
	ann.send(t, "DELETE", fmt.Sprintf("/nodes/%v", x), nil)
	ann.wantPaths(t, "/recent")
	ann.post(t, fmt.Sprintf("/nodes/%v/restore", x), "{}").json(t, http.StatusOK)
	ann.wantPaths(t, "/recent", "/x/z", "/x/d", "/x/b")
	ann.get(t, "/recent?cursor=nonsense").problem(t, drive.CursorInvalid, nil)
}
