package rest_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// tell creates the notifications for all events so far.
func (s *stack) tell(t testing.TB) {
	t.Helper()
	for _, c := range s.teller.Consumers() {
		r := stream.NewRunner(s.letters, c, stream.Options{Now: s.Clock.Now, Log: slog.New(slog.DiscardHandler)})
		for more := true; more; {
			stats, err := r.RunOnce(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			more = stats.More
		}
	}
}

// mailCode is the code that was sent to the user's new address.
func (u user) mailCode(t testing.TB, address string) (code string) {
	t.Helper()
	u.send(t, "PATCH", "/notices/settings", map[string]any{"address": address}).json(t, http.StatusOK)
	if err := u.DB.QueryRow(t.Context(), "SELECT code FROM notice_people WHERE address = ?", address).Scan(&code); err != nil {
		t.Fatal(err)
	}
	return code
}

// told are the kinds of a user's notices, the newest first, with the names that they say.
func (u user) told(t testing.TB) string {
	t.Helper()
	var all []string
	for _, n := range u.get(t, "/notices").items(t) {
		name, _ := n["name"].(string)
		if n["gone"] == true {
			name = "(gone)"
		}
		all = append(all, n["kind"].(string)+"."+n["what"].(string)+" "+name)
	}
	return strings.Join(all, ", ")
}

func wantTold(t testing.TB, u user, want string) {
	t.Helper()
	if got := u.told(t); got != want {
		t.Errorf("%s is told %q, want %q", u.name, got, want)
	}
}

// Users are notified of shares. Of an item that is no longer visible, a notification says only that
// it existed. Users mark notifications as read.
func TestNotices(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	admin := s.admin(t)
	ann, bob := admin.newUser(t, "ann", 0), admin.newUser(t, "bob", 0)
	plans := ann.folder(t, "/Plans")
	grant := ann.give(t, plans, "bob", "viewer")
	ann.give(t, plans, "bob", "viewer") // once more changes nothing
	s.tell(t)
	wantTold(t, bob, "share.given Plans")
	wantTold(t, ann, "")
	one := bob.get(t, "/notices").items(t)[0]
	if one["by"] != "ann" || one["role"] != "viewer" || one["path"] != "//"+plans || one["read_at"] != nil {
		t.Errorf("bob is told %v", one)
	}
	ann.give(t, plans, "bob", "editor")
	ann.send(t, "PATCH", "/nodes/"+plans, map[string]any{"name": "Secret plans"}).json(t, http.StatusOK)
	s.tell(t)
	s.tell(t)
	wantTold(t, bob, "role.changed Secret plans, share.given Secret plans")
	if got := bob.post(t, "/notices/read", map[string]any{"ids": []any{one["id"]}}).json(t, http.StatusOK)["unread"]; got != 1.0 {
		t.Errorf("%v are left unread", got)
	}
	if all := bob.get(t, "/notices?unread=true").items(t); len(all) != 1 || all[0]["what"] != "changed" {
		t.Errorf("unread are %v", all)
	}

	ann.take(t, grant)
	ann.send(t, "PATCH", "/nodes/"+plans, map[string]any{"name": "More secret plans"}).json(t, http.StatusOK)
	s.tell(t)
	wantTold(t, bob, "role.taken Secret plans, role.changed (gone), share.given (gone)")
	for _, n := range bob.get(t, "/notices").items(t)[1:] {
		if n["by"] != nil || n["node_id"] != nil || n["path"] != nil || n["role"] != nil {
			t.Errorf("of what bob may not see he is told %v", n)
		}
	}
	first := bob.get(t, "/notices?limit=1").items(t)[0]
	if got := bob.post(t, "/notices/read", map[string]any{"up_to": first["id"]}).json(t, http.StatusOK)["unread"]; got != 0.0 {
		t.Errorf("%v are left unread", got)
	}
	// A role "none" for a user without access causes no notification.
	ann.give(t, plans, "bob", "none")
	s.tell(t)
	wantTold(t, bob, "role.taken Secret plans, role.changed (gone), share.given (gone)")
	bob.post(t, "/notices/read", map[string]any{}).problem(t, drive.BadRequest, nil)
	bob.post(t, "/notices/read", map[string]any{"ids": []string{"x"}}).problem(t, drive.NotFound, nil)
	bob.get(t, "/notices?cursor=x").problem(t, drive.CursorInvalid, nil)
}

// Members of spaces and groups get the notifications that concern them.
func TestNoticesOfGroups(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	admin := s.admin(t)
	ann, bob, eve := admin.newUser(t, "ann", 0), admin.newUser(t, "bob", 0), admin.newUser(t, "eve", 0)
	group := admin.post(t, "/admin/groups", map[string]any{"name": "Crew"}).json(t, http.StatusCreated)["id"].(string)
	join := func(method string, u user) {
		t.Helper()
		id := u.get(t, "/me").json(t, http.StatusOK)["user"].(map[string]any)["id"].(string)
		admin.send(t, method, "/admin/groups/"+group+"/members/"+id, nil)
	}
	join("PUT", bob)
	join("PUT", bob)
	join("PUT", ann)
	ann.send(t, "POST", "/nodes/"+ann.folder(t, "/Plans")+"/grants", map[string]any{"kind": "group", "principal": "Crew", "role": "viewer"}).json(t, http.StatusCreated)
	s.Clock.Advance(1e9)
	join("PUT", eve) // after it was given
	team := admin.space(t, "Team")
	admin.give(t, team["root_id"], "eve", "editor")
	s.tell(t)
	wantTold(t, bob, "share.given Plans, group.given Crew")
	wantTold(t, ann, "group.given Crew")
	wantTold(t, eve, "space.given Team, group.given Crew")
	join("DELETE", bob)
	s.tell(t)
	wantTold(t, bob, "group.taken Crew, share.given (gone), group.given (gone)")

	// Members of a deleted group are notified as if they were removed from it.
	admin.send(t, "DELETE", "/admin/groups/"+group, nil)
	s.tell(t)
	wantTold(t, eve, "group.taken Crew, space.given Team, group.given (gone)")
	wantTold(t, ann, "group.taken Crew, group.given (gone)")
	wantTold(t, bob, "group.taken Crew, share.given (gone), group.given (gone)")
}

// A user who has lost access is not told the item's name of a later time.
func TestNoticesOfClosedLinks(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	admin := s.admin(t)
	bob := admin.newUser(t, "bob", 0)
	team := admin.space(t, "Team")
	folder := admin.mkdir(t, "//Team/Plans").json(t, http.StatusCreated)["id"].(string)
	grant := admin.give(t, folder, "bob", "viewer")
	admin.send(t, "PATCH", "/spaces/"+team["id"].(string), map[string]any{"outward": "nobody"}).json(t, http.StatusOK)
	admin.send(t, "PATCH", "/nodes/"+folder, map[string]any{"name": "Layoffs"}).json(t, http.StatusOK)
	admin.take(t, grant)
	s.tell(t)
	wantTold(t, bob, "role.taken ")
}

// An address of mail is confirmed by the code that was sent there.
func TestNoticeSettings(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u := s.admin(t).newUser(t, "ann", 0)
	for _, body := range []map[string]any{
		{"address": "ann"},
		{"address": "Ann <ann@example.org>"},
		{"address": "ann@example.org\r\nbcc: x@example.org"},
		{"language": "fr"},
		{"channels": map[string]any{"share": "pigeon"}},
		{"channels": map[string]any{"pigeons": "page"}},
	} {
		u.send(t, "PATCH", "/notices/settings", body).problem(t, drive.BadRequest, nil)
	}
	code := u.mailCode(t, "ann@example.org")
	wrong := "000000"
	if code == wrong {
		wrong = "000001"
	}
	u.post(t, "/notices/settings/confirm", map[string]any{"code": wrong}).problem(t, drive.BadRequest, nil)
	if got := u.post(t, "/notices/settings/confirm", map[string]any{"code": code}).json(t, http.StatusOK); got["state"] != "confirmed" {
		t.Errorf("after the right code %v", got)
	}
	code = u.mailCode(t, "ann2@example.org")
	if wrong == code {
		wrong = "000002"
	}
	for range 5 {
		u.post(t, "/notices/settings/confirm", map[string]any{"code": wrong}).problem(t, drive.BadRequest, nil)
	}
	u.post(t, "/notices/settings/confirm", map[string]any{"code": code}).problem(t, drive.BadRequest, nil)
	for range 3 {
		code = u.mailCode(t, "ann3@example.org")
	}
	u.send(t, "PATCH", "/notices/settings", map[string]any{"address": "ann4@example.org"}).problem(t, drive.Rate, nil)
	s.Clock.Advance(31 * 60e9)
	u.post(t, "/notices/settings/confirm", map[string]any{"code": code}).problem(t, drive.BadRequest, nil)
	if got := u.send(t, "PATCH", "/notices/settings", map[string]any{"address": "", "channels": map[string]any{"quota": "off"}}).json(t, http.StatusOK); got["state"] != "none" || got["channels"].(map[string]any)["quota"] != "off" {
		t.Errorf("without an address %v", got)
	}
}
