package rest_test

import (
	"net/http"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// Answers that no other test asks for; that they are as described is looked at by every request of
// the stack.
func TestAnswersAreAsDescribed(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	s.login(t, "admin").send(t, "GET", "/admin/migration", nil).json(t, http.StatusOK)
	u := s.newUser(t, "ann", 0)
	unknown := drive.NewID[drive.NodeID]().String()
	u.post(t, "/nodes", map[string]any{"type": "folder", "parent": unknown, "name": "x"}).problem(t, drive.NotFound, nil)
	u.send(t, "PUT", "/sources/shop", map[string]any{"rules": map[string]any{"types": nil}}).problem(t, drive.BadRequest, nil)
	u.send(t, "PUT", "/sources/shop", map[string]any{"rules": map[string]any{"kinds": nil}}).problem(t, drive.BadRequest, nil)
	u.send(t, "PUT", "/sources/shop", map[string]any{"rules": map[string]any{"types": []string{"380"}}}).json(t, http.StatusOK)
	u.send(t, "GET", "/sources/shop", nil).json(t, http.StatusOK)
}

// What generated clients take numbers and lists for.
func TestGeneratedClientsFindTheirTypes(t *testing.T) {
	t.Parallel()
	search := operationOf(request{method: "GET", path: "/api/v1/search"})
	for _, p := range search["parameters"].([]any) {
		schema := p.(map[string]any)["schema"].(map[string]any)
		if schema["type"] == "integer" && schema["format"] != "int64" {
			t.Errorf("%v is %v", p.(map[string]any)["name"], schema)
		}
	}
}
