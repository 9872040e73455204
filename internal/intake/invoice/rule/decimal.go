package rule

import "example.org/smartdrive/internal/intake/invoice"

// decimals returns the rules that amounts have at most two decimals. Trailing zeros count, because
// the artefacts count characters after the point.
func decimals() []Rule {
	total := func(id, term string, of func(*invoice.Totals) invoice.Decimal) Rule {
		return Rule{ID: id, Severity: Fatal, Text: twoDecimalsText(term), document: func(d *document) bool { return of(&d.Totals).PlacesWritten() <= 2 }}
	}
	amount := func(a *allowance) invoice.Decimal { return a.Amount }
	base := func(a *allowance) invoice.Decimal { return a.Base }
	ofAllowance := func(charge bool, of func(*allowance) invoice.Decimal) func(*document, *allowance) bool {
		return allowanceHas(charge, func(a *allowance) bool { return of(a).PlacesWritten() <= 2 })
	}
	return []Rule{
		{ID: "BR-DEC-01", Severity: Fatal, Text: twoDecimalsText("allowance (BT-92)"), allowance: ofAllowance(false, amount)},
		{ID: "BR-DEC-02", Severity: Fatal, Text: twoDecimalsText("base of an allowance (BT-93)"), allowance: ofAllowance(false, base)},
		{ID: "BR-DEC-05", Severity: Fatal, Text: twoDecimalsText("charge (BT-99)"), allowance: ofAllowance(true, amount)},
		{ID: "BR-DEC-06", Severity: Fatal, Text: twoDecimalsText("base of a charge (BT-100)"), allowance: ofAllowance(true, base)},
		total("BR-DEC-09", "sum of lines (BT-106)", func(t *invoice.Totals) invoice.Decimal { return t.Lines }),
		total("BR-DEC-10", "sum of allowances (BT-107)", func(t *invoice.Totals) invoice.Decimal { return t.Allowances }),
		total("BR-DEC-11", "sum of charges (BT-108)", func(t *invoice.Totals) invoice.Decimal { return t.Charges }),
		total("BR-DEC-12", "total without VAT (BT-109)", func(t *invoice.Totals) invoice.Decimal { return t.Net }),
		total("BR-DEC-13", "total of VAT (BT-110)", func(t *invoice.Totals) invoice.Decimal { return t.Tax }),
		total("BR-DEC-14", "total with VAT (BT-112)", func(t *invoice.Totals) invoice.Decimal { return t.Gross }),
		total("BR-DEC-15", "VAT in the currency for accounting (BT-111)", func(t *invoice.Totals) invoice.Decimal { return t.TaxInCurrency }),
		total("BR-DEC-16", "paid amount (BT-113)", func(t *invoice.Totals) invoice.Decimal { return t.Prepaid }),
		total("BR-DEC-17", "rounding (BT-114)", func(t *invoice.Totals) invoice.Decimal { return t.Rounding }),
		total("BR-DEC-18", "amount due (BT-115)", func(t *invoice.Totals) invoice.Decimal { return t.Payable }),
		{
			ID: "BR-DEC-19", Severity: Fatal, Text: twoDecimalsText("taxable amount (BT-116)"),
			tax: func(_ *document, t *tax) bool { return t.Base.PlacesWritten() <= 2 },
		},
		{
			ID: "BR-DEC-20", Severity: Fatal, Text: twoDecimalsText("VAT of a category (BT-117)"),
			tax: func(_ *document, t *tax) bool { return t.Amount.PlacesWritten() <= 2 },
		},
		{
			ID: "BR-DEC-23", Severity: Fatal, Text: twoDecimalsText("line's net amount (BT-131)"),
			line: func(_ *document, l *line) bool { return l.Net.PlacesWritten() <= 2 },
		},
		{
			ID: "UBL-DT-01", Severity: Fatal, Text: twoDecimalsText("net amount of a line in a line"),
			line: func(_ *document, l *line) bool {
				return eachLine(l, func(sub *line) bool { return sub == l || sub.Net.PlacesWritten() <= 2 })
			},
		},
		{ID: "BR-DEC-24", Severity: Fatal, Text: twoDecimalsText("line's allowance (BT-136)"), lineAllowance: ofAllowance(false, amount)},
		{ID: "BR-DEC-25", Severity: Fatal, Text: twoDecimalsText("base of a line's allowance (BT-137)"), lineAllowance: ofAllowance(false, base)},
		{ID: "BR-DEC-27", Severity: Fatal, Text: twoDecimalsText("line's charge (BT-141)"), lineAllowance: ofAllowance(true, amount)},
		{ID: "BR-DEC-28", Severity: Fatal, Text: twoDecimalsText("base of a line's charge (BT-142)"), lineAllowance: ofAllowance(true, base)},
	}
}

// twoDecimalsText returns the text of a rule on two decimals.
func twoDecimalsText(what string) string { return "The " + what + " has at most two decimals" }
