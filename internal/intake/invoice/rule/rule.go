package rule

import (
	"fmt"

	"smartdrive/internal/intake/invoice"
)

// Severity says whether a finding makes a document invalid.
type Severity uint8

// The severities.
const (
	Warning Severity = iota // worth a look; the document is valid
	Fatal                   // the document is invalid
)

// String returns the code that is stored and shown.
func (s Severity) String() string { return [...]string{"warning", "fatal"}[s] }

// Finding is one rule that a document breaks. Rule is the rule's public name (BR-CO-10); Text is
// one English sentence.
type Finding struct {
	Rule     string
	Severity Severity
	Text     string
	Place    string // as a path of XPath, where the reader knows it
	Line     int    // of the file, from 1; 0 where it is not known
	Expected string // the number that follows from the others
	Found    string // and the one that is there
}

// Rule is one row of the tables. One of the checks is set: it reports whether the rule holds for
// the document, or for each of its lines, allowances and charges, those of its lines, or taxes. A
// rule on the file itself has none: its breaches are those that the reader has seen
// (invoice.Written), which other rules may have, too. Two rows may share an ID: what is wrong for
// certain, and what may only be unknown here.
type Rule struct {
	ID       string
	Severity Severity
	Text     string // what must hold, as a sentence

	document      func(*invoice.Document) bool
	line          func(*invoice.Document, *invoice.Line) bool
	allowance     func(*invoice.Document, *invoice.Allowance) bool
	lineAllowance func(*invoice.Document, *invoice.Allowance) bool
	tax           func(*invoice.Document, *invoice.Tax) bool

	near string // a rule of the file whose first breach stands where this one is broken

	sum func(*invoice.Document) (expected, found invoice.Decimal) // of a rule on a sum
}

// OfFile reports whether only a file can break the rule, not a model that came another way.
func (r *Rule) OfFile() bool {
	return r.document == nil && r.line == nil && r.allowance == nil && r.lineAllowance == nil && r.tax == nil
}

// MaxFindings is how many findings of one document are reported: enough to repair it, few enough to
// store.
const MaxFindings = 50

// Validate returns what is wrong with a document, in the order of the rules: one finding for each
// rule, with the first place where it is broken. Which rules apply follows from the profile.
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
		known, seen := told.take(r)
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
	return most(findings)
}

// finding is what is wrong when a document breaks the rule.
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

// Valid reports whether none of the findings is fatal.
func Valid(findings []Finding) bool {
	for i := range findings {
		if findings[i].Severity == Fatal {
			return false
		}
	}
	return true
}

// broken returns how many times a rule is broken, and the first place: which of several it is, from
// 1, and in words.
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

func placeOf(l *invoice.Line, i int) string {
	if l.ID == "" {
		return fmt.Sprintf("line %d", i+1)
	}
	return "line " + l.ID
}
