package rule

import (
	"slices"
	"strings"

	"example.org/smartdrive/internal/intake/invoice"
)

// extension holds the rules of the XRechnung extension: nested lines (BG-DEX-01) and amounts
// collected for third parties (BG-DEX-09). BR-DEX-04 to 08 are checked as BR-CL-10, 11, 21, 25 and
// 26; BR-DEX-14 as SD-02.
var extension = []Rule{
	{
		ID: "BR-DEX-02", Severity: Warning, Text: "The net amount of a line with lines in it (BT-131) is their sum",
		line: func(_ *document, l *line) bool { return eachLine(l, sumOfLines) },
	},
	{
		ID: "BR-DEX-03", Severity: Fatal, Text: "A line within a line has a VAT category (BG-DEX-06)",
		line: func(_ *document, l *line) bool {
			return eachLine(l, func(l *line) bool {
				return !slices.ContainsFunc(l.Lines, func(sub line) bool { return sub.Category == "" })
			})
		},
	},
	{
		ID: "BR-DEX-09", Severity: Fatal, Text: "The amount due (BT-115) also counts what is collected for others (BT-DEX-002)",
		document: func(d *document) bool {
			due := d.Totals.Gross.Sub(d.Totals.Prepaid).Add(d.Totals.Rounding)
			for i := range d.ThirdParty {
				due = due.Add(d.ThirdParty[i].Amount)
			}
			return !isExtension(d) || d.Totals.Payable.Cmp(due) == 0
		},
	},
	{
		ID: "BR-DEX-10", Severity: Fatal, Text: "What is collected for others has a type (BT-DEX-001)",
		document: collected(func(c *invoice.Collected) bool { return c.Type != "" }),
	},
	{
		ID: "BR-DEX-11", Severity: Fatal, Text: "What is collected for others has an amount (BT-DEX-002)",
		document: collected(func(c *invoice.Collected) bool { return c.Amount.Given() }),
	},
	{
		ID: "BR-DEX-12", Severity: Fatal, Text: "What is collected for others is described (BT-DEX-003)",
		document: collected(func(c *invoice.Collected) bool { return c.Text != "" }),
	},
	{
		ID: "BR-DEX-13", Severity: Fatal, Text: "What is collected for others has at most two decimals (BT-DEX-002)",
		document: collected(func(c *invoice.Collected) bool { return c.Amount.Places() <= 2 }),
	},
}

// isExtension reports whether the document declares the XRechnung extension. Package syntax rejects
// all other extensions.
func isExtension(d *document) bool { return strings.Contains(d.Profile, "#conformant#") }

// eachLine reports whether holds is true for a line and all its sublines.
func eachLine(l *line, holds func(*line) bool) bool {
	for i := range l.Lines {
		if !eachLine(&l.Lines[i], holds) {
			return false
		}
	}
	return holds(l)
}

// sumOfLines reports whether the net amount of a line equals the sum of its direct sublines; a line
// without sublines passes.
func sumOfLines(l *line) bool {
	if len(l.Lines) == 0 {
		return true
	}
	sum := invoice.NewDecimal(0, 0)
	for i := range l.Lines {
		sum = sum.Add(l.Lines[i].Net)
	}
	return sum.Round(2).Cmp(l.Net.Round(2)) == 0
}

// collected returns a check that all third-party amounts satisfy holds.
func collected(holds func(*invoice.Collected) bool) func(*document) bool {
	return func(d *document) bool {
		for i := range d.ThirdParty {
			if !holds(&d.ThirdParty[i]) {
				return false
			}
		}
		return true
	}
}
