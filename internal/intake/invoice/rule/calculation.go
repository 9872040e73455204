package rule

import "example.org/smartdrive/internal/intake/invoice"

// calculation holds the rules on relations between several terms (EN 16931-1, 6.4.2).
var calculation = []Rule{
	{
		ID: "BR-CO-03", Severity: Fatal, Text: "The date when VAT becomes due (BT-7) and its code (BT-8) exclude each other",
		document: func(d *document) bool { return d.TaxPoint == 0 || d.TaxPointCode == "" },
	},
	{ID: "BR-CO-04", Severity: Fatal, Text: "A line has a VAT category (BT-151)", line: func(_ *document, l *line) bool { return l.Category != "" }},
	{ID: "BR-CO-09", Severity: Fatal, Text: "A VAT identifier begins with the letters of a country (BT-31, BT-48, BT-63)", document: vatPrefixes},
	sumRule("BR-CO-10", "The sum of lines (BT-106) is the sum of their net amounts (BT-131)",
		func(d *document) (expected, found invoice.Decimal) {
			return sumLines(d).Round(2), d.Totals.Lines.Round(2)
		}),
	sumRule("BR-CO-11", "The sum of allowances (BT-107) is the sum of their amounts (BT-92)",
		func(d *document) (expected, found invoice.Decimal) {
			return sumAllowances(d, false).Round(2), d.Totals.Allowances.Round(2)
		}),
	sumRule("BR-CO-12", "The sum of charges (BT-108) is the sum of their amounts (BT-99)",
		func(d *document) (expected, found invoice.Decimal) {
			return sumAllowances(d, true).Round(2), d.Totals.Charges.Round(2)
		}),
	sumRule("BR-CO-13", "The total without VAT (BT-109) is the sum of lines less allowances plus charges",
		func(d *document) (expected, found invoice.Decimal) {
			return d.Totals.Lines.Sub(d.Totals.Allowances).Add(d.Totals.Charges), d.Totals.Net
		}),
	sumRule("BR-CO-14", "The total of VAT (BT-110) is the sum of the VAT of its categories (BT-117)",
		func(d *document) (expected, found invoice.Decimal) {
			sum := invoice.NewDecimal(0, 0)
			for i := range d.Taxes {
				sum = sum.Add(d.Taxes[i].Amount)
			}
			return sum.Round(2), d.Totals.Tax.Round(2)
		}),
	sumRule("BR-CO-15", "The total with VAT (BT-112) is the total without VAT plus the VAT",
		func(d *document) (expected, found invoice.Decimal) {
			return d.Totals.Net.Add(d.Totals.Tax), d.Totals.Gross
		}),
	sumRule("BR-CO-16", "The amount due (BT-115) is the total with VAT less what is paid (BT-113) plus rounding (BT-114)",
		func(d *document) (expected, found invoice.Decimal) {
			if isExtension(d) { // rule BR-DEX-09 applies instead
				return d.Totals.Payable, d.Totals.Payable
			}
			return d.Totals.Gross.Sub(d.Totals.Prepaid).Add(d.Totals.Rounding), d.Totals.Payable
		}),
	{
		ID: "BR-CO-17", Severity: Fatal, Text: "The VAT of a category (BT-117) is its taxable amount times its rate, to less than 1 (in CII to 1)",
		tax: taxFits,
	},
	{ID: "BR-CO-18", Severity: Fatal, Text: "An invoice has at least one VAT breakdown (BG-23)", document: func(d *document) bool { return len(d.Taxes) > 0 }},
	{
		ID: "BR-CO-19", Severity: Fatal, Text: "An invoicing period has a first or a last day (BG-14)",
		document: func(d *document) bool {
			code := d.TaxPointCode != "" && d.Written.Syntax != invoice.CIISyntax // in UBL the code is in the period
			return d.Period == nil || d.Period.Start != 0 || d.Period.End != 0 || code
		},
	},
	{
		ID: "BR-CO-20", Severity: Fatal, Text: "A line's period has a first or a last day (BG-26)",
		line: func(_ *document, l *line) bool { return l.Period == nil || l.Period.Start != 0 || l.Period.End != 0 },
	},
	{ID: "BR-CO-21", Severity: Fatal, Text: "An allowance has a reason, its code, or both", allowance: allowanceHas(false, hasReason)},
	{ID: "BR-CO-22", Severity: Fatal, Text: "A charge has a reason, its code, or both", allowance: allowanceHas(true, hasReason)},
	{ID: "BR-CO-23", Severity: Fatal, Text: "A line's allowance has a reason, its code, or both", lineAllowance: allowanceHas(false, hasReason)},
	{ID: "BR-CO-24", Severity: Fatal, Text: "A line's charge has a reason, its code, or both", lineAllowance: allowanceHas(true, hasReason)},
	{
		ID: "BR-CO-26", Severity: Fatal, Text: "The seller has an identifier (BT-29), a registration (BT-30) or a VAT identifier (BT-31)",
		document: func(d *document) bool {
			return len(d.Seller.IDs) > 0 || d.Seller.Legal.ID != "" || d.Seller.VATID != "" || d.Creditor != ""
		},
	},
}

// sumRule returns a rule that a total equals the value computed from other amounts. Its finding
// contains both numbers.
func sumRule(id, text string, sum func(*document) (expected, found invoice.Decimal)) Rule {
	return Rule{ID: id, Severity: Fatal, Text: text, sum: sum, document: func(d *document) bool {
		expected, found := sum(d)
		return expected.Cmp(found) == 0
	}}
}

// vatPrefixes reports whether every VAT id begins with a country code, or EL for Greece.
func vatPrefixes(d *document) bool {
	parties := []*invoice.Party{&d.Seller, &d.Buyer}
	if d.TaxRepresentative != nil {
		parties = append(parties, d.TaxRepresentative)
	}
	for _, p := range parties {
		if p.VATID != "" && (len(p.VATID) < 2 || p.VATID[:2] != "EL" && !countries.has(p.VATID[:2])) {
			return false
		}
	}
	return true
}

// sumLines returns the sum of the lines' net amounts.
func sumLines(d *document) invoice.Decimal {
	sum := invoice.NewDecimal(0, 0)
	for i := range d.Lines {
		sum = sum.Add(d.Lines[i].Net)
	}
	return sum
}

// sumAllowances returns the sum of the document's charges, or of its allowances.
func sumAllowances(d *document, charges bool) invoice.Decimal {
	sum := invoice.NewDecimal(0, 0)
	for i := range d.Allowances {
		if d.Allowances[i].Charge == charges {
			sum = sum.Add(d.Allowances[i].Amount)
		}
	}
	return sum
}

// taxFits checks BR-CO-17. The CII artefact accepts a difference of exactly 1, the UBL artefact
// does not. With rate 0 or without a rate, the tax must round to 0.
func taxFits(d *document, t *tax) bool {
	if t.Rate.Sign() == 0 {
		return t.Amount.Round(0).Sign() == 0
	}
	off := t.Amount.Abs().Sub(t.Base.Percent(t.Rate).Abs().Round(2)).Abs().Cmp(invoice.NewDecimal(1, 0))
	return off < 0 || off == 0 && d.Written.Syntax == invoice.CIISyntax
}

// withinOne reports whether a and b differ by less than 1, the tolerance of the standard's
// validators for products of amounts and rates.
func withinOne(a, b invoice.Decimal) bool { return a.Sub(b).Abs().Cmp(invoice.NewDecimal(1, 0)) < 0 }
