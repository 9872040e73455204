package rest_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// space creates a space that u manages.
func (u user) space(t testing.TB, name string) map[string]any {
	t.Helper()
	me := u.get(t, "/me").json(t, http.StatusOK)["user"].(map[string]any)["id"]
	return u.admin(t).post(t, "/admin/spaces", map[string]any{"name": name, "manager": me}).json(t, http.StatusCreated)
}

// give grants a user a role at a node.
func (u user) give(t testing.TB, node any, name, role string) map[string]any {
	t.Helper()
	in := map[string]any{"kind": "user", "principal": name, "role": role}
	return u.post(t, fmt.Sprintf("/nodes/%v/grants", node), in).json(t, http.StatusCreated)
}

func (u user) take(t testing.TB, grant map[string]any) {
	t.Helper()
	at := fmt.Sprintf("/nodes/%v/grants/%v", grant["node_id"], grant["principal_id"])
	if r := u.send(t, "DELETE", at, nil); r.StatusCode != http.StatusNoContent {
		t.Fatal(r)
	}
}

// look returns the kind of answer that a path gives.
func (u user) look(t testing.TB, path string) int {
	t.Helper()
	return u.get(t, "/nodes?path="+url.QueryEscape(path)).StatusCode
}

func (u user) mkdir(t testing.TB, path string) response {
	t.Helper()
	return u.post(t, "/nodes", map[string]any{"path": path, "type": "folder", "parents": true})
}

// TestASpaceIsADriveOfItsMembers tells the story of three people and a space.
func TestASpaceIsADriveOfItsMembers(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob, eve := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0), s.newUser(t, "eve", 0)
	team := ann.space(t, "Design")
	ann.mkdir(t, "//Design/Plans/2027").json(t, http.StatusCreated)
	member := ann.give(t, team["root_id"], "bob", "editor")

	// Bob works in it as in his own drive, and sees where things are by the name of the space.
	file := bob.send(t, "PUT", "/files/Plans/2027/a.txt?space=design", []byte("hello")).json(t, http.StatusCreated)
	if got := file["path"]; got != "//Design/Plans/2027/a.txt" {
		t.Errorf("the file is at %v", got)
	}
	up := bob.post(t, "/uploads", map[string]any{"path": "//Design/Plans/b.bin", "size": 5}).json(t, http.StatusCreated)
	bob.send(t, "PUT", "/uploads/"+up["id"].(string)+"/parts/0", []byte("world"))
	done := bob.post(t, "/uploads/"+up["id"].(string)+"/complete", "{}").json(t, http.StatusCreated)["node"].(map[string]any)
	if got := done["path"]; got != "//Design/Plans/b.bin" {
		t.Errorf("the upload is at %v", got)
	}
	listed := pathsOf(bob.get(t, "/nodes/"+file["parent_id"].(string)+"/children").items(t))
	if d := cmp.Diff([]string{"//Design/Plans/2027/a.txt"}, listed); d != "" {
		t.Error(d)
	}
	found := pathsOf(bob.get(t, "/search?q=.txt&in="+url.QueryEscape("//design")).items(t))
	if d := cmp.Diff([]string{"//Design/Plans/2027/a.txt"}, found); d != "" {
		t.Error(d)
	}
	bob.send(t, "DELETE", "/nodes/"+file["id"].(string), nil)
	if d := cmp.Diff([]string{"//Design/Plans/2027/a.txt"}, pathsOf(ann.get(t, "/trash?space=Design").items(t))); d != "" {
		t.Error(d)
	}
	bob.post(t, "/nodes/"+file["id"].(string)+"/restore", "{}").json(t, http.StatusOK)
	bob.send(t, "DELETE", "/nodes/"+file["id"].(string)+"?permanent=true", nil).problem(t, drive.Forbidden, map[string]any{"needs": "manager"})
	if n := len(bob.get(t, "/changes?space=Design").json(t, http.StatusOK)["items"].([]any)); n < 4 {
		t.Errorf("%d changes", n)
	}

	// The file is charged to the space only.
	if used := ann.get(t, "/spaces/"+team["id"].(string)).json(t, http.StatusOK)["usage"].(map[string]any)["used"]; used != 10.0 {
		t.Errorf("the space has %v bytes", used)
	}
	if used := bob.get(t, "/me").json(t, http.StatusOK)["usage"].(map[string]any)["used"]; used != 0.0 {
		t.Errorf("bob has %v bytes", used)
	}
	for who, want := range map[*user]int{&ann: 1, &bob: 1, &eve: 0} {
		if got := len(who.get(t, "/spaces").items(t)); got != want {
			t.Errorf("%d spaces, want %d", got, want)
		}
	}

	// Eve is not a member, so nothing exists for her. Bob loses access at once when he is removed.
	for _, path := range []string{"//Design", "//Design/Plans", "//design/Plans/2027/a.txt", "//nothing"} {
		if got := eve.look(t, path); got != http.StatusNotFound {
			t.Errorf("eve asks for %s: %d", path, got)
		}
	}
	ann.take(t, member)
	for _, path := range []string{"//Design", "//Design/Plans/2027/a.txt", "//" + team["id"].(string)} {
		if got := bob.look(t, path); got != http.StatusNotFound {
			t.Errorf("bob asks for %s after he has left: %d", path, got)
		}
	}
	bob.get(t, "/nodes/"+file["id"].(string)+"/content").problem(t, drive.NotFound, nil)
	if got := ann.get(t, "/nodes/"+file["id"].(string)+"/content"); string(got.body) != "hello" {
		t.Errorf("ann reads %s", got)
	}
}

