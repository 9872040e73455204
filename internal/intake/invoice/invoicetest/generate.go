package invoicetest

import (
	"fmt"
	"math/rand/v2"

	"example.org/smartdrive/internal/intake/invoice"
)

// xrechnung is the profile of generated invoices: a CIUS, so that all rules of the core apply.
const xrechnung = invoice.ProfileCore + "#compliant#urn:xeinkauf.de:kosit:xrechnung_3.0"

// New returns a valid invoice with 1 to 6 lines at rates of 19, 7 and 0 %. Every fourth seed gives
// allowances and charges, every eighth a credit note.
func New(seed uint64) *invoice.Document {
	g := generator{rand.New(rand.NewPCG(seed, 7)), seed}
	d := g.head()
	for i := range 1 + g.IntN(6) {
		category, rate := "S", int64(19)
		switch g.IntN(6) {
		case 0:
			rate = 7
		case 1:
			category, rate = "Z", 0
		}
		d.Lines = append(d.Lines, g.line(i+1, category, rate))
	}
	if seed%4 == 0 {
		g.allowances(d, d.Lines[0].Category, d.Lines[0].Rate)
	}
	if seed%8 == 7 {
		d.Type = "381"
		d.Project = ""
	}
	Total(d)
	return d
}

// Of returns a valid invoice whose lines, allowances and charges all have the same VAT category and
// rate.
func Of(seed uint64, category string, rate int64) *invoice.Document {
	g := generator{rand.New(rand.NewPCG(seed, 11)), seed}
	d := g.head()
	for i := range 2 {
		d.Lines = append(d.Lines, g.line(i+1, category, rate))
	}
	g.allowances(d, category, d.Lines[0].Rate)
	switch category {
	case "O":
		d.Seller.VATID, d.Buyer.VATID, d.TaxRepresentative = "", "", nil
	case "K":
		d.Delivery.Address.Country = "FR"
	}
	Total(d)
	return d
}

// Total recomputes the taxes and totals of a document from its lines, allowances and charges.
func Total(d *invoice.Document) {
	t := &d.Totals
	*t = invoice.Totals{Prepaid: t.Prepaid, Rounding: t.Rounding}
	d.Taxes = nil
	for i := range d.Lines {
		line := &d.Lines[i]
		t.Lines = t.Lines.Add(line.Net)
		tax(d, line.Category, line.Rate, line.Net)
	}
	for i := range d.Allowances {
		a := &d.Allowances[i]
		if a.Charge {
			t.Charges = t.Charges.Add(a.Amount)
			tax(d, a.Category, a.Rate, a.Amount)
		} else {
			t.Allowances = t.Allowances.Add(a.Amount)
			tax(d, a.Category, a.Rate, a.Amount.Neg())
		}
	}
	t.Net = t.Lines.Sub(t.Allowances).Add(t.Charges)
	for i := range d.Taxes {
		d.Taxes[i].Amount = d.Taxes[i].Base.Percent(d.Taxes[i].Rate).Round(2)
		t.Tax = t.Tax.Add(d.Taxes[i].Amount)
	}
	if d.TaxCurrency != "" {
		t.TaxInCurrency = t.Tax.Mul(amount(87)).Round(2)
	}
	t.Gross = t.Net.Add(t.Tax)
	t.Payable = t.Gross.Sub(t.Prepaid).Add(t.Rounding)
}

// reasons holds the exemption reason of each category without VAT.
var reasons = map[string]string{
	"E": "exempt", "AE": "reverse charge", "K": "intra-community supply", "G": "export", "O": "not subject to VAT",
}

// reasonCodes maps VAT categories without VAT to their exemption reason code.
var reasonCodes = map[string]string{"AE": "VATEX-EU-AE", "K": "VATEX-EU-IC", "G": "VATEX-EU-G", "O": "VATEX-EU-O"}

// tax adds an amount to the breakdown of a category and rate.
func tax(d *invoice.Document, category string, rate, base invoice.Decimal) {
	for i := range d.Taxes {
		if d.Taxes[i].Category == category && d.Taxes[i].Rate.Equal(rate) {
			d.Taxes[i].Base = d.Taxes[i].Base.Add(base)
			return
		}
	}
	d.Taxes = append(d.Taxes, invoice.Tax{
		Category: category, Rate: rate, Base: invoice.Sum(base), Reason: reasons[category], ReasonCode: reasonCodes[category],
	})
}

