package rule

import "example.org/smartdrive/internal/intake/invoice"

// Short names for types of the model.
type (
	document  = invoice.Document
	line      = invoice.Line
	allowance = invoice.Allowance
	tax       = invoice.Tax
)

// core holds the rules on mandatory terms (EN 16931-1, 6.4.1).
var core = []Rule{
	{ID: "BR-01", Severity: Fatal, Text: "An invoice has a specification identifier (BT-24)", document: func(d *document) bool { return d.Profile != "" }},
	{ID: "BR-02", Severity: Fatal, Text: "An invoice has a number (BT-1)", document: func(d *document) bool { return d.Number != "" }},
	{ID: "BR-03", Severity: Fatal, Text: "An invoice has a date of issue (BT-2)", document: func(d *document) bool { return d.Date != 0 }},
	{ID: "BR-04", Severity: Fatal, Text: "An invoice has a type code (BT-3)", document: func(d *document) bool { return d.Type != "" }},
	{ID: "BR-05", Severity: Fatal, Text: "An invoice has a currency (BT-5)", document: func(d *document) bool { return d.Currency != "" }},
	{ID: "BR-06", Severity: Fatal, Text: "The seller has a name (BT-27)", document: func(d *document) bool { return d.Seller.Name != "" }},
	{ID: "BR-07", Severity: Fatal, Text: "The buyer has a name (BT-44)", document: func(d *document) bool { return d.Buyer.Name != "" }},
	{ID: "BR-08", Severity: Fatal, Text: "The seller has a postal address (BG-5)", document: func(d *document) bool { return d.Seller.Address != nil }},
	{ID: "BR-09", Severity: Fatal, Text: "The seller's address has a country (BT-40)", document: func(d *document) bool { return hasCountry(d.Seller.Address) }},
	{ID: "BR-10", Severity: Fatal, Text: "The buyer has a postal address (BG-8)", document: func(d *document) bool { return d.Buyer.Address != nil }},
	{ID: "BR-11", Severity: Fatal, Text: "The buyer's address has a country (BT-55)", document: func(d *document) bool { return hasCountry(d.Buyer.Address) }},
	{ID: "BR-12", Severity: Fatal, Text: "An invoice has the sum of its lines (BT-106)", document: func(d *document) bool { return d.Totals.Lines.Given() }},
	{ID: "BR-13", Severity: Fatal, Text: "An invoice has a total without VAT (BT-109)", document: func(d *document) bool { return d.Totals.Net.Given() }},
	{ID: "BR-14", Severity: Fatal, Text: "An invoice has a total with VAT (BT-112)", document: func(d *document) bool { return d.Totals.Gross.Given() }},
	{ID: "BR-15", Severity: Fatal, Text: "An invoice has an amount due (BT-115)", document: func(d *document) bool { return d.Totals.Payable.Given() }},
	{ID: "BR-16", Severity: Fatal, Text: "An invoice has at least one line (BG-25)", document: func(d *document) bool { return len(d.Lines) > 0 }},
	{ID: "BR-17", Severity: Fatal, Text: "A payee has a name (BT-59)", document: func(d *document) bool { return d.Payee == nil || d.Payee.Name != "" }},
	{
		ID: "BR-18", Severity: Fatal, Text: "A tax representative has a name (BT-62)",
		document: func(d *document) bool { return d.TaxRepresentative == nil || d.TaxRepresentative.Name != "" },
	},
	{
		ID: "BR-19", Severity: Fatal, Text: "A tax representative has a postal address (BG-12)",
		document: func(d *document) bool { return d.TaxRepresentative == nil || d.TaxRepresentative.Address != nil },
	},
	{
		ID: "BR-20", Severity: Fatal, Text: "The tax representative's address has a country (BT-69)",
		document: func(d *document) bool { return d.TaxRepresentative == nil || hasCountry(d.TaxRepresentative.Address) },
	},
	{ID: "BR-21", Severity: Fatal, Text: "A line has an identifier (BT-126)", line: func(_ *document, l *line) bool { return l.ID != "" }},
	{ID: "BR-22", Severity: Fatal, Text: "A line has a quantity (BT-129)", line: func(_ *document, l *line) bool { return l.Quantity.Given() }},
	{ID: "BR-23", Severity: Fatal, Text: "A line's quantity has a unit (BT-130)", line: func(_ *document, l *line) bool { return l.Unit != "" }},
	{ID: "BR-24", Severity: Fatal, Text: "A line has a net amount (BT-131)", line: func(_ *document, l *line) bool { return l.Net.Given() }},
	{ID: "BR-25", Severity: Fatal, Text: "A line's item has a name (BT-153)", line: func(_ *document, l *line) bool { return l.Name != "" }},
	{ID: "BR-26", Severity: Fatal, Text: "A line's item has a net price (BT-146)", line: func(_ *document, l *line) bool { return l.Price.Given() }},
	{ID: "BR-27", Severity: Fatal, Text: "A net price is not negative (BT-146)", line: func(_ *document, l *line) bool { return l.Price.Sign() >= 0 }},
	{ID: "BR-28", Severity: Fatal, Text: "A gross price is not negative (BT-148)", line: func(_ *document, l *line) bool { return l.GrossPrice.Sign() >= 0 }},
	{
		ID: "BR-29", Severity: Fatal, Text: "An invoicing period ends on or after its first day (BT-73, BT-74)",
		document: func(d *document) bool { return inOrder(d.Period) },
	},
	{
		ID: "BR-30", Severity: Fatal, Text: "A line's period ends on or after its first day (BT-134, BT-135)",
		line: func(_ *document, l *line) bool { return inOrder(l.Period) },
	},
	{ID: "BR-31", Severity: Fatal, Text: "An allowance has an amount (BT-92)", allowance: allowanceHas(false, hasAmount)},
	{ID: "BR-32", Severity: Fatal, Text: "An allowance has a VAT category (BT-95)", allowance: allowanceHas(false, hasCategory)},
	{ID: "BR-33", Severity: Fatal, Text: "An allowance has a reason or its code (BT-97, BT-98)", allowance: allowanceHas(false, hasReason)},
	{ID: "BR-36", Severity: Fatal, Text: "A charge has an amount (BT-99)", allowance: allowanceHas(true, hasAmount)},
	{ID: "BR-37", Severity: Fatal, Text: "A charge has a VAT category (BT-102)", allowance: allowanceHas(true, hasCategory)},
	{ID: "BR-38", Severity: Fatal, Text: "A charge has a reason or its code (BT-104, BT-105)", allowance: allowanceHas(true, hasReason)},
	{ID: "BR-41", Severity: Fatal, Text: "A line's allowance has an amount (BT-136)", lineAllowance: allowanceHas(false, hasAmount)},
	{ID: "BR-42", Severity: Fatal, Text: "A line's allowance has a reason or its code (BT-139, BT-140)", lineAllowance: allowanceHas(false, hasReason)},
	{ID: "BR-43", Severity: Fatal, Text: "A line's charge has an amount (BT-141)", lineAllowance: allowanceHas(true, hasAmount)},
	{ID: "BR-44", Severity: Fatal, Text: "A line's charge has a reason or its code (BT-144, BT-145)", lineAllowance: allowanceHas(true, hasReason)},
	{ID: "BR-45", Severity: Fatal, Text: "A VAT breakdown has a taxable amount (BT-116)", tax: func(_ *document, t *tax) bool { return t.Base.Given() }},
	{ID: "BR-46", Severity: Fatal, Text: "A VAT breakdown has a tax amount (BT-117)", tax: func(_ *document, t *tax) bool { return t.Amount.Given() }},
	{ID: "BR-47", Severity: Fatal, Text: "A VAT breakdown has a category (BT-118)", tax: func(_ *document, t *tax) bool { return t.Category != "" }},
	{
		ID: "BR-48", Severity: Fatal, Text: "A VAT breakdown has a rate (BT-119), unless it is not subject to VAT",
		tax: func(_ *document, t *tax) bool { return t.Rate.Given() || t.Category == "O" },
	},
}

// hasCountry reports whether the address has a country; nil has none.
func hasCountry(a *invoice.Address) bool { return a != nil && a.Country != "" }

// inOrder reports whether the period does not end before it starts. A nil or open period passes.
func inOrder(p *invoice.Period) bool {
	return p == nil || p.Start == 0 || p.End == 0 || p.Start <= p.End
}

// allowanceHas returns a check on allowances only, or on charges only.
func allowanceHas(charge bool, has func(*allowance) bool) func(*document, *allowance) bool {
	return func(_ *document, a *allowance) bool { return a.Charge != charge || has(a) }
}

// hasAmount reports whether the allowance has an amount.
func hasAmount(a *allowance) bool { return a.Amount.Given() }

// hasCategory reports whether the allowance has a VAT category.
func hasCategory(a *allowance) bool { return a.Category != "" }

// hasReason reports whether the allowance or charge has a reason or its code.
func hasReason(a *allowance) bool { return a.Reason != "" || a.Code != "" }