func pathsOf(items []map[string]any) (all []string) {
	for _, n := range items {
		all = append(all, n["path"].(string))
	}
	return all
}

// TestReceiverRenamesShare hides and renames a shared folder, and restores a deleted space.
func TestReceiverRenamesShare(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob, eve := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0), s.newUser(t, "eve", 0)
	ann.mkdir(t, "/Plans").json(t, http.StatusCreated)
	folder := ann.at(t, "/Plans")
	for _, who := range []string{"bob", "eve"} {
		ann.give(t, folder, who, "viewer")
	}
	bob.send(t, "PATCH", "/shared-with-me/"+folder, map[string]any{"name": "Ann's plans", "hidden": true})
	if got := bob.get(t, "/shared-with-me").items(t); len(got) != 0 {
		t.Errorf("bob sees what is hidden: %v", got)
	}
	got := bob.get(t, "/shared-with-me?hidden=true").items(t)
	if len(got) != 1 || got[0]["alias"] != "Ann's plans" || got[0]["owner"] != "ann" || got[0]["hidden"] != true || got[0]["node"].(map[string]any)["name"] != "Plans" {
		t.Errorf("bob has hidden: %v", got)
	}
	if got := eve.get(t, "/shared-with-me").items(t); len(got) != 1 || got[0]["alias"] != "" {
		t.Errorf("eve sees what bob calls it: %v", got)
	}
	ann.send(t, "PATCH", "/shared-with-me/"+folder, map[string]any{"hidden": true}).problem(t, drive.NotFound, nil)
	if role := bob.get(t, "/nodes/"+folder).json(t, http.StatusOK)["role"]; role != "viewer" {
		t.Errorf("bob is %v", role)
	}
	if role, told := ann.get(t, "/nodes/"+folder).json(t, http.StatusOK)["role"]; told {
		t.Errorf("ann is told that she is %v in her own drive", role)
	}

	for i := range 31 {
		r := eve.get(t, "/people?q=bo")
		if i < 30 && r.StatusCode != http.StatusOK {
			t.Fatalf("search %d: %s", i, r)
		}
		if i == 30 {
			r.problem(t, drive.Rate, nil)
		}
	}
	if found := bob.get(t, "/people?q=an").items(t); len(found) != 1 || found[0]["name"] != "ann" {
		t.Errorf("found: %v", found)
	}

	root := ann.admin(t)
	team := ann.space(t, "Gone")
	if got := root.get(t, "/admin/spaces?deleted=true").items(t); len(got) != 0 {
		t.Errorf("deleted: %v", got)
	}
	root.send(t, "DELETE", "/admin/spaces/"+team["id"].(string), nil)
	if got := root.get(t, "/admin/spaces?deleted=true").items(t); len(got) != 1 || got[0]["name"] != "Gone" || got[0]["deleted_at"] == nil {
		t.Errorf("deleted: %v", got)
	}
}

