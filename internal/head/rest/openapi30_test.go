package rest_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// The document of OpenAPI 3.0 describes the same addresses, and says nothing as only 3.1 does.
func TestOpenAPI30Document(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	newer := s.do(t, request{method: "GET", path: "/api/openapi.json"}).json(t, http.StatusOK)
	older := s.do(t, request{method: "GET", path: "/api/openapi-3.0.json"}).json(t, http.StatusOK)
	if version, _ := older["openapi"].(string); !strings.HasPrefix(version, "3.0.") {
		t.Errorf("it is OpenAPI %s", version)
	}
	if n, o := len(newer["paths"].(map[string]any)), len(older["paths"].(map[string]any)); n != o {
		t.Errorf("it has %d paths, the newer one %d", o, n)
	}
	aloneOrNone(t, older)
	text, err := json.Marshal(older)
	if err != nil {
		t.Fatal(err)
	}
	for _, only31 := range []string{`"null"`, `"type":[`, `"examples":[`} {
		if strings.Contains(string(text), only31) {
			t.Errorf("it says %s", only31)
		}
	}
}

// aloneOrNone fails for a reference with siblings, which OpenAPI 3.0 ignores.
func aloneOrNone(t *testing.T, node any) {
	t.Helper()
	switch node := node.(type) {
	case []any:
		for _, item := range node {
			aloneOrNone(t, item)
		}
	case map[string]any:
		if _, ok := node["$ref"].(string); ok && len(node) > 1 {
			t.Errorf("a reference has siblings: %v", node)
		}
		for _, member := range node {
			aloneOrNone(t, member)
		}
	}
}
