package rest_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/files"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// grantFor sends a grant to a user that ends after so many seconds; 0: never.
func (u user) grantFor(t testing.TB, node any, name, role string, seconds int64) response {
	t.Helper()
	in := map[string]any{"kind": "user", "principal": name, "role": role}
	if seconds > 0 {
		in["expires_in"] = seconds
	}
	return u.post(t, fmt.Sprintf("/nodes/%v/grants", node), in)
}

// TestGrantCannotOutliveGrantor: a manager whose role ends in an hour grants no longer role, not
// even to themselves.
func TestGrantCannotOutliveGrantor(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	s.newUser(t, "eve", 0)
	root := ann.space(t, "Team")["root_id"]
	folder := ann.mkdir(t, "//Team/in").json(t, http.StatusCreated)["id"]
	ann.grantFor(t, root, "bob", "manager", 3600).json(t, http.StatusCreated)
	for _, node := range []any{root, folder} {
		for _, name := range []string{"bob", "eve"} {
			for _, seconds := range []int64{0, 3700} {
				bob.grantFor(t, node, name, "manager", seconds).problem(t, drive.BadRequest, map[string]any{"field": "expires_in", "max": 3600.0})
			}
		}
	}
	bob.grantFor(t, root, "eve", "editor", 1800).json(t, http.StatusCreated)
	bob.grantFor(t, folder, "eve", "none", 0).json(t, http.StatusCreated)
	s.Clock.Advance(3601 * time.Second)
	if got := bob.look(t, "//Team"); got != http.StatusNotFound {
		t.Errorf("bob's role has ended: %d", got)
	}

	// What ends beside what lasts is not the end: a second way to the same right.
	ann.give(t, root, "bob", "manager")
	ann.grantFor(t, folder, "bob", "manager", 60).json(t, http.StatusCreated)
	bob.grantFor(t, folder, "eve", "editor", 0).json(t, http.StatusCreated)
}

// TestRestrictingRoleCannotBeLeft: a user cannot leave a role that narrows an inherited one, not
// even in an archived space.
func TestRestrictingRoleCannotBeLeft(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	team := ann.space(t, "Team")
	folder := ann.mkdir(t, "//Team/in").json(t, http.StatusCreated)["id"].(string)
	ann.give(t, team["root_id"], "bob", "editor")
	ann.give(t, folder, "bob", "viewer")
	leave := fmt.Sprintf("/nodes/%s/grants/%s", folder, bob.id)
	bob.send(t, "DELETE", leave, nil).problem(t, drive.Forbidden, nil)
	state := func(state string) {
		s.admin(t).send(t, "PATCH", "/admin/spaces/"+team["id"].(string), map[string]any{"state": state}).json(t, http.StatusOK)
	}
	state("archived")
	bob.send(t, "DELETE", leave, nil).problem(t, drive.Forbidden, nil)
	state("active")
	bob.mkdir(t, "//Team/in/x").problem(t, drive.Forbidden, nil)
	if r := bob.send(t, "DELETE", fmt.Sprintf("/nodes/%v/grants/%s", team["root_id"], bob.id), nil); r.StatusCode != http.StatusNoContent {
		t.Errorf("bob leaves the space: %v", r)
	}
}

// TestTheOnlyRoleCanBeLeft: a user who leaves the only role loses access in the same transaction.
func TestTheOnlyRoleCanBeLeft(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	folder := ann.mkdir(t, "/in").json(t, http.StatusCreated)["id"].(string)
	ann.give(t, folder, "bob", "editor")
	if r := bob.send(t, "DELETE", fmt.Sprintf("/nodes/%s/grants/%s", folder, bob.id), nil); r.StatusCode != http.StatusNoContent {
		t.Errorf("bob leaves: %v", r)
	}
	if got := bob.look(t, "//"+folder); got != http.StatusNotFound {
		t.Errorf("after leaving: %d", got)
	}
	left := ann.get(t, "/activity?node="+folder+"&type=grant").items(t)
	if len(left) != 2 || left[0]["type"] != "grant.taken" {
		t.Fatalf("noted: %v", left)
	}
	for _, e := range left { // who it was is said, however the user is called later
		if d := e["data"].(map[string]any); d["name"] != "bob" || d["kind"] != "user" || d["role"] != "editor" {
			t.Errorf("noted: %v", e)
		}
	}
}

