package rest_test

import (
	"net/http"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// The managers of a space decide who gives out links, and whether anything is shared with others
// than members. What was given out before obeys, and comes back.
func TestSettingsOfASpace(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob, eve := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0), s.newUser(t, "eve", 0)
	team := ann.space(t, "Team")
	at := "/spaces/" + team["id"].(string)
	folder := ann.mkdir(t, "//Team/out").json(t, http.StatusCreated)["id"].(string)
	ann.send(t, "PUT", "/files/out/f.txt?space=Team", []byte("text")).json(t, http.StatusCreated)
	ann.give(t, team["root_id"], "bob", "editor")
	set := func(body string) map[string]any {
		t.Helper()
		return ann.send(t, "PATCH", at, body).json(t, http.StatusOK)
	}
	if team["links"] != "editors" || team["outward"] != "managers" || team["trash_days"] != 0.0 || team["version_days"] != 0.0 {
		t.Errorf("a new space has %v", team)
	}
	bob.send(t, "PATCH", at, `{"links":"nobody"}`).problem(t, drive.Forbidden, map[string]any{"needs": "manager"})
	for body, field := range map[string]string{
		`{"links":"somebody"}`: "links", `{"outward":"editors"}`: "outward", `{"trash_days":-1}`: "trash_days", `{"version_days":3651}`: "version_days",
	} {
		ann.send(t, "PATCH", at, body).problem(t, drive.BadRequest, map[string]any{"field": field})
	}

	// Links may be created by editors, by managers only, or by nobody.
	link, made := bob.shareOf(t, folder, nil)
	sends, _ := bob.collectInto(t, folder, nil)
	anns, annMade := ann.shareOf(t, folder, nil)
	open := func(what string, bobs, annsOpen bool) {
		t.Helper()
		look := func(path string) bool {
			return s.do(t, request{method: "GET", path: "/api/v1/public/" + path}).StatusCode == http.StatusOK
		}
		if a, b, c := look("shares/"+link.token), look("collects/"+sends), look("shares/"+anns.token); a != bobs || b != bobs || c != annsOpen {
			t.Errorf("%s: bob's open %v, %v, ann's %v", what, a, b, c)
		}
	}
	share, collect := map[string]any{"node": folder}, map[string]any{"folder": folder, "title": "x"}
	open("as it was", true, true)
	set(`{"links":"managers"}`)
	open("managers", false, true)
	bob.post(t, "/shares", share).problem(t, drive.Forbidden, map[string]any{"needs": "manager"})
	ann.post(t, "/shares", share).json(t, http.StatusCreated)
	set(`{"links":"nobody"}`)
	open("nobody", false, false)
	for _, u := range []user{ann, bob} {
		u.post(t, "/shares", share).problem(t, drive.Forbidden, nil)
		u.post(t, "/collects", collect).problem(t, drive.Forbidden, nil)
	}
	eve.post(t, "/shares", share).problem(t, drive.NotFound, nil)
	// A manager of the folder still sees and ends all links.
	for _, one := range []map[string]any{made, annMade} {
		ann.get(t, "/shares/"+one["id"].(string)).json(t, http.StatusOK)
	}
	for path, want := range map[string]int{"/shares?node=": 3, "/collects?folder=": 1} {
		if got := len(ann.get(t, path+folder).items(t)); got != want {
			t.Errorf("while nobody makes links ann is shown %d of %d by %s", got, want, path)
		}
	}
	if got := len(bob.get(t, "/shares?node="+folder).items(t)); got != 0 {
		t.Errorf("and bob is shown %d", got)
	}
	set(`{"links":"editors"}`)
	open("again", true, true)

	// While sharing outside of the space is off, roles of other users have no effect.
	sees := func(what string, want bool) {
		t.Helper()
		if got := eve.get(t, "/nodes/"+folder).StatusCode == http.StatusOK; got != want {
			t.Errorf("%s: eve sees it: %v", what, got)
		}
		listed := false
		for _, item := range eve.get(t, "/shared-with-me").items(t) {
			listed = listed || item["node"].(map[string]any)["name"] == "out"
		}
		if listed != want {
			t.Errorf("%s: eve has it listed: %v", what, listed)
		}
	}
	ann.give(t, folder, "eve", "editor")
	sees("given", true)
	set(`{"outward":"nobody"}`)
	sees("nobody gives anything to others", false)
	if got := eve.get(t, "/nodes/"+folder+"/children"); got.StatusCode != http.StatusNotFound {
		t.Errorf("eve lists it: %s", got)
	}
	if got := eve.send(t, "PUT", "/files/new.txt?space="+folder, []byte("x")); got.StatusCode != http.StatusNotFound {
		t.Errorf("eve puts a file there: %s", got)
	}
	idle := map[string]bool{}
	for _, g := range ann.get(t, "/nodes/"+folder+"/access").json(t, http.StatusOK)["grants"].([]any) {
		above := g.(map[string]any)
		idle[above["grant"].(map[string]any)["name"].(string)] = above["idle"].(bool)
	}
	if !idle["eve"] || idle["ann"] || idle["bob"] {
		t.Errorf("who has access: %v", idle)
	}
	ann.give(t, folder, "eve", "viewer") // less than before
	to := map[string]any{"kind": "user", "principal": "eve", "role": "editor"}
	ann.post(t, "/nodes/"+folder+"/grants", to).problem(t, drive.Forbidden, nil)
	ann.give(t, folder, "bob", "manager") // a member
	if got := bob.get(t, "/nodes/"+folder).StatusCode; got != http.StatusOK {
		t.Errorf("a member sees it: %d", got)
	}
	ann.give(t, team["root_id"], "eve", "viewer") // is one now
	sees("a member", true)
	set(`{"outward":"managers"}`)
	sees("again", true)

	if got := set(`{"trash_days":7,"version_days":1}`); got["trash_days"] != 7.0 || got["version_days"] != 1.0 || got["links"] != "editors" {
		t.Errorf("set to %v", got)
	}
	var noted int
	for _, item := range ann.get(t, "/activity?space=Team&limit=1000").items(t) {
		if item["type"] == "space.changed" {
			noted++
		}
	}
	if noted != 6 {
		t.Errorf("%d of 6 changes are noted", noted)
	}
}
