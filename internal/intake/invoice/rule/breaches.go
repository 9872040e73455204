package rule

import (
	"fmt"
	"slices"

	"example.org/smartdrive/internal/intake/invoice"
)

// pendingBreaches holds the breaches that the decoder found and that no finding reports yet.
type pendingBreaches []invoice.Breach

// breachesOf returns a copy of the breaches that the decoder found, so that the caller may change
// it.
func breachesOf(d *invoice.Document) pendingBreaches { return slices.Clone(d.Written.Breaches) }

// finding removes all breaches of a rule and returns them as one finding, at the first place. If
// there are none, the result is false.
func (t *pendingBreaches) finding(r *Rule) (Finding, bool) {
	first := slices.IndexFunc(*t, func(b invoice.Breach) bool { return b.Rule == r.ID })
	if first < 0 {
		return Finding{}, false
	}
	f := Finding{Rule: r.ID, Severity: r.Severity, Text: r.Text, Place: (*t)[first].Place, Line: (*t)[first].Line}
	before := len(*t)
	*t = slices.DeleteFunc(*t, func(b invoice.Breach) bool { return b.Rule == r.ID })
	if more := before - len(*t) - 1; more > 0 {
		f.Text = fmt.Sprintf("%s, and %d more", f.Text, more)
	}
	return f, true
}

// locate sets the place of a finding to the first breach of the rule r.near.
func (t pendingBreaches) locate(r *Rule, f *Finding) {
	if i := slices.IndexFunc(t, func(b invoice.Breach) bool { return b.Rule == r.near }); i >= 0 {
		f.Place, f.Line = t[i].Place, t[i].Line
	}
}

// limitFindings returns at most MaxFindings findings, fatal ones first. It sorts findings in place.
func limitFindings(findings []Finding) []Finding {
	if len(findings) <= MaxFindings {
		return findings
	}
	slices.SortStableFunc(findings, func(a, b Finding) int { return int(b.Severity) - int(a.Severity) })
	return findings[:MaxFindings]
}