// TestAGroupManagesOnlyThroughItsMembers: an empty group is not a manager, and no group loses its
// last member, or is deleted, while a space has no other manager.
func TestAGroupManagesOnlyThroughItsMembers(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	boss := s.admin(t)
	team := ann.space(t, "Team")
	root := team["root_id"]
	group := boss.post(t, "/admin/groups", map[string]any{"name": "Crew"}).json(t, http.StatusCreated)["id"].(string)
	ann.post(t, fmt.Sprintf("/nodes/%v/grants", root), map[string]any{"kind": "group", "principal": "Crew", "role": "manager"}).json(t, http.StatusCreated)
	last := map[string]any{"state": "last-manager"}
	mine := fmt.Sprintf("/nodes/%v/grants/%s", root, ann.id)
	ann.send(t, "DELETE", mine, nil).problem(t, drive.WrongState, last)
	member := fmt.Sprintf("/admin/groups/%s/members/%s", group, bob.id)
	boss.send(t, "PUT", member, nil)
	if r := ann.send(t, "DELETE", mine, nil); r.StatusCode != http.StatusNoContent {
		t.Fatalf("bob manages it, too: %v", r)
	}
	last["name"] = "Team"
	boss.send(t, "DELETE", member, nil).problem(t, drive.WrongState, last)
	boss.send(t, "DELETE", "/admin/groups/"+group, nil).problem(t, drive.WrongState, last)

	// A user is disabled whatever they manage; an administrator repairs it.
	boss.send(t, "PATCH", "/admin/users/"+bob.id, map[string]any{"state": "disabled"}).json(t, http.StatusOK)
	boss.grantFor(t, root, "ann", "viewer", 0).json(t, http.StatusCreated)
	boss.grantFor(t, root, "ann", "manager", 0).json(t, http.StatusCreated)
	for _, at := range []string{member, "/admin/groups/" + group} {
		if r := boss.send(t, "DELETE", at, nil); r.StatusCode != http.StatusNoContent {
			t.Errorf("%s: %v", at, r)
		}
	}
}

// TestLinksAreForEditorsToMake, and end with the right to make them.
func TestLinksAreForEditorsToMake(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	ann.put(t, "/in/f.txt", []byte("x"))
	folder, file := ann.at(t, "/in"), ann.at(t, "/in/f.txt")
	ann.give(t, folder, "bob", "viewer")
	bob.post(t, "/nodes/"+file+"/links", map[string]any{"expires_in": 60}).problem(t, drive.Forbidden, map[string]any{"needs": "editor"})
	ann.give(t, folder, "bob", "editor")
	url := bob.post(t, "/nodes/"+file+"/links", map[string]any{"expires_in": 60}).json(t, http.StatusCreated)["url"].(string)
	open := func() response { return s.do(t, request{method: "GET", path: url}) }
	if got := open(); string(got.body) != "x" {
		t.Fatal(got)
	}
	ann.give(t, folder, "bob", "viewer")
	open().problem(t, drive.Gone, map[string]any{"reason": "link-void"})
}

