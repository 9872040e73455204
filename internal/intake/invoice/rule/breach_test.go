package rule_test

import (
	"fmt"
	"slices"
	"testing"

	"example.org/smartdrive/internal/intake/invoice"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
	"example.org/smartdrive/internal/intake/invoice/rule"
)

// breach is a change of a valid document that breaks the rule it is listed under. The field with
// names the other rules that the change inevitably breaks.
type breach struct {
	change func(*invoice.Document)
	with   []string
	of     func() *invoice.Document // makes the valid document; nil: invoicetest.Full
}

// key returns the name under which a row of the tables is listed: the rule's id, with a suffix for
// warnings.
func key(id string, severity rule.Severity) string {
	if severity == rule.Warning {
		return id + " warning"
	}
	return id
}

// TestEachRuleIsBrokenByWhatBreaksIt checks that each listed change breaks its rules and no others.
// It fails for a rule without a breach.
func TestEachRuleIsBrokenByWhatBreaksIt(t *testing.T) {
	t.Parallel()
	breaches := allBreaches()
	unused := map[string]bool{}
	for name := range breaches {
		unused[name] = true
	}
	for _, r := range rule.Rules() {
		name := key(r.ID, r.Severity)
		list, ok := breaches[name]
		if !ok && r.OfFile() {
			continue // tested in internal/intake/invoice/syntax
		}
		if !ok {
			t.Errorf("%s: no breach is listed", name)
		}
		delete(unused, name)
		for i, b := range list {
			t.Run(fmt.Sprintf("%s/%d", name, i), func(t *testing.T) {
				t.Parallel()
				b.check(t, name)
			})
		}
	}
	for name := range unused {
		t.Errorf("%s: a breach of no rule", name)
	}
}

// check applies the change and compares the broken rules.
func (b breach) check(t *testing.T, name string) {
	t.Helper()
	d := invoicetest.Full(1)
	if b.of != nil {
		d = b.of()
	}
	if findings := rule.Validate(d); len(findings) > 0 {
		t.Fatalf("the document that is to be broken is: %v", findings)
	}
	b.change(d)
	var got []string
	for _, f := range rule.Validate(d) {
		if f.Text == "" {
			t.Errorf("%s has no text", f.Rule)
		}
		got = append(got, key(f.Rule, f.Severity))
	}
	want := append([]string{name}, b.with...)
	slices.Sort(want)
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("broken are %q, want %q", got, want)
	}
}

func TestFindingsAreBounded(t *testing.T) {
	t.Parallel()
	if n := len(rule.Validate(&invoice.Document{Lines: make([]invoice.Line, 1000)})); n == 0 || n > rule.MaxFindings {
		t.Errorf("%d findings", n)
	}
	if findings := rule.Validate(&invoice.Document{}); rule.Valid(findings) {
		t.Errorf("an empty document is valid: %v", findings)
	}
}
