package rule_test

import (
	"strings"
	"testing"

	"example.org/smartdrive/internal/intake/invoice"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
	"example.org/smartdrive/internal/intake/invoice/rule"
)

var rates = map[string]int64{"S": 19, "L": 7, "M": 4}

// only returns a function that makes valid invoices of one VAT category.
func only(category string) func() *invoice.Document {
	return func() *invoice.Document { return invoicetest.Of(5, category, rates[category]) }
}

// italian returns a valid invoice with split payment.
func italian() *invoice.Document {
	d := invoicetest.Of(5, "B", 22)
	d.Seller.Address.Country, d.Buyer.Address.Country = "IT", "IT"
	return d
}

// nobody removes all tax identifiers of the seller.
func nobody(d *invoice.Document) { d.Seller.VATID, d.Seller.TaxID, d.TaxRepresentative = "", "", nil }

// categoryBreaches returns the breaches of the rules of all categories.
func categoryBreaches() map[string][]breach {
	all := map[string][]breach{}
	for category, name := range map[string]string{
		"S": "S", "Z": "Z", "E": "E", "AE": "AE", "K": "IC", "G": "G", "O": "O", "L": "AF", "M": "AG",
	} {
		addBreaches(all, category, "BR-"+name+"-")
	}
	in := func(category string, change func(*invoice.Document), with ...string) []breach {
		return []breach{{of: only(category), change: change, with: with}}
	}
	all["BR-AE-02"] = append(all["BR-AE-02"], breach{
		of: only("AE"), change: func(d *invoice.Document) { d.Buyer.VATID, d.Buyer.Legal.ID = "", "" }, with: []string{"BR-AE-03", "BR-AE-04"},
	})
	all["BR-IC-02"] = append(all["BR-IC-02"], breach{
		of: only("K"), change: func(d *invoice.Document) { d.Buyer.VATID = "" }, with: []string{"BR-IC-03", "BR-IC-04"},
	})
	all["BR-IC-11"] = in("K", func(d *invoice.Document) { d.Delivery.Date = 0 })
	all["BR-IC-12"] = in("K", func(d *invoice.Document) { d.Delivery.Address = nil })
	all["BR-O-11"] = in("O", func(d *invoice.Document) { d.Taxes = append(d.Taxes, zeroTax("Z")) })
	all["BR-O-12"] = in("O", func(d *invoice.Document) {
		d.Lines = append(d.Lines, zeroLine(d.Lines[0], "Z"))
		d.Seller.TaxID = "000/000/00000"
		d.Lines[2].Allowances = nil
	}, "BR-Z-01")
	all["BR-O-13"] = in("O", func(d *invoice.Document) {
		d.Allowances = append(d.Allowances, zeroAllowance("Z"))
		d.Seller.TaxID = "000/000/00000"
	}, "BR-Z-01")
	all["BR-O-14"] = in("O", func(d *invoice.Document) {
		a := zeroAllowance("Z")
		a.Charge = true
		d.Allowances = append(d.Allowances, a)
		d.Seller.TaxID = "000/000/00000"
	}, "BR-Z-01")
	all["BR-B-01"] = []breach{{of: italian, change: func(d *invoice.Document) { d.Buyer.Address.Country = "FR" }}}
	all["BR-B-02"] = []breach{{of: italian, change: func(d *invoice.Document) {
		a := zeroAllowance("S")
		a.Rate = invoice.NewDecimal(22, 0)
		d.Allowances = append(d.Allowances, a)
		t := zeroTax("S")
		t.Rate = a.Rate
		d.Taxes = append(d.Taxes, t)
	}}}
	return all
}