// generator is a random source for one invoice.
type generator struct {
	*rand.Rand
	seed uint64
}

// amount returns cents as an amount with two decimals.
func amount(cents int64) invoice.Decimal { return invoice.NewDecimal(cents, 2) }

// date returns a random day of 2026.
func (g generator) date() invoice.Date { return invoice.NewDate(2026, 1+g.IntN(12), 1+g.IntN(28)) }

// head returns a document without lines and totals.
func (g generator) head() *invoice.Document {
	date := g.date()
	d := &invoice.Document{
		Profile: xrechnung, Process: "urn:fdc:peppol.eu:2017:poacc:billing:01:1.0",
		Number: fmt.Sprintf("R-%08d", g.seed), Date: date, Type: "380", Currency: "EUR", Due: date + 0, BuyerReference: "991-00000-01",
		PurchaseOrder: fmt.Sprintf("PO-%d", g.IntN(1e6)), PaymentTerms: "14 days, net",
		Notes:  []invoice.Note{{Subject: "AAI", Text: "Übersicht & Dank <für> Ihren Auftrag"}, {Text: "二零二六"}},
		Seller: g.party("Seller"), Buyer: g.party("Buyer"),
		Delivery: &invoice.Delivery{Name: "Gate 4", Date: date, Address: &invoice.Address{Line1: "Dock Road 1", City: "Hamburg", Zone: "20095", Country: "DE"}},
		Payments: []invoice.Payment{{Code: "58", Text: "SEPA", Transfer: true, Account: "DE00000000000000000000", AccountName: "Seller", Bank: "XXXXDE00XXX"}},

		PaymentReference: fmt.Sprintf("REF %d", g.IntN(1e6)),
	}
	return d
}

// party returns a party. No German VAT id begins with 0, and no account number has the check digits
// 00.
func (g generator) party(role string) invoice.Party {
	n := g.IntN(1000)
	return invoice.Party{
		Name: fmt.Sprintf("%s %d GmbH", role, n), TradeName: fmt.Sprintf("%s %d", role, n),
		IDs:   []invoice.Identifier{{ID: fmt.Sprintf("%d", 10_000+n)}},
		Legal: invoice.Identifier{ID: fmt.Sprintf("HRB 0%d", n)}, VATID: fmt.Sprintf("DE000%06d", n),
		Endpoint: invoice.Identifier{ID: fmt.Sprintf("%d@example.com", n), Scheme: "EM"},
		Address:  &invoice.Address{Line1: "Example Street 1", City: "Berlin", Zone: "10115", Country: "DE"},
		Contact:  &invoice.Contact{Name: "Erika Example", Phone: "+49 30 0000000", Email: fmt.Sprintf("office%d@example.com", n)},
	}
}

// units lists unit codes that generated lines use.
var units = []string{"C62", "H87", "HUR", "KGM", "LTR", "MTR", "XPP"}

// line returns a line of a category and rate.
func (g generator) line(id int, category string, rate int64) invoice.Line {
	quantity, price := invoice.NewDecimal(int64(1+g.IntN(5000)), g.IntN(3)), invoice.NewDecimal(int64(1+g.IntN(100_000)), 2+g.IntN(3))
	line := invoice.Line{
		ID: fmt.Sprintf("%d", id), Quantity: quantity, Unit: units[g.IntN(len(units))], Price: price,
		Net: quantity.Mul(price).Round(2), Category: category, Name: fmt.Sprintf("Item %d", g.IntN(1000)),
		Description: "As agreed, in blue", SellerItem: fmt.Sprintf("A-%d", g.IntN(1000)),
	}
	if category != "O" {
		line.Rate = invoice.NewDecimal(rate, 0)
	}
	return line
}

// allowances adds an allowance and a charge to the document and to its first line.
func (g generator) allowances(d *invoice.Document, category string, rate invoice.Decimal) {
	few := amount(int64(1 + g.IntN(50)))
	line := &d.Lines[0]
	line.Allowances = []invoice.Allowance{
		{Amount: few, Reason: "Discount", Code: "95"},
		{Charge: true, Amount: few, Base: amount(10_000), Percent: few, Reason: "Freight", Code: "FC"},
	}
	d.Allowances = []invoice.Allowance{
		{Amount: few, Category: category, Rate: rate, Reason: "Bonus", Code: "95"},
		{Charge: true, Amount: amount(500), Category: category, Rate: rate, Reason: "Packing", Code: "PC"},
	}
}
