package rest_test

import (
	"net/http"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

func TestSettingsAreChangedByAdministrators(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	boss, ann := s.admin(t), s.newUser(t, "ann", 0)
	all := boss.get(t, "/admin/settings").json(t, http.StatusOK)["items"].([]any)
	if first := all[0].(map[string]any); len(all) < 5 || first["fixed"] != false || first["changed_at"] != nil || first["value"] != first["default"] {
		t.Errorf("the settings are %v", all)
	}
	one := boss.send(t, "PUT", "/admin/settings/dav-litter", map[string]any{"value": "hide"}).json(t, http.StatusOK)
	if one["value"] != "hide" || one["changed_by"] != "admin" || one["changed_at"] == nil {
		t.Errorf("after a change: %v", one)
	}
	boss.send(t, "PUT", "/admin/settings/dav-litter", map[string]any{"value": "burn"}).problem(t, drive.BadRequest, map[string]any{
		"field": "value", "reason": "malformed", "expected": "keep, hide or refuse",
	})
	boss.send(t, "PUT", "/admin/settings/data", map[string]any{"value": "/"}).problem(t, drive.NotFound, nil)
	ann.send(t, "PUT", "/admin/settings/dav-litter", map[string]any{"value": "keep"}).problem(t, drive.Forbidden, nil)
	if one := boss.send(t, "DELETE", "/admin/settings/dav-litter", nil).json(t, http.StatusOK); one["value"] != "keep" || one["changed_at"] != nil {
		t.Errorf("after it was reset: %v", one)
	}
}