// TestAFolderIsSharedByName shares a folder of a personal drive; what lies above it is not told.
func TestAFolderIsSharedByName(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	ann.put(t, "/Private/Secret/Shared/in/f.txt", []byte("x"))
	folder, inner := ann.at(t, "/Private/Secret/Shared"), ann.at(t, "/Private/Secret/Shared/in")
	ann.give(t, folder, "bob", "viewer")

	items := bob.get(t, "/shared-with-me").items(t)
	if len(items) != 1 || items[0]["path"] != "//"+folder || items[0]["node"].(map[string]any)["name"] != "Shared" {
		t.Fatalf("shared with bob: %v", items)
	}
	top := bob.get(t, "/nodes/"+folder).json(t, http.StatusOK)
	if top["path"] != "//"+folder || top["parent_id"] != nil {
		t.Errorf("bob is told of what lies above: %v", top)
	}
	for _, raw := range []response{
		bob.get(t, "/nodes/"+folder+"/children"), bob.get(t, "/nodes?path="+url.QueryEscape("//"+folder+"/in/f.txt")),
		bob.get(t, "/search?q=f.txt&in="+url.QueryEscape("//"+folder)), bob.get(t, "/shared-with-me"), bob.get(t, "/nodes/"+folder+"/access"),
	} {
		if raw.StatusCode != http.StatusOK || bytes.Contains(raw.body, []byte("Secret")) || bytes.Contains(raw.body, []byte("Private")) {
			t.Errorf("what lies above is told: %s", raw)
		}
	}
	if got := bob.get(t, "/search?q=f.txt&in="+url.QueryEscape("//"+folder)).items(t); len(got) != 1 || got[0]["path"] != "//"+folder+"/in/f.txt" {
		t.Errorf("found: %v", got)
	}
	bob.mkdir(t, "//"+folder+"/new").problem(t, drive.Forbidden, map[string]any{"role": "viewer", "needs": "uploader"})

	// A nearer role may give more, or nothing.
	ann.give(t, inner, "bob", "editor")
	bob.mkdir(t, "//"+folder+"/in/new").json(t, http.StatusCreated)
	bob.mkdir(t, "//"+inner+"/other").json(t, http.StatusCreated)
	ann.give(t, inner, "bob", "none")
	if got := bob.look(t, "//"+folder+"/in"); got != http.StatusNotFound {
		t.Errorf("shut out: %d", got)
	}
	if got := bob.get(t, "/nodes/"+folder+"/children").items(t); len(got) != 0 {
		t.Errorf("shut out, and listed: %v", got)
	}
	copied := bob.post(t, "/nodes/"+folder+"/copy", map[string]any{"parent": "root"}).json(t, http.StatusCreated)
	if got := bob.get(t, "/nodes/"+copied["id"].(string)+"/children").items(t); len(got) != 0 {
		t.Errorf("what was hidden came with the copy: %v", got)
	}
	// A user cannot remove a role that narrows access.
	me := bob.get(t, "/me").json(t, http.StatusOK)["user"].(map[string]any)["id"].(string)
	bob.send(t, "DELETE", "/nodes/"+inner+"/grants/"+me, nil).problem(t, drive.NotFound, nil)
	if r := bob.send(t, "DELETE", "/nodes/"+folder+"/grants/"+me, nil); r.StatusCode != http.StatusNoContent {
		t.Errorf("leave: %s", r)
	}
	if got := bob.look(t, "//"+folder); got != http.StatusNotFound {
		t.Errorf("after leaving: %d", got)
	}
}

// TestUploadEndsWithWriteAccess: the next part after the right is lost is refused, and the space
// has its room back.
func TestUploadEndsWithWriteAccess(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	team := ann.space(t, "Team")
	member := ann.give(t, team["root_id"], "bob", "uploader")
	size := int64(12 * drive.MiB)
	up := bob.post(t, "/uploads", map[string]any{"path": "//Team/f", "size": size, "part_size": 8 * int64(drive.MiB)}).json(t, http.StatusCreated)
	at := "/uploads/" + up["id"].(string)
	if r := bob.send(t, "PUT", at+"/parts/0", make([]byte, 8*drive.MiB)); r.StatusCode >= 300 {
		t.Fatal(r)
	}
	// Other members, the manager included, do not see it, because it belongs to bob.
	ann.get(t, at).problem(t, drive.NotFound, nil)
	ann.send(t, "PUT", at+"/parts/1", make([]byte, 4*drive.MiB)).problem(t, drive.NotFound, nil)
	ann.take(t, member)
	bob.send(t, "PUT", at+"/parts/1", make([]byte, 4*drive.MiB)).problem(t, drive.NotFound, nil)
	bob.get(t, at).problem(t, drive.NotFound, nil)
	var id drive.AccountID
	if err := id.UnmarshalText([]byte(team["id"].(string))); err != nil {
		t.Fatal(err)
	}
	b, err := s.Ledger.Get(t.Context(), s.DB, id)
	if err != nil || b.Used() != 0 {
		t.Errorf("the space is still charged: %+v, %v", b, err)
	}
}

