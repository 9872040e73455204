package syntax

import (
	"os"
	"path/filepath"
	"testing"

	"example.org/smartdrive/internal/intake/invoice/rule"
)

func TestXRechnungInstancesAreValid(t *testing.T) {
	t.Parallel()
	for _, path := range instances(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range rule.ValidateAs(mustDecode(t, text), rule.XRechnung) {
			if f.Severity == rule.Fatal {
				t.Errorf("%s: %v", filepath.Base(path), f)
			} else {
				t.Logf("%s: %v", filepath.Base(path), f)
			}
		}
	}
}

func TestGeneratedInvoicesAreValid(t *testing.T) {
	t.Parallel()
	for name, d := range generated() {
		if findings := rule.Validate(d); len(findings) > 0 {
			t.Errorf("%s: %v", name, findings)
		}
	}
}

// TestExamplesOfTheStandardAreValid decodes and validates the examples that CEN/TC 434 publishes.
// Its artefacts accept all of them.
func TestExamplesOfTheStandardAreValid(t *testing.T) {
	t.Parallel()
	for _, path := range examples(t, "SMARTDRIVE_TEST_CEN", "cen", 30) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range rule.Validate(mustDecode(t, text)) {
			if f.Severity == rule.Fatal {
				t.Errorf("%s: %v", filepath.Base(path), f)
			}
		}
	}
}
