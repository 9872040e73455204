package rule

import (
	"slices"

	"example.org/smartdrive/internal/intake/invoice"
)

// core2 holds the rules on mandatory terms of optional groups.
var core2 = []Rule{
	{ID: "BR-49", Severity: Fatal, Text: "A payment instruction has a means of payment (BT-81)", document: payments(func(p *invoice.Payment) bool { return p.Code != "" })},
	{
		ID: "BR-50", Severity: Fatal, Text: "What is said about a credit transfer (30, 58) has an account (BT-84)",
		document: payments(func(p *invoice.Payment) bool { return !p.Transfer || !isTransfer(p) || p.Account != "" }),
	},
	{
		ID: "BR-51", Severity: Warning, Text: "Of a card only the last 4 to 6 digits are named (BT-87)",
		document: payments(func(p *invoice.Payment) bool { return len(p.Card) <= 10 }),
	},
	{
		ID: "BR-52", Severity: Fatal, Text: "A supporting document has a reference (BT-122)",
		document: func(d *document) bool {
			return !slices.ContainsFunc(d.Attachments, func(a invoice.Attachment) bool { return a.ID == "" })
		},
	},
	{
		ID: "BR-53", Severity: Fatal, Text: "An invoice with a currency for accounting VAT (BT-6) has the VAT in it (BT-111)",
		document: func(d *document) bool {
			return d.TaxCurrency == "" || d.Totals.TaxInCurrency.Given() || d.TaxCurrency == d.Currency && d.Totals.Tax.Given()
		},
	},
	{
		ID: "BR-54", Severity: Fatal, Text: "An attribute of an item has a name and a value (BT-160, BT-161)",
		line: func(_ *document, l *line) bool {
			return !slices.ContainsFunc(l.Attributes, func(a invoice.Attribute) bool { return a.Name == "" || a.Value == "" })
		},
	},
	{
		ID: "BR-55", Severity: Fatal, Text: "A reference to a preceding invoice has its number (BT-25)",
		document: func(d *document) bool {
			return !slices.ContainsFunc(d.Preceding, func(r invoice.Reference) bool { return r.Number == "" })
		},
	},
	{
		ID: "BR-56", Severity: Fatal, Text: "A tax representative has a VAT identifier (BT-63)",
		document: func(d *document) bool { return d.TaxRepresentative == nil || d.TaxRepresentative.VATID != "" },
	},
	{
		ID: "BR-57", Severity: Fatal, Text: "A deliver-to address has a country (BT-80)",
		document: func(d *document) bool {
			return d.Delivery == nil || d.Delivery.Address == nil || hasCountry(d.Delivery.Address)
		},
	},
	{
		ID: "BR-61", Severity: Fatal, Text: "A payment by credit transfer (30, 58) has an account (BT-84)",
		document: payments(func(p *invoice.Payment) bool { return !isTransfer(p) || p.Account != "" }),
	},
	{
		ID: "BR-62", Severity: Fatal, Text: "The seller's electronic address has a scheme (BT-34)",
		document: func(d *document) bool { return hasScheme(d.Seller.Endpoint) },
	},
	{
		ID: "BR-63", Severity: Fatal, Text: "The buyer's electronic address has a scheme (BT-49)",
		document: func(d *document) bool { return hasScheme(d.Buyer.Endpoint) },
	},
	{
		ID: "BR-64", Severity: Fatal, Text: "An item's standard identifier has a scheme (BT-157)",
		line: func(_ *document, l *line) bool { return hasScheme(l.StandardItem) },
	},
	{
		ID: "BR-65", Severity: Fatal, Text: "An item's classification has a scheme (BT-158)",
		line: func(_ *document, l *line) bool {
			return !slices.ContainsFunc(l.Classes, func(c invoice.Class) bool { return c.Code != "" && c.Scheme == "" })
		},
	},
	{
		ID: "BR-66", Severity: Fatal, Text: "An invoice names at most one card (BG-18)",
		document: atMostOne(func(p *invoice.Payment) bool { return p.Card != "" }),
	},
	{
		ID: "BR-67", Severity: Fatal, Text: "An invoice names at most one account to debit (BG-19)",
		document: atMostOne(func(p *invoice.Payment) bool { return p.DebitAccount != "" }),
	},
}

