package rest_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// The activity of an account is visible to its user and to administrators only.
func TestAccountActivityIsVisibleToUserAndAdmins(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	ann, bob, boss := s.newUser(t, "ann", 0), s.newUser(t, "bob", 0), s.admin(t)
	shared := ann.mkdir(t, "/Shared").json(t, http.StatusCreated)["id"]
	ann.give(t, shared, "bob", "manager")
	token := ann.post(t, "/tokens", map[string]any{"name": "phone", "scopes": []string{"read"}}).json(t, http.StatusCreated)
	ann.send(t, "DELETE", "/tokens/"+token["id"].(string), nil)
	boss.send(t, "PUT", "/admin/settings/log-level", `{"value":"debug"}`).json(t, http.StatusOK)
	boss.send(t, "DELETE", "/admin/settings/log-level", nil).json(t, http.StatusOK)

	own := ann.get(t, "/activity").items(t)
	if d := cmp.Diff([]string{
		"login.created  by ann", "node.created Shared by ann", "grant.set Shared by ann", "token.created phone by ann", "token.ended phone by ann",
	}, told(t, own)); d != "" {
		t.Error(d)
	}
	for _, path := range []string{"/activity", "/activity?type=login,token", "/activity?type=token&node=" + shared.(string)} {
		for _, line := range told(t, bob.get(t, path).items(t)) {
			if line != "login.created  by bob" {
				t.Errorf("bob is told %q at %s", line, path)
			}
		}
	}

	// An administrator sees the account's entries and none of its files.
	path := "/admin/users/" + ann.id + "/activity"
	bob.get(t, path).problem(t, drive.Forbidden, nil)
	seen := boss.get(t, path).items(t)
	if d := cmp.Diff([]string{"login.created  by ann", "token.created phone by ann", "token.ended phone by ann"}, told(t, seen)); d != "" {
		t.Error(d)
	}
	if len(boss.get(t, path+"?type=node").items(t)) != 0 {
		t.Error("an administrator sees what was done to a user's files")
	}
	if got := boss.get(t, path+"?type=token.created").items(t); len(got) != 1 || got[0]["id"] == nil || got[0]["address"] == "" {
		t.Errorf("tokens made: %v", got)
	}
	boss.get(t, path+"?cursor=x").problem(t, drive.CursorInvalid, nil)
	boss.get(t, "/admin/users/"+shared.(string)+"/activity").problem(t, drive.NotFound, nil)

	settings := boss.get(t, "/activity?type=setting").items(t)
	if d := cmp.Diff([]string{"setting.changed log-level by admin", "setting.changed log-level by admin"}, told(t, settings)); d != "" {
		t.Error(d)
	}
	if data := settings[1]["data"].(map[string]any); data["value"] != "debug" || data["was"] == "debug" {
		t.Errorf("the change is told as %v", data)
	}
}
