package rule

import (
	"fmt"

	"example.org/smartdrive/internal/intake/invoice"
)

// Severity is the severity of a finding.
type Severity uint8

// Severities.
const (
	Warning Severity = iota // the document is valid, but deserves a look
	Fatal                   // the document is invalid
)

// String returns the code of the severity, which is stored and shown.
func (s Severity) String() string { return [...]string{"warning", "fatal"}[s] }

// Finding reports a rule that a document breaks. Rule is its public name, such as BR-CO-10. Text is
// an English sentence.
type Finding struct {
	Rule     string
	Severity Severity
	Text     string
	Place    string // XPath in the file; empty: unknown
	Line     int    // line in the file, from 1; 0: unknown
	Expected string // the number computed from other values; empty: not a rule on a sum
	Found    string // the number in the document
}

// Rule is a row of the tables. At most one check is set. It reports whether the rule holds for the
// document, or for one line, allowance, allowance of a line, or tax breakdown. A rule without a
// check concerns the file only: the decoder finds its breaches (invoice.Written). The decoder may
// find breaches of the other rules, too. Two rows may have one ID: a fatal one for certain defects,
// and a warning for unknown codes.
type Rule struct {
	ID       string
	Severity Severity
	Text     string // the required condition, as a sentence

	document      func(*invoice.Document) bool
	line          func(*invoice.Document, *invoice.Line) bool
	allowance     func(*invoice.Document, *invoice.Allowance) bool
	lineAllowance func(*invoice.Document, *invoice.Allowance) bool
	tax           func(*invoice.Document, *invoice.Tax) bool

	near string // rule whose breach in the file gives the place of this one

	sum func(*invoice.Document) (expected, found invoice.Decimal) // set in rules on sums
}

// OfFile reports whether only a file can break the rule, because the model cannot express the
// breach.
func (r *Rule) OfFile() bool {
	return r.document == nil && r.line == nil && r.allowance == nil && r.lineAllowance == nil && r.tax == nil
}

// MaxFindings is the maximum number of findings reported per document: enough to repair it, few
// enough to store.
const MaxFindings = 50

// Validate returns the findings of a document, in the order of the rules: one per broken rule, with
// the first place. The document's profile selects the rules.
func Validate(d *invoice.Document) []Finding {
	rules := europeanRules()
	if d.Profile == invoice.ProfileFapiao {
		rules = chineseRules()
	}
	var findings []Finding
	told := breachesOf(d)
	for i := range rules {
		r := &rules[i]
		f, broken := r.finding(d)
		known, seen := told.finding(r)
		switch {
		case !broken && !seen:
			continue
		case !broken:
			f = known
		case seen:
			f.Place, f.Line = known.Place, known.Line
		default:
			told.locate(r, &f)
		}
		findings = append(findings, f)
	}
	return limitFindings(findings)
}

// finding returns the finding of a rule and true if the document breaks it; false otherwise.
func (r *Rule) finding(d *invoice.Document) (f Finding, broken bool) {
	n, where, times := r.broken(d)
	if times == 0 {
		return Finding{}, false
	}
	f = Finding{Rule: r.ID, Severity: r.Severity, Text: r.Text, Place: placeIn(d, r.Text, n)}
	if where != "" {
		f.Text += fmt.Sprintf(" (%.60s)", where)
	}
	if times > 1 {
		f.Text += fmt.Sprintf(", and %d more", times-1)
	}
	if r.sum != nil {
		expected, found := r.sum(d)
		f.Expected, f.Found = expected.String(), found.String()
	}
	return f, true
}

// Valid reports whether none of the findings is fatal; true for no findings.
func Valid(findings []Finding) bool {
	for i := range findings {
		if findings[i].Severity == Fatal {
			return false
		}
	}
	return true
}

// broken returns how many times a rule is broken, and the first place: its number among the lines,
// allowances or breakdowns, from 1, and its name in words.
func (r *Rule) broken(d *invoice.Document) (n int, where string, times int) {
	note := func(holds bool, at int, place func() string) {
		if holds {
			return
		}
		if times == 0 {
			n, where = at, place()
		}
		times++
	}
	switch {
	case r.document != nil:
		note(r.document(d), 0, func() string { return "" })
	case r.line != nil:
		for i := range d.Lines {
			note(r.line(d, &d.Lines[i]), i+1, func() string { return placeOf(&d.Lines[i], i) })
		}
	case r.allowance != nil:
		for i := range d.Allowances {
			note(r.allowance(d, &d.Allowances[i]), i+1, func() string { return fmt.Sprintf("allowance or charge %d", i+1) })
		}
	case r.lineAllowance != nil:
		for i := range d.Lines {
			for j := range d.Lines[i].Allowances {
				note(r.lineAllowance(d, &d.Lines[i].Allowances[j]), i+1, func() string { return placeOf(&d.Lines[i], i) })
			}
		}
	case r.tax != nil:
		for i := range d.Taxes {
			note(r.tax(d, &d.Taxes[i]), i+1, func() string { return "VAT " + d.Taxes[i].Category + " " + d.Taxes[i].Rate.String() })
		}
	}
	return n, where, times
}

// placeOf returns the name of a line in words, by its id or else its number.
func placeOf(l *invoice.Line, i int) string {
	if l.ID == "" {
		return fmt.Sprintf("line %d", i+1)
	}
	return "line " + l.ID
}