// isTransfer reports whether the means of payment is a credit transfer (code 30 or 58).
func isTransfer(p *invoice.Payment) bool { return p.Code == "30" || p.Code == "58" }

// atMostOne returns a check that at most one payment satisfies of.
func atMostOne(of func(*invoice.Payment) bool) func(*document) bool {
	return func(d *document) bool {
		n := 0
		for i := range d.Payments {
			if of(&d.Payments[i]) {
				n++
			}
		}
		return n <= 1
	}
}

// hasScheme reports whether the identifier is empty or has a scheme.
func hasScheme(id invoice.Identifier) bool { return id.ID == "" || id.Scheme != "" }

// payments returns a check that all payments satisfy holds.
func payments(holds func(*invoice.Payment) bool) func(*document) bool {
	return func(d *document) bool {
		for i := range d.Payments {
			if !holds(&d.Payments[i]) {
				return false
			}
		}
		return true
	}
}

// own holds SmartDrive's own rules: fatal ones against ambiguous documents, and warnings.
var own = []Rule{
	{
		ID: "SD-01", Severity: Fatal, Text: "What an invoice says once, it does not say twice with different values",
		document: func(d *document) bool { return len(d.Repeated) == 0 },
	},
	{
		ID: "SD-02", Severity: Fatal, Text: "All amounts are in the currency of the invoice (BT-5)",
		document: func(d *document) bool { return len(d.OtherCurrencies) == 0 },
	},
	{ID: "SD-08", Severity: Fatal, Text: "An allowance or charge says which of both it is"},
	{ID: "SD-05", Severity: Warning, Text: "What an invoice says in one place, it says once; the first counts"},
	{ID: "SD-06", Severity: Warning, Text: "A tax registration says whether it is for VAT (VA) or local (FC); another does not count (BT-31, BT-32)"},
	{ID: "SD-07", Severity: Warning, Text: "A date is in the format 102 (yyyymmdd); another is not read"},
	{
		ID: "SD-03", Severity: Warning, Text: "The VAT of a category is its taxable amount times its rate, to the cent (BT-117)",
		tax: func(d *document, t *tax) bool {
			return d.Profile == invoice.ProfileFapiao || near(t.Amount, t.Base.Percent(t.Rate), cents(1))
		},
	},
	{
		ID: "SD-04", Severity: Warning, Text: "A line's net amount is its quantity times its price, less allowances, plus charges (BT-131)",
		line: func(_ *document, l *line) bool { return !l.Quantity.Given() || !l.Price.Given() || netAsCalculated(l) },
	},
}

// netAsCalculated reports whether a line's net amount equals quantity × price, less allowances,
// plus charges, within 0.02. It multiplies both sides by BaseQuantity to avoid a division.
func netAsCalculated(l *line) bool {
	base := l.BaseQuantity
	if base.Sign() == 0 {
		base = invoice.NewDecimal(1, 0)
	}
	expected := l.Quantity.Mul(l.Price).Add(sumOf(l.Allowances).Mul(base))
	return near(l.Net.Mul(base), expected, cents(2).Mul(base.Abs()))
}

// sumOf returns the charges minus the allowances of the list; 0 for none.
func sumOf(list []allowance) invoice.Decimal {
	sum := invoice.NewDecimal(0, 0)
	for i := range list {
		if list[i].Charge {
			sum = sum.Add(list[i].Amount)
		} else {
			sum = sum.Sub(list[i].Amount)
		}
	}
	return sum
}

// cents returns n/100 as a decimal.
func cents(n int64) invoice.Decimal { return invoice.NewDecimal(n, 2) }

// near reports whether a and b differ by at most within, inclusive.
func near(a, b, within invoice.Decimal) bool { return a.Sub(b).Abs().Cmp(within) <= 0 }
