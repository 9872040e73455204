package rule_test

import (
	"testing"

	"example.org/smartdrive/internal/intake/invoice"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
	"example.org/smartdrive/internal/intake/invoice/rule"
)

// TestWhatIsAllowed checks documents that look like a breach, but are valid by the standard's own
// validators, too.
func TestWhatIsAllowed(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*invoice.Document){
		"neither a due date nor terms (BR-CO-25 left with 1.3.16)": func(d *invoice.Document) { d.Due, d.PaymentTerms = 0, "" },
		"nothing to pay, and no due date": func(d *invoice.Document) {
			d.Totals.Prepaid = d.Totals.Gross.Add(d.Totals.Rounding)
			d.Totals.Payable, d.Due, d.PaymentTerms = invoice.NewDecimal(0, 0), 0, ""
		},
		"VAT is accounted in the invoice's own currency": func(d *invoice.Document) { d.TaxCurrency, d.Totals.TaxInCurrency = d.Currency, noNumber() },
		"a VAT id from Greece":                           func(d *invoice.Document) { d.Seller.VATID = "EL000000001" },
		"a price of 0": func(d *invoice.Document) {
			d.Lines[0].GrossPrice, d.Lines[0].Discount = invoice.NewDecimal(0, 0), noNumber()
		},
		"a transfer by other means, without an account": func(d *invoice.Document) { d.Payments[0].Code, d.Payments[0].Account = "42", "" },
		"a period that only begins":                     func(d *invoice.Document) { d.Period.End = 0 },
		"a code of the VAT date, and no period":         func(d *invoice.Document) { d.Period = &invoice.Period{} },
		"many decimals of a price":                      func(d *invoice.Document) { more(&d.Lines[1].Price, 1, 12) },
		"no references":                                 func(d *invoice.Document) { d.Preceding, d.Attachments, d.Object = nil, nil, invoice.Identifier{} },
		"nobody but seller and buyer":                   func(d *invoice.Document) { d.Payee, d.TaxRepresentative, d.Delivery = nil, nil, nil },
		"a seller with a tax number only": func(d *invoice.Document) {
			d.Seller.VATID, d.TaxRepresentative = "", nil
		},
		"a credit by negative amounts": func(d *invoice.Document) {
			for i := range d.Lines {
				l := &d.Lines[i]
				l.Net, l.Quantity, l.Allowances = l.Net.Neg(), l.Quantity.Neg(), nil
			}
			d.Totals.Prepaid = noNumber()
			invoicetest.Total(d)
		},
	} {
		d := invoicetest.Full(1)
		change(d)
		if findings := rule.Validate(d); len(findings) > 0 {
			t.Errorf("%s: %v", name, findings)
		}
	}
}
