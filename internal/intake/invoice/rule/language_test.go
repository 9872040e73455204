package rule_test

import (
	"slices"
	"strings"
	"testing"

	"example.org/smartdrive/internal/intake/invoice/rule"
)

// TestRulesAreSaidInAllLanguages checks that each rule's text has a translation into each language
// that names the same terms.
func TestRulesAreSaidInAllLanguages(t *testing.T) {
	t.Parallel()
	all := rule.Rules()
	for _, p := range rule.Profiles() {
		all = append(all, rule.ProfileRules(p)...)
	}
	for _, r := range all {
		for _, l := range []rule.Language{rule.German, rule.Chinese} {
			said := l.In(r.Text)
			if said == r.Text || said == "" || strings.Contains(said, "\t") {
				t.Errorf("%s in language %d: %q", r.ID, l, said)
			}
			here, there := rule.Terms(r.Text), rule.Terms(said)
			slices.Sort(here)
			slices.Sort(there)
			if !slices.Equal(here, there) {
				t.Errorf("%s names %v in English and %v in language %d: %q", r.ID, here, there, l, said)
			}
		}
	}
}

func TestPlacesAndNumbersOfFindingsAreTranslated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ english, german, chinese string }{
		{"A line has a net amount (BT-131) (line 7 (a)), and 2 more", "Jede Position hat einen Nettobetrag (BT-131) (Position 7 (a)), und 2 weitere", "每行须有净额 (BT-131) (行 7 (a))，另有 2 处"},
		{"A VAT breakdown has a tax amount (BT-117) (VAT S 19)", "Eine USt-Aufschlüsselung hat einen Steuerbetrag (BT-117) (USt S 19)", "增值税明细须有税额 (BT-117) (增值税 S 19)"},
		{"An allowance has an amount (BT-92) (allowance or charge 2)", "Ein Nachlass hat einen Betrag (BT-92) (Nachlass oder Zuschlag 2)", "折让须有金额 (BT-92) (折让或附加费 2)"},
		{"and 12 more findings", "und 12 weitere Befunde", "另有 12 条问题"},
		{"What an older release said", "What an older release said", "What an older release said"},
	} {
		if got := rule.German.In(c.english); got != c.german {
			t.Errorf("%q is %q in German, want %q", c.english, got, c.german)
		}
		if got := rule.Chinese.In(c.english); got != c.chinese {
			t.Errorf("%q is %q in Chinese, want %q", c.english, got, c.chinese)
		}
	}
}