// addBreaches adds the breaches of the ten rules that all categories have.
func addBreaches(all map[string][]breach, category, prefix string) {
	in := func(n string, change func(*invoice.Document), with ...string) {
		for i := range with {
			if len(with[i]) == 2 {
				with[i] = prefix + with[i]
			}
		}
		all[prefix+n] = append(all[prefix+n], breach{of: only(category), change: change, with: with})
	}
	several := rates[category] != 0
	in("01", func(d *invoice.Document) {
		d.Taxes[0].Category = "B"
		d.Taxes[0].Rate = invoice.NewDecimal(rates[category], 0)
	}, italianOnly(category)...)
	noIDs := nobody
	wrongRate := invoice.NewDecimal(-1, 0)
	if category == "O" {
		noIDs = func(d *invoice.Document) { d.Seller.VATID = "DE000000001" }
	}
	// a missing id affects a line, an allowance and a charge at once, so test each of them
	// alone
	alone := []string{} // rules of category O on other categories
	if category == "O" {
		alone = []string{"12", "13", "14"}
	}
	other := func(i ...int) (with []string) {
		for _, i := range i {
			if len(alone) > 0 {
				with = append(with, alone[i])
			}
		}
		return with
	}
	in("02", func(d *invoice.Document) { noIDs(d); d.Allowances[0].Category, d.Allowances[1].Category = "", "" }, append(other(1, 2), "BR-32", "BR-37", "08")...)
	in("03", func(d *invoice.Document) { noIDs(d); recategorize(d, 0) }, append(other(0, 2), "08", "BR-CO-04", "BR-37")...)
	in("04", func(d *invoice.Document) { noIDs(d); recategorize(d, 1) }, append(other(0, 1), "08", "BR-CO-04", "BR-32")...)
	rateWith := []string{}
	if several {
		rateWith = append(rateWith, "08")
	}
	in("05", func(d *invoice.Document) { d.Lines[0].Rate = wrongRate }, rateWith...)
	all[prefix+"06"] = []breach{{of: only(category), change: func(d *invoice.Document) { d.Allowances[0].Rate = wrongRate }}}
	all[prefix+"07"] = []breach{{of: only(category), change: func(d *invoice.Document) { d.Allowances[1].Rate = wrongRate }, with: fiveOf(several, prefix)}}
	in("08", func(d *invoice.Document) { more(&d.Taxes[0].Base, 2, 0) }, vatOf(several)...)
	if several {
		in("09", func(d *invoice.Document) { raiseTax(d, 1) }, "BR-CO-17", "SD-03 warning")
		in("10", func(d *invoice.Document) { d.Taxes[0].Reason = "why not" })
		return
	}
	in("09", func(d *invoice.Document) { more(&d.Taxes[0].Amount, 1, 2); totals(d, 1, 2) })
	if category == "Z" {
		in("10", func(d *invoice.Document) { d.Taxes[0].Reason = "why not" })
		return
	}
	in("10", func(d *invoice.Document) { d.Taxes[0].Reason, d.Taxes[0].ReasonCode = "", "" })
}

// fiveOf returns the other rule that a charge of 5 at another rate breaks, if breakdowns are per
// rate.
func fiveOf(several bool, prefix string) []string {
	if several {
		return []string{prefix + "08"}
	}
	return nil
}

func vatOf(several bool) []string {
	if several {
		return []string{"SD-03 warning"}
	}
	return nil
}

// italianOnly returns the other rules that are broken if a breakdown becomes one of split payment.
func italianOnly(category string) []string {
	switch category {
	case "S":
		return []string{"BR-B-01", "BR-B-02"}
	default:
		return []string{"BR-B-01"}
	}
}

// recategorize removes the category everywhere except in one allowance or charge.
func recategorize(d *invoice.Document, keep int) {
	for i := range d.Lines {
		d.Lines[i].Category = ""
	}
	d.Allowances[1-keep].Category = ""
}

func raiseTax(d *invoice.Document, by int64) {
	more(&d.Taxes[0].Amount, by, 0)
	totals(d, by, 0)
}

// TestVATThatIsOffByOne checks that a VAT that is off by exactly 1 is valid in CII and invalid in
// UBL, as in the artefacts.
func TestVATThatIsOffByOne(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		syntax   invoice.Syntax
		category string
		by       int64 // in hundredths
		want     string
	}{
		{invoice.UBLSyntax, "L", 99, ""},
		{invoice.UBLSyntax, "L", 100, "BR-CO-17 BR-AF-09"},
		{invoice.CIISyntax, "L", 100, ""},
		{invoice.CIISyntax, "L", 101, "BR-CO-17"},
		{invoice.CIISyntax, "M", 100, ""},
		{invoice.CIISyntax, "S", 100, "BR-S-09"},
		{invoice.CIISyntax, "S", 101, "BR-CO-17 BR-S-09"},
	} {
		d := only(c.category)()
		d.Written.Syntax = c.syntax
		d.Taxes[0].Amount = d.Taxes[0].Base.Percent(d.Taxes[0].Rate).Round(2).Add(invoice.NewDecimal(c.by, 2))
		d.Totals.Tax = d.Taxes[0].Amount
		d.Totals.Gross = d.Totals.Net.Add(d.Totals.Tax)
		d.Totals.Payable = d.Totals.Gross.Sub(d.Totals.Prepaid).Add(d.Totals.Rounding)
		var got []string
		for _, f := range rule.Validate(d) {
			if f.Severity == rule.Fatal {
				got = append(got, f.Rule)
			}
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("syntax %d, %s, off by %d hundredths: %q, want %q", c.syntax, c.category, c.by, got, c.want)
		}
	}
}

// totals adds an amount to the total of VAT and to the totals that include it.
func totals(d *invoice.Document, coef int64, scale int) {
	more(&d.Totals.Tax, coef, scale)
	more(&d.Totals.Gross, coef, scale)
	more(&d.Totals.Payable, coef, scale)
}