// TestMoveDoesNotEscalateRights: an editor of a folder cannot move its items to a folder that the
// editor manages, where they could be deleted forever.
func TestMoveDoesNotEscalateRights(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	root := ann.space(t, "Team")["root_id"]
	for _, path := range []string{"/edited", "/managed", "/edited/own", "/also"} {
		ann.mkdir(t, "//Team"+path).json(t, http.StatusCreated)
	}
	at := func(path string) string { return ann.at(t, "//Team"+path) }
	ann.give(t, root, "bob", "viewer")
	ann.give(t, at("/edited"), "bob", "editor")
	ann.give(t, at("/also"), "bob", "editor")
	ann.give(t, at("/managed"), "bob", "manager")
	ann.give(t, at("/edited/own"), "bob", "manager")
	file := ann.send(t, "PUT", "/files/edited/f.txt?space=Team", []byte("x")).json(t, http.StatusCreated)["id"].(string)
	bob.send(t, "PATCH", "/nodes/"+file, map[string]any{"parent": at("/managed")}).problem(t, drive.Forbidden, map[string]any{"needs": "manager"})
	if r := bob.send(t, "DELETE", "/nodes/"+file, nil); r.StatusCode != http.StatusNoContent {
		t.Fatal(r)
	}
	bob.post(t, "/nodes/"+file+"/restore", map[string]any{"parent": at("/managed")}).problem(t, drive.Forbidden, map[string]any{"needs": "manager"})
	bob.post(t, "/nodes/"+file+"/restore", "{}").json(t, http.StatusOK)
	bob.send(t, "PATCH", "/nodes/"+file, map[string]any{"parent": at("/also")}).json(t, http.StatusOK)
	// What they manage goes wherever they may put it.
	own := bob.send(t, "PUT", "/files/managed/g.txt?space=Team", []byte("x")).json(t, http.StatusCreated)["id"].(string)
	bob.send(t, "PATCH", "/nodes/"+own, map[string]any{"parent": at("/edited")}).json(t, http.StatusOK)
}

