package rule

import (
	"slices"

	"example.org/smartdrive/internal/intake/invoice"
)

// category is a VAT category with the parameters of its ten rules (EN 16931-1, 6.4.3). Rules 02, 03
// and 04 require the same ids for lines, allowances and charges; rules 05, 06 and 07 restrict their
// rates. Rule names follow the standard's validators, where BR-AF and BR-AG replaced BR-IG and
// BR-IP.
type category struct {
	code, name, title string
	several           bool                 // one breakdown per rate, not one in total
	ids               func(*document) bool // reports whether the ids required by rules 02 to 04 are present
	idText            string
	rate              func(invoice.Decimal) bool // reports whether rules 05 to 07 allow the rate
	rateText          string
	reason            bool // an exemption reason is required; false: it is forbidden
}

// vatCategories holds the parameters of all categories.
var vatCategories = []category{
	{"S", "S", "standard rated", true, sellerTaxed, anyTaxID, func(r invoice.Decimal) bool { return r.Sign() > 0 }, "more than 0", false},
	{"Z", "Z", "zero rated", false, sellerTaxed, anyTaxID, zeroRate, "0", false},
	{"E", "E", "exempt from VAT", false, sellerTaxed, anyTaxID, zeroRate, "0", true},
	{
		"AE", "AE", "reverse charge", false,
		func(d *document) bool { return sellerTaxed(d) && (d.Buyer.VATID != "" || d.Buyer.Legal.ID != "") },
		"the seller's (BT-31, BT-32, BT-63), and the buyer's VAT identifier or registration (BT-48, BT-47)", zeroRate, "0", true,
	},
	{
		"K", "IC", "intra-community supply", false,
		func(d *document) bool { return sellerVAT(d) && d.Buyer.VATID != "" }, "the VAT identifiers of the seller (BT-31, BT-63) and the buyer (BT-48)", zeroRate, "0", true,
	},
	{"G", "G", "export outside the EU", false, sellerVAT, "the seller's VAT identifier (BT-31, BT-63)", zeroRate, "0", true},
	{
		"O", "O", "not subject to VAT", false,
		func(d *document) bool {
			return d.Seller.VATID == "" && d.Buyer.VATID == "" && (d.TaxRepresentative == nil || d.TaxRepresentative.VATID == "")
		},
		"no VAT identifiers (BT-31, BT-48, BT-63)", func(r invoice.Decimal) bool { return !r.Given() }, "not given", true,
	},
	{"L", "AF", "IGIC (Canary Islands)", true, sellerTaxed, anyTaxID, anyRate, "0 or more", false},
	{"M", "AG", "IPSI (Ceuta and Melilla)", true, sellerTaxed, anyTaxID, anyRate, "0 or more", false},
}

// anyTaxID is the part of rule texts that names the accepted tax identifiers.
const anyTaxID = "a VAT identifier or tax number of the seller (BT-31, BT-32) or its representative (BT-63)"

// zeroRate reports whether the rate is given and 0; an absent one is not.
func zeroRate(r invoice.Decimal) bool { return r.Given() && r.Sign() == 0 }

// anyRate reports whether the rate is given and not negative.
func anyRate(r invoice.Decimal) bool { return r.Given() && r.Sign() >= 0 }

// sellerVAT reports whether the seller or its tax representative has a VAT id.
func sellerVAT(d *document) bool {
	return d.Seller.VATID != "" || d.TaxRepresentative != nil && d.TaxRepresentative.VATID != ""
}

// sellerTaxed reports whether the seller has a VAT id or tax number, or its tax representative a
// VAT id.
func sellerTaxed(d *document) bool { return sellerVAT(d) || d.Seller.TaxID != "" }

// categories returns the rules of all categories.
func categories() []Rule {
	var rules []Rule
	for _, c := range vatCategories {
		rules = append(rules, c.rules()...)
	}
	return append(rules, special...)
}

