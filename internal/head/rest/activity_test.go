package rest_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/activity/activitytest"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// told returns the entries of an activity page, the oldest first: type, name and actor.
func told(t testing.TB, items []map[string]any) (all []string) {
	t.Helper()
	for _, it := range slices.Backward(items) {
		who := "nobody"
		if by, ok := it["by"].(map[string]any); ok {
			who = by["name"].(string)
		}
		all = append(all, fmt.Sprintf("%v %v by %v", it["type"], it["name"], who))
	}
	return all
}

// TestActivityIsListed follows a file's activity and who may see it.
func TestActivityIsListed(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob, eve := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0), s.newUser(t, "eve", 0)
	team := ann.space(t, "Design")
	ann.give(t, team["root_id"], "bob", "editor")
	file := bob.send(t, "PUT", "/files/Plans/a.txt?space=design&parents=true", []byte("one")).json(t, http.StatusCreated)
	id := file["id"].(string)
	bob.send(t, "PUT", "/files/Plans/a.txt?space=design", []byte("two")).json(t, http.StatusOK)
	ann.send(t, "PATCH", "/nodes/"+id, map[string]any{"name": "b.txt"}).json(t, http.StatusOK)
	bob.send(t, "DELETE", "/nodes/"+id, nil)

	all := ann.get(t, "/activity?space=Design").items(t)
	if d := cmp.Diff([]string{
		"space.created Design by admin", "grant.set  by ann", "node.created Plans by bob", "node.created a.txt by bob", "node.changed a.txt by bob",
		"node.moved b.txt by ann", "node.trashed b.txt by bob",
	}, told(t, all)); d != "" {
		t.Error(d)
	}
	if all[0]["restore"] != "trash" || all[0]["head"] != "api" {
		t.Errorf("the last one is %v", all[0])
	}
	ann.post(t, "/nodes/"+id+"/restore", "{}").json(t, http.StatusOK)
	all = ann.get(t, "/activity?node="+id+"&type=node.changed").items(t)
	if len(all) != 1 || all[0]["restore"] != "version" || all[0]["path"] != "//Design/Plans/b.txt" {
		t.Fatalf("the change is told as %v", all)
	}
	was := all[0]["data"].(map[string]any)["was_version"].(string)
	ann.post(t, "/nodes/"+id+"/versions/"+was+"/restore", "{}").json(t, http.StatusOK)

	// By pages it is the same.
	var paged []map[string]any
	for next := ""; ; {
		page := ann.get(t, "/activity?space=Design&limit=2"+next).json(t, http.StatusOK)
		for _, it := range page["items"].([]any) {
			paged = append(paged, it.(map[string]any))
		}
		cursor, more := page["next_cursor"].(string)
		if !more {
			break
		}
		next = "&cursor=" + url.QueryEscape(cursor)
	}
	if d := cmp.Diff(told(t, ann.get(t, "/activity?space=Design").items(t)), told(t, paged)); d != "" {
		t.Error(d)
	}

	// A guest sees what was done to visible nodes, without addresses, and nothing of hidden nodes.
	ann.mkdir(t, "//Design/Secret").json(t, http.StatusCreated)
	secret := ann.get(t, "/nodes?path="+url.QueryEscape("//Design/Secret")).json(t, http.StatusOK)["id"]
	ann.give(t, secret, "bob", "none")
	for _, it := range bob.get(t, "/activity?space=Design").items(t) {
		if it["name"] == "Secret" || it["type"] == "grant.set" || it["address"] != nil || it["head"] != nil {
			t.Errorf("bob is told of %v", it)
		}
	}
	bob.get(t, fmt.Sprintf("/activity?node=%v", secret)).problem(t, drive.NotFound, nil)
	eve.get(t, "/activity?space=Design").problem(t, drive.NotFound, nil)
	eve.get(t, "/activity?node="+id).problem(t, drive.NotFound, nil)
	if n := len(eve.get(t, "/activity?type=node,grant,space").items(t)); n != 0 {
		t.Errorf("eve has done nothing, and is told of %d things", n)
	}
	ann.get(t, "/activity?cursor=x").problem(t, drive.CursorInvalid, nil)

	// The owner still sees the entries of a file that was deleted forever.
	mine := eve.send(t, "PUT", "/files/x.txt", []byte("x")).json(t, http.StatusCreated)["id"].(string)
	eve.send(t, "DELETE", "/nodes/"+mine+"?permanent=true", nil)
	if d := cmp.Diff([]string{"node.created x.txt by eve", "node.doomed x.txt by eve", "node.deleted x.txt by eve"}, told(t, eve.get(t, "/activity?node="+mine).items(t))); d != "" {
		t.Error(d)
	}
	ann.get(t, "/activity?node="+mine).problem(t, drive.NotFound, nil)
	for _, account := range []string{team["id"].(string)} {
		parsed, err := drive.ParseID[drive.AccountID](account)
		if err != nil {
			t.Fatal(err)
		}
		activitytest.Check(t, s.DB, parsed)
	}
}