// TestACopyEndsWithTheRight: a copy in the background asks before each step.
func TestACopyEndsWithTheRight(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{"source", "target"} {
		s := newStackOf(t, uploadtest.Options{}, files.Options{Batch: 2, Direct: 2, OnStart: func(drive.OperationID) {}})
		ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
		for i := range 9 {
			ann.put(t, fmt.Sprint("/from/f", i), []byte("x"))
		}
		ann.mkdir(t, "/to").json(t, http.StatusCreated)
		from, to := ann.give(t, ann.at(t, "/from"), "bob", "viewer"), ann.give(t, ann.at(t, "/to"), "bob", "editor")
		op := bob.post(t, fmt.Sprintf("/nodes/%v/copy", from["node_id"]), map[string]any{"parent": to["node_id"]}).
			json(t, http.StatusAccepted)
		id, err := drive.ParseID[drive.OperationID](op["id"].(string))
		if err != nil {
			t.Fatal(err)
		}
		ann.take(t, map[string]map[string]any{"source": from, "target": to}[lost])
		if err := s.files.Operations.Run(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if got := bob.get(t, "/operations/"+id.String()).json(t, http.StatusOK); got["state"] != "failed" || got["error"] != "not-found" {
			t.Errorf("%s is lost: the copy is %v", lost, got)
		}
		if got := ann.names(t, "/nodes/"+to["node_id"].(string)+"/children"); len(got) != 0 {
			t.Errorf("%s is lost: there is %v", lost, got)
		}
		ann.checkLedger(t)
	}
}

// TestChangeFeedHidesInvisibleNodes: for a member who does not see all of a space, the feed reveals
// invisible nodes only by ids that the member has seen before.
func TestChangeFeedHidesInvisibleNodes(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	root := ann.space(t, "Team")["root_id"]
	ann.give(t, root, "bob", "viewer")
	hidden := ann.mkdir(t, "//Team/hidden").json(t, http.StatusCreated)["id"].(string)
	ann.give(t, hidden, "bob", "none")
	file := ann.send(t, "PUT", "/files/hidden/f.txt?space=Team", []byte("x")).json(t, http.StatusCreated)["id"].(string)
	gone := ann.send(t, "PUT", "/files/hidden/g.txt?space=Team", []byte("x")).json(t, http.StatusCreated)["id"].(string)
	ann.send(t, "DELETE", "/nodes/"+gone+"?permanent=true", nil)
	seen := ann.mkdir(t, "//Team/seen").json(t, http.StatusCreated)["id"].(string)
	feed := bob.get(t, "/changes?space=Team")
	for _, id := range []string{hidden, file, gone} {
		if strings.Contains(feed.String(), id) {
			t.Errorf("bob is told of %s: %s", id, feed)
		}
		sum := sha256.Sum256([]byte(id))
		if !strings.Contains(feed.String(), hex.EncodeToString(sum[:])) {
			t.Errorf("who has seen %s does not learn that it has gone: %s", id, feed)
		}
	}
	if !strings.Contains(feed.String(), seen) {
		t.Errorf("what bob sees is missing: %s", feed)
	}
	if all := ann.get(t, "/changes?space=Team").String(); !strings.Contains(all, file) || !strings.Contains(all, gone) {
		t.Errorf("ann, who manages it, is told %s", all)
	}
}

// bend is a body that does something in the middle.
type bend struct {
	do   func()
	data io.Reader
}

func (b *bend) Read(p []byte) (int, error) {
	if b.do != nil {
		b.do()
		b.do = nil
	}
	return b.data.Read(p)
}

// TestChangedPathIsResolvedAgain: while a file is sent, another folder gets the name of
// the one that it was sent to.
func TestChangedPathIsResolvedAgain(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	root := ann.space(t, "Team")["root_id"]
	in := ann.mkdir(t, "//Team/in").json(t, http.StatusCreated)["id"].(string)
	other := ann.mkdir(t, "//Team/other").json(t, http.StatusCreated)["id"].(string)
	ann.give(t, root, "bob", "editor")
	ann.give(t, other, "bob", "none")
	swap := func() {
		ann.send(t, "PATCH", "/nodes/"+in, map[string]any{"name": "was"}).json(t, http.StatusOK)
		ann.send(t, "PATCH", "/nodes/"+other, map[string]any{"name": "in"}).json(t, http.StatusOK)
	}
	bob.send(t, "PUT", "/files/in/f.txt?space=Team", &bend{swap, strings.NewReader("x")}).problem(t, drive.NotFound, nil)
	if got := ann.names(t, "/nodes/"+other+"/children"); len(got) != 0 {
		t.Errorf("there is %v", got)
	}
	bob.send(t, "PUT", "/files/was/f.txt?space=Team", &bend{nil, strings.NewReader("x")}).json(t, http.StatusCreated)
}

// TestRefusedBatchFileCreatesNoFolders, also beside others of its group.
func TestRefusedBatchFileCreatesNoFolders(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	var parts []any
	for i := range 40 {
		more := []any{"parents", true}
		if i%2 == 1 {
			more = append(more, "if_match", `"0011223344556677"`)
		}
		line, data := put(fmt.Sprintf("/%d/f", i), []byte("x"), more...)
		parts = append(parts, line, data)
	}
	answers, _ := u.batch(t, frames(t, parts...))
	for i, a := range answers {
		want := map[bool]int{true: http.StatusNotFound, false: http.StatusOK}[i%2 == 1]
		if got := u.look(t, fmt.Sprintf("/%d", i)); got != want {
			t.Fatalf("item %d was answered %v: its folder is %d", i, a["status"], got)
		}
	}
}

// TestBatchSeesItsOwnMoves: what an item before has put into a folder counts when the
// folder goes somewhere deep.
func TestBatchSeesItsOwnMoves(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", 0)
	long := strings.Repeat("/d", 60)
	u.mkdir(t, "/deep"+long).json(t, http.StatusCreated)
	u.mkdir(t, "/low"+strings.Repeat("/d", 80)).json(t, http.StatusCreated)
	u.mkdir(t, "/way").json(t, http.StatusCreated)
	way, deep, low := u.at(t, "/way"), u.at(t, "/deep"), u.at(t, "/low"+strings.Repeat("/d", 80))
	var parts []any
	for i := range 20 { // so that what follows is ready when its group is gathered
		line, data := put(fmt.Sprintf("/%d", i), []byte("x"))
		parts = append(parts, line, data)
	}
	parts = append(parts, item{"op": "move", "id": deep, "parent": way}, item{"op": "move", "id": way, "parent": low})
	answers, _ := u.batch(t, frames(t, parts...))
	if got := outcomes(answers[20:]); got != "200, 422 bad-name" && got != "200, 400 bad-name" {
		t.Errorf("the answers are %s", got)
	}
}