// rules returns the rules BR-X-01 to BR-X-10 of the category X.
func (c category) rules() []Rule {
	id := func(n string) string { return "BR-" + c.name + "-" + n }
	first := "An invoice with something " + c.title + " has exactly one VAT breakdown of this category"
	if c.several {
		first = "An invoice has VAT breakdowns of a category if, and only if, it has something " + c.title
	}
	reasonText := "has no reason for an exemption (BT-120, BT-121)"
	if c.reason {
		reasonText = "has the reason why there is no VAT, or its code (BT-120, BT-121)"
	}
	return []Rule{
		{ID: id("01"), Severity: Fatal, Text: first, document: c.hasBreakdown},
		{
			ID: id("02"), Severity: Fatal, Text: "A line that is " + c.title + " needs " + c.idText,
			line: func(d *document, l *line) bool { return l.Category != c.code || c.ids(d) },
		},
		{ID: id("03"), Severity: Fatal, Text: "An allowance that is " + c.title + " needs " + c.idText, allowance: c.onAllowance(false, c.idsOf)},
		{ID: id("04"), Severity: Fatal, Text: "A charge that is " + c.title + " needs " + c.idText, allowance: c.onAllowance(true, c.idsOf)},
		{
			ID: id("05"), Severity: Fatal, Text: "The rate of a line that is " + c.title + " is " + c.rateText,
			line: func(_ *document, l *line) bool { return l.Category != c.code || c.rate(l.Rate) },
		},
		{ID: id("06"), Severity: Fatal, Text: "The rate of an allowance that is " + c.title + " is " + c.rateText, allowance: c.onAllowance(false, c.rateOf)},
		{ID: id("07"), Severity: Fatal, Text: "The rate of a charge that is " + c.title + " is " + c.rateText, allowance: c.onAllowance(true, c.rateOf)},
		{ID: id("08"), Severity: Fatal, Text: "The amount that is " + c.title + " (BT-116) is that of its lines less allowances plus charges", tax: c.base},
		{ID: id("09"), Severity: Fatal, Text: c.amountText(), tax: c.amount},
		{
			ID: id("10"), Severity: Fatal, Text: "A breakdown that is " + c.title + " " + reasonText,
			tax: func(_ *document, t *tax) bool {
				return t.Category != c.code || (t.Reason != "" || t.ReasonCode != "") == c.reason
			},
		},
	}
}

// idsOf reports whether the document has the tax identifiers that an allowance of the category
// needs.
func (c category) idsOf(d *document, _ *allowance) bool { return c.ids(d) }

// rateOf reports whether the allowance's rate is allowed in the category.
func (c category) rateOf(_ *document, a *allowance) bool { return c.rate(a.Rate) }

// onAllowance returns a check on the allowances, or on the charges, of this category only.
func (c category) onAllowance(charge bool, holds func(*document, *allowance) bool) func(*document, *allowance) bool {
	return func(d *document, a *allowance) bool { return a.Charge != charge || a.Category != c.code || holds(d, a) }
}

// hasBreakdown checks rule 01: true if the breakdowns of the category fit its use in lines and
// allowances.
func (c category) hasBreakdown(d *document) bool {
	breakdowns := 0
	for i := range d.Taxes {
		if d.Taxes[i].Category == c.code {
			breakdowns++
		}
	}
	used := slices.ContainsFunc(d.Lines, func(l line) bool { return c.inLine(&l) }) ||
		slices.ContainsFunc(d.Allowances, func(a allowance) bool { return a.Category == c.code })
	if c.several {
		return used == (breakdowns > 0)
	}
	return breakdowns == 1 || breakdowns == 0 && !used
}

// inLine reports whether a line, or one of its sublines, has the category.
func (c category) inLine(l *line) bool {
	return l.Category == c.code || slices.ContainsFunc(l.Lines, func(sub line) bool { return c.inLine(&sub) })
}

// base checks rule 08. For categories with several rates, the standard's validators accept a
// difference below 1, in UBL only.
func (c category) base(d *document, t *tax) bool {
	if t.Category != c.code {
		return true
	}
	sum := invoice.NewDecimal(0, 0)
	for i := range d.Lines {
		if l := &d.Lines[i]; l.Category == c.code && (!c.several || l.Rate.Cmp(t.Rate) == 0) {
			sum = sum.Add(l.Net)
		}
	}
	for i := range d.Allowances {
		if a := &d.Allowances[i]; a.Category == c.code && (!c.several || a.Rate.Cmp(t.Rate) == 0) {
			if a.Charge {
				sum = sum.Add(a.Amount)
			} else {
				sum = sum.Sub(a.Amount)
			}
		}
	}
	if c.several && d.Written.Syntax != invoice.CIISyntax {
		return withinOne(sum, t.Base)
	}
	return sum.Round(2).Cmp(t.Base.Round(2)) == 0
}

