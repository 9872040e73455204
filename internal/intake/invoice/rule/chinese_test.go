package rule_test

import (
	"example.org/smartdrive/internal/intake/invoice"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
)

// chineseBreaches returns the breaches of the rules on Chinese invoices.
func chineseBreaches() map[string][]breach {
	in := func(change func(*invoice.Document), with ...string) []breach {
		return []breach{{of: func() *invoice.Document { return invoicetest.Chinese(3) }, change: change, with: with}}
	}
	return map[string][]breach{
		"CN-01":         in(func(d *invoice.Document) { d.Number = "" }),
		"CN-02 warning": in(func(d *invoice.Document) { d.Number = "12345678" }),
		"CN-03":         in(func(d *invoice.Document) { d.Date = 0 }),
		"CN-04":         in(func(d *invoice.Document) { d.Seller.Name = "" }),
		"CN-05":         in(func(d *invoice.Document) { d.Seller.TaxID = "" }),
		"CN-06":         in(func(d *invoice.Document) { d.Seller.TaxID = "0000-1" }),
		"CN-07":         in(func(d *invoice.Document) { d.Buyer.Name = "" }),
		"CN-08 warning": in(func(d *invoice.Document) { d.Buyer.TaxID = "1" }),
		"CN-09":         in(func(d *invoice.Document) { d.Lines = nil }, "CN-18", "CN-19"),
		"CN-10":         in(func(d *invoice.Document) { d.Lines[0].Name = "" }),
		"CN-11": in(func(d *invoice.Document) {
			d.Lines = append(d.Lines, invoice.Line{Name: "nothing", Category: "Z"})
		}),
		"CN-12": in(func(d *invoice.Document) { d.Lines[0].Category = "十三" }),
		"CN-13": in(func(d *invoice.Document) {
			d.Lines = append(d.Lines, invoice.Line{Name: "nothing", Category: "S", Rate: invoice.NewDecimal(6, 0), Net: invoice.NewDecimal(0, 0)})
		}),
		"CN-14": in(func(d *invoice.Document) {
			more(&d.Lines[0].Tax, 7, 2)
			more(&d.Totals.Tax, 7, 2)
			more(&d.Totals.Gross, 7, 2)
		}),
		"CN-15 warning": in(func(d *invoice.Document) {
			d.Lines = append(d.Lines, invoice.Line{
				Name: "nothing", Category: "S", Rate: invoice.NewDecimal(17, 0), Net: invoice.NewDecimal(0, 0), Tax: invoice.NewDecimal(0, 0),
			})
		}),
		"CN-16": in(func(d *invoice.Document) { d.Totals.Net = invoice.Decimal{} }, "CN-18", "CN-20"),
		"CN-17": in(func(d *invoice.Document) { d.Totals.Gross = invoice.Decimal{} }, "CN-20"),
		"CN-18": in(func(d *invoice.Document) { more(&d.Totals.Net, 1, 2); more(&d.Totals.Gross, 1, 2) }),
		"CN-19": in(func(d *invoice.Document) { more(&d.Totals.Tax, 1, 2); more(&d.Totals.Gross, 1, 2) }),
		"CN-20": in(func(d *invoice.Document) { more(&d.Totals.Gross, 1, 2) }),
		"CN-21": in(func(d *invoice.Document) {
			more(&d.Lines[0].Net, 1, 3)
			more(&d.Totals.Net, 1, 3)
			more(&d.Totals.Gross, 1, 3)
		}),
	}
}
