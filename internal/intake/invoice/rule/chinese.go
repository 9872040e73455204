package rule

import (
	"slices"

	"example.org/smartdrive/internal/intake/invoice"
)

// chinese holds the rules of the fully digital invoice. There is no official rule set. These rules
// cover mandatory fields, arithmetic with the tolerance of the issuing platform, and formats of
// numbers.
var chinese = []Rule{
	{ID: "CN-01", Severity: Fatal, Text: "An invoice has a number", document: func(d *document) bool { return d.Number != "" }},
	{
		ID: "CN-02", Severity: Warning, Text: "The number of a fully digital invoice has 20 digits",
		document: func(d *document) bool { return d.Number == "" || digits(20, 20)(d.Number) },
	},
	{ID: "CN-03", Severity: Fatal, Text: "An invoice has a date of issue", document: func(d *document) bool { return d.Date != 0 }},
	{ID: "CN-04", Severity: Fatal, Text: "The seller has a name", document: func(d *document) bool { return d.Seller.Name != "" }},
	{ID: "CN-05", Severity: Fatal, Text: "The seller has a taxpayer's number", document: func(d *document) bool { return d.Seller.TaxID != "" }},
	{
		ID: "CN-06", Severity: Fatal, Text: "The seller's number has 15 to 20 capital letters or digits",
		document: func(d *document) bool { return d.Seller.TaxID == "" || capitals(15, 20)(d.Seller.TaxID) },
	},
	{ID: "CN-07", Severity: Fatal, Text: "The buyer has a name", document: func(d *document) bool { return d.Buyer.Name != "" }},
	{
		ID: "CN-08", Severity: Warning, Text: "The buyer's number, where there is one, has 15 to 20 capital letters or digits",
		document: func(d *document) bool { return d.Buyer.TaxID == "" || capitals(15, 20)(d.Buyer.TaxID) },
	},
	{ID: "CN-09", Severity: Fatal, Text: "An invoice has at least one line", document: func(d *document) bool { return len(d.Lines) > 0 }},
	{ID: "CN-10", Severity: Fatal, Text: "A line has a name", line: func(_ *document, l *line) bool { return l.Name != "" }},
	{ID: "CN-11", Severity: Fatal, Text: "A line has an amount", line: func(_ *document, l *line) bool { return l.Net.Given() }},
	{
		ID: "CN-12", Severity: Fatal, Text: "A line has a tax rate, or says that it is exempt or not taxed",
		line: func(_ *document, l *line) bool { return slices.Contains([]string{"S", "Z", "E", "O"}, l.Category) },
	},
	{
		ID: "CN-13", Severity: Fatal, Text: "A taxed line has a tax amount",
		line: func(_ *document, l *line) bool { return l.Category != "S" || l.Tax.Given() },
	},
	{
		ID: "CN-14", Severity: Fatal, Text: "The tax of a line is its amount times its rate, within 0.06",
		line: func(_ *document, l *line) bool { return !l.Tax.Given() || near(l.Tax, l.Net.Percent(l.Rate), cents(6)) },
	},
	{
		ID: "CN-15", Severity: Warning, Text: "A tax rate is one of those in force: 13, 9, 6, 5, 3, 1.5, 1, 0.5 or 0 %",
		line: func(_ *document, l *line) bool { return l.Category != "S" || inForce.has(l.Rate.String()) },
	},
	{ID: "CN-16", Severity: Fatal, Text: "An invoice has a total without tax", document: func(d *document) bool { return d.Totals.Net.Given() }},
	{ID: "CN-17", Severity: Fatal, Text: "An invoice has a total with tax", document: func(d *document) bool { return d.Totals.Gross.Given() }},
	{
		ID: "CN-18", Severity: Fatal, Text: "The total without tax is the sum of the lines",
		document: func(d *document) bool { return d.Totals.Net.Cmp(sumLines(d)) == 0 },
	},
	{
		ID: "CN-19", Severity: Fatal, Text: "The total of tax is the sum of the lines' tax",
		document: func(d *document) bool {
			sum := invoice.NewDecimal(0, 0)
			for i := range d.Lines {
				sum = sum.Add(d.Lines[i].Tax)
			}
			return d.Totals.Tax.Cmp(sum) == 0
		},
	},
	{
		ID: "CN-20", Severity: Fatal, Text: "The total with tax is the total without tax plus the tax",
		document: func(d *document) bool { return d.Totals.Gross.Cmp(d.Totals.Net.Add(d.Totals.Tax)) == 0 },
	},
	{
		ID: "CN-21", Severity: Fatal, Text: "An amount has at most two decimals",
		line: func(_ *document, l *line) bool { return l.Net.Places() <= 2 && l.Tax.Places() <= 2 },
	},
}

// inForce holds the valid rates, in percent, of VAT and of simplified taxation.
var inForce = list("13 9 6 5 3 1.5 1 0.5 0")