// amount checks rule 09. For categories L and M, the CII artefact checks only BR-CO-17.
func (c category) amount(d *document, t *tax) bool {
	switch {
	case t.Category != c.code, c.several && c.code != "S" && d.Written.Syntax == invoice.CIISyntax:
		return true
	case c.several:
		return withinOne(t.Amount.Abs(), t.Base.Percent(t.Rate).Abs().Round(2))
	}
	return t.Amount.Sign() == 0
}

// amountText returns the text of rule 09.
func (c category) amountText() string {
	if c.several {
		return "The VAT that is " + c.title + " (BT-117) is its taxable amount times its rate, to less than 1"
	}
	return "The VAT of what is " + c.title + " (BT-117) is 0"
}

// special holds the rules that exist for one category only.
var special = []Rule{
	{
		ID: "BR-IC-11", Severity: Fatal, Text: "An intra-community supply has a date of delivery (BT-72) or a period (BG-14)",
		tax: func(d *document, t *tax) bool {
			return t.Category != "K" || d.Delivery != nil && d.Delivery.Date != 0 || d.Period != nil
		},
	},
	{
		ID: "BR-IC-12", Severity: Fatal, Text: "An intra-community supply has a country that it is delivered to (BT-80)",
		tax: func(d *document, t *tax) bool {
			return t.Category != "K" || d.Delivery != nil && hasCountry(d.Delivery.Address)
		},
	},
	{
		ID: "BR-O-11", Severity: Fatal, Text: "Beside a breakdown that is not subject to VAT there is no other",
		document: func(d *document) bool { return !hasO(d) || len(d.Taxes) == 1 },
	},
	{
		ID: "BR-O-12", Severity: Fatal, Text: "Beside a breakdown that is not subject to VAT no line has another category",
		line: func(d *document, l *line) bool { return !hasO(d) || l.Category == "O" },
	},
	{
		ID: "BR-O-13", Severity: Fatal, Text: "Beside a breakdown that is not subject to VAT no allowance has another category",
		allowance: func(d *document, a *allowance) bool { return !hasO(d) || a.Charge || a.Category == "O" },
	},
	{
		ID: "BR-O-14", Severity: Fatal, Text: "Beside a breakdown that is not subject to VAT no charge has another category",
		allowance: func(d *document, a *allowance) bool { return !hasO(d) || !a.Charge || a.Category == "O" },
	},
	{
		ID: "BR-B-01", Severity: Fatal, Text: "Split payment (B) is for invoices within Italy",
		document: func(d *document) bool {
			return !hasB(d) || hasCountry(d.Seller.Address) && d.Seller.Address.Country == "IT" && hasCountry(d.Buyer.Address) && d.Buyer.Address.Country == "IT"
		},
	},
	{
		ID: "BR-B-02", Severity: Fatal, Text: "An invoice with split payment (B) has nothing standard rated (S)",
		document: func(d *document) bool { return !hasB(d) || !hasCategoryCode(d, "S") },
	},
}

// hasO reports whether a VAT breakdown has category O (not subject to VAT).
func hasO(d *document) bool {
	return slices.ContainsFunc(d.Taxes, func(t tax) bool { return t.Category == "O" })
}

// hasB reports whether the document uses category B (split payment).
func hasB(d *document) bool { return hasCategoryCode(d, "B") }

// hasCategoryCode reports whether a breakdown, line or allowance of the document has a category.
func hasCategoryCode(d *document, code string) bool {
	return slices.ContainsFunc(d.Taxes, func(t tax) bool { return t.Category == code }) ||
		slices.ContainsFunc(d.Lines, func(l line) bool { return category{code: code}.inLine(&l) }) ||
		slices.ContainsFunc(d.Allowances, func(a allowance) bool { return a.Category == code })
}
