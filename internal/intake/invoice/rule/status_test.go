package rule_test

import (
	_ "embed"
	"strings"
	"testing"

	"example.org/smartdrive/internal/intake/invoice/rule"
)

// release lists the fatal rules of the release and their syntaxes.
//
//go:embed testdata/release.txt
var release string

// TestEachRuleOfTheReleaseHasAState checks that every rule of the release has a state, and that the
// tables name no other rules.
func TestEachRuleOfTheReleaseHasAState(t *testing.T) {
	t.Parallel()
	known, covered := map[string]bool{}, 0
	for line := range strings.Lines(release) {
		id := strings.Fields(line)[0]
		known[id] = true
		switch s := rule.StatusOf(id); {
		case s.Why == "not known here":
			t.Errorf("%s: nothing is said about it", id)
		case s.State == rule.Covered || s.State == rule.Partly:
			covered++
		case s.Why == "":
			t.Errorf("%s is %s, and nobody says why", id, s.State)
		}
	}
	for _, r := range rule.Rules() {
		if strings.HasPrefix(r.ID, "BR-") && !rule.Stricter(r.ID) || strings.HasPrefix(r.ID, "UBL-") || strings.HasPrefix(r.ID, "CII-") {
			if !known[r.ID] && r.ID != "BR-66" && r.ID != "BR-67" && r.ID != "BR-51" && r.ID != "UBL-DT-01" {
				t.Errorf("%s is not a fatal rule of release %s", r.ID, rule.Release)
			}
		}
	}
	if covered < 310 {
		t.Errorf("%d rules are covered", covered)
	}
}
