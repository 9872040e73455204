package client_test

import (
	"os"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
)

// Every problem code of the server has a constant in this package.
func TestEveryKindOfProblemHasACode(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("problem.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range drive.Kinds() {
		if !strings.Contains(string(source), ` Code = "`+kind.String()+`"`) {
			t.Errorf("problem.go has no Code %q", kind)
		}
	}
}
