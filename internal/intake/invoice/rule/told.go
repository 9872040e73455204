package rule

import (
	"fmt"
	"slices"

	"smartdrive/internal/intake/invoice"
)

// told are the breaches that the reader of a file has seen, which no rule has reported yet.
type told []invoice.Breach

func breachesOf(d *invoice.Document) told { return slices.Clone(d.Written.Breaches) }

// take returns the finding of a rule, with the first place, and forgets its breaches.
func (t *told) take(r *Rule) (Finding, bool) {
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

// locate puts a finding where the rule near r is broken, whose finding comes later.
func (t told) locate(r *Rule, f *Finding) {
	if i := slices.IndexFunc(t, func(b invoice.Breach) bool { return b.Rule == r.near }); i >= 0 {
		f.Place, f.Line = t[i].Place, t[i].Line
	}
}

// most keeps what is fatal before what is not, when there are too many.
func most(findings []Finding) []Finding {
	if len(findings) <= MaxFindings {
		return findings
	}
	slices.SortStableFunc(findings, func(a, b Finding) int { return int(b.Severity) - int(a.Severity) })
	return findings[:MaxFindings]
}
