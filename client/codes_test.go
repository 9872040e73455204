package client_test

import (
	"os"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
)

// Every problem code of the server has a constant in package api.
func TestEveryKindOfProblemHasACode(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../api/problem.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range drive.Kinds() {
		if !strings.Contains(string(source), ` Code = "`+kind.String()+`"`) {
			t.Errorf("package api has no Code %q", kind)
		}
	}
}