// TestPartsOfAGuestAskNoDatabase: the right is in memory until something changes.
func TestPartsOfAGuestAskNoDatabase(t *testing.T) {
	t.Parallel()
	var calls sqldbtest.Counter
	s := newStack(t, uploadtest.Options{DB: sqldb.Options{Connector: calls.Connector}})
	ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	team := ann.space(t, "Team")
	ann.give(t, team["root_id"], "bob", "editor")
	up := bob.post(t, "/uploads", map[string]any{"path": "//Team/f", "size": 3 << 20, "part_size": 1 << 20}).json(t, http.StatusCreated)
	part := func(n int) {
		if r := bob.send(t, "PUT", fmt.Sprintf("/uploads/%s/parts/%d", up["id"], n), make([]byte, 1<<20)); r.StatusCode >= 300 {
			t.Fatal(r)
		}
	}
	part(0) // asks
	before := calls.Total()
	part(1)
	part(2)
	if asked := calls.Total() - before; asked != 0 {
		t.Errorf("two parts asked the database %d times", asked)
	}
}

// TestASpaceHasAManagerAtAnyTime: the last one cannot go, but by an administrator.
func TestASpaceHasAManagerAtAnyTime(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	team := ann.space(t, "Team")
	root := team["root_id"].(string)
	me := ann.get(t, "/me").json(t, http.StatusOK)["user"].(map[string]any)["id"].(string)
	ann.send(t, "DELETE", "/nodes/"+root+"/grants/"+me, nil).problem(t, drive.WrongState, map[string]any{"state": "last-manager"})
	ann.post(t, "/nodes/"+root+"/grants", map[string]any{"kind": "user", "principal": me, "role": "viewer"}).
		problem(t, drive.WrongState, map[string]any{"state": "last-manager"})
	ann.give(t, root, "bob", "manager")
	ann.give(t, root, "ann", "viewer")
	bob.send(t, "PATCH", "/spaces/"+team["id"].(string), map[string]any{"name": "Crew", "state": "archived"}).json(t, http.StatusOK)
	bob.mkdir(t, "//Crew/x").problem(t, drive.Forbidden, nil)
	bob.send(t, "PATCH", "/admin/spaces/"+team["id"].(string), map[string]any{"state": "active"}).problem(t, drive.Forbidden, nil)
	s.admin(t).send(t, "PATCH", "/admin/spaces/"+team["id"].(string), map[string]any{"state": "active"}).json(t, http.StatusOK)
	bob.mkdir(t, "//Crew/x").json(t, http.StatusCreated)
	if r := s.admin(t).send(t, "DELETE", "/admin/spaces/"+team["id"].(string), nil); r.StatusCode != http.StatusNoContent {
		t.Fatal(r)
	}
	if got := bob.look(t, "//Crew"); got != http.StatusNotFound {
		t.Errorf("deleted: %d", got)
	}
	s.admin(t).send(t, "PATCH", "/admin/spaces/"+team["id"].(string), map[string]any{"state": "active"}).json(t, http.StatusOK)
	if got := bob.look(t, "//crew/x"); got != http.StatusOK {
		t.Errorf("brought back: %d", got)
	}
}

// TestGroupRolesApplyToMembers follows a member in and out of a group.
func TestGroupRolesApplyToMembers(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0)
	folder := ann.mkdir(t, "/Reports").json(t, http.StatusCreated)["id"].(string)
	group := s.admin(t).post(t, "/admin/groups", map[string]any{"name": "Finance"}).json(t, http.StatusCreated)
	ann.post(t, "/nodes/"+folder+"/grants", map[string]any{"kind": "group", "principal": "finance", "role": "editor"}).json(t, http.StatusCreated)
	me := bob.get(t, "/me").json(t, http.StatusOK)["user"].(map[string]any)["id"].(string)
	at := fmt.Sprintf("/admin/groups/%v/members/%s", group["id"], me)
	for _, step := range []struct {
		method string
		want   int
	}{{"PUT", http.StatusOK}, {"DELETE", http.StatusNotFound}, {"PUT", http.StatusOK}} {
		s.admin(t).send(t, step.method, at, nil)
		if got := bob.look(t, "//"+folder); got != step.want {
			t.Errorf("after %s: %d", step.method, got)
		}
	}
	if got := bob.get(t, "/people?q=fi").items(t); len(got) != 1 || got[0]["name"] != "Finance" {
		t.Errorf("found %v", got)
	}
	bob.get(t, "/people?q=f").problem(t, drive.BadRequest, nil)
	s.admin(t).send(t, "DELETE", fmt.Sprintf("/admin/groups/%v", group["id"]), nil)
	if got := bob.look(t, "//"+folder); got != http.StatusNotFound {
		t.Errorf("after the group is gone: %d", got)
	}
	if !strings.Contains(ann.get(t, "/shared-by-me").String(), `"items":[]`) {
		t.Error("what the group had is still shared")
	}
}
