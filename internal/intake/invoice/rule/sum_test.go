package rule_test

import (
	"example.org/smartdrive/internal/intake/invoice"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
)

// more adds coef / 10^scale to a number.
func more(of *invoice.Decimal, coef int64, scale int) { *of = of.Add(invoice.NewDecimal(coef, scale)) }

// extended returns a valid invoice of the XRechnung extension.
func extended() *invoice.Document {
	d := invoicetest.Full(1)
	l := &d.Lines[1]
	sub := *l
	sub.ID, sub.Net, l.Lines = "2.1", l.Net.Sub(invoice.NewDecimal(1, 0)), nil
	one := sub
	one.ID, one.Net, one.Lines = "2.2", invoice.NewDecimal(1, 0), nil
	l.Lines = []invoice.Line{sub, one}
	d.Profile += "#conformant#urn:xeinkauf.de:kosit:extension:xrechnung_3.0"
	d.ThirdParty = []invoice.Collected{{Type: "Parking", Amount: invoice.NewDecimal(1996, 2), Text: "Parking, for the city"}}
	d.Totals.Payable = d.Totals.Payable.Add(d.ThirdParty[0].Amount)
	return d
}

// sumBreaches returns the breaches of the rules on sums.
func sumBreaches() map[string][]breach {
	cent := func(of func(*invoice.Document) *invoice.Decimal, with ...string) []breach {
		return one(func(d *invoice.Document) { more(of(d), 1, 2) }, with...)
	}
	tiny := func(of func(*invoice.Document) *invoice.Decimal, with ...string) []breach {
		return one(func(d *invoice.Document) { more(of(d), 1, 3) }, with...)
	}
	return map[string][]breach{
		"BR-CO-03": one(func(d *invoice.Document) { d.TaxPoint = d.Date }),
		"BR-CO-04": first(func(l *invoice.Line) { l.Category = "" }, "BR-S-08"),
		"BR-CO-09": {
			{change: func(d *invoice.Document) { d.Seller.VATID = "000123456" }},
			{change: func(d *invoice.Document) { d.Buyer.VATID = "D" }},
			{change: func(d *invoice.Document) { d.TaxRepresentative.VATID = "QX000123456" }},
		},
		"BR-CO-10": cent(func(d *invoice.Document) *invoice.Decimal { return &d.Totals.Lines }, "BR-CO-13"),
		"BR-CO-11": cent(func(d *invoice.Document) *invoice.Decimal { return &d.Totals.Allowances }, "BR-CO-13"),
		"BR-CO-12": cent(func(d *invoice.Document) *invoice.Decimal { return &d.Totals.Charges }, "BR-CO-13"),
		"BR-CO-13": cent(func(d *invoice.Document) *invoice.Decimal { return &d.Totals.Net }, "BR-CO-15"),
		"BR-CO-14": cent(func(d *invoice.Document) *invoice.Decimal { return &d.Totals.Tax }, "BR-CO-15"),
		"BR-CO-15": cent(func(d *invoice.Document) *invoice.Decimal { return &d.Totals.Gross }, "BR-CO-16"),
		"BR-CO-16": {
			{change: func(d *invoice.Document) { more(&d.Totals.Payable, 1, 2) }},
			{change: func(d *invoice.Document) { more(&d.Totals.Prepaid, 1, 2) }},
			{change: func(d *invoice.Document) { more(&d.Totals.Rounding, 1, 2) }},
		},
		"BR-DEX-09": {
			{of: extended, change: func(d *invoice.Document) { more(&d.Totals.Payable, 1, 2) }},
			{of: extended, change: func(d *invoice.Document) { d.ThirdParty = nil }},
		},
		"BR-DEX-02 warning": {{of: extended, change: func(d *invoice.Document) { more(&d.Lines[1].Lines[0].Net, 1, 2) }}},
		"UBL-DT-01":         {{of: extended, change: func(d *invoice.Document) { more(&d.Lines[1].Lines[0].Net, 1, 3) }}},
		"BR-DEX-03":         {{of: extended, change: func(d *invoice.Document) { d.Lines[1].Lines[1].Category = "" }}},
		"BR-DEX-10":         {{of: extended, change: func(d *invoice.Document) { d.ThirdParty[0].Type = "" }}},
		"BR-DEX-11":         {{of: extended, change: func(d *invoice.Document) { d.ThirdParty[0].Amount = noNumber() }, with: []string{"BR-DEX-09"}}},
		"BR-DEX-12":         {{of: extended, change: func(d *invoice.Document) { d.ThirdParty[0].Text = "" }}},
		"BR-DEX-13": {{of: extended, change: func(d *invoice.Document) {
			more(&d.ThirdParty[0].Amount, 1, 3)
		}, with: []string{"BR-DEX-09"}}},
		"BR-CO-17": one(func(d *invoice.Document) {
			for _, at := range []*invoice.Decimal{&d.Taxes[0].Amount, &d.Totals.Tax, &d.Totals.Gross, &d.Totals.Payable} {
				more(at, 1, 0)
			}
		}, "BR-S-09", "SD-03 warning"),
		"BR-CO-18": one(func(d *invoice.Document) { d.Taxes = nil }, "BR-CO-14", "BR-S-01"),
		"BR-CO-19": one(func(d *invoice.Document) { d.Period, d.TaxPointCode = &invoice.Period{}, "" }),
		"BR-CO-20": first(func(l *invoice.Line) { l.Period = &invoice.Period{} }),
		"BR-CO-21": one(func(d *invoice.Document) { d.Allowances[0].Reason, d.Allowances[0].Code = "", "" }, "BR-33"),
		"BR-CO-22": one(func(d *invoice.Document) { d.Allowances[1].Reason, d.Allowances[1].Code = "", "" }, "BR-38"),
		"BR-CO-23": first(func(l *invoice.Line) { l.Allowances[0].Reason, l.Allowances[0].Code = "", "" }, "BR-42"),
		"BR-CO-24": first(func(l *invoice.Line) { l.Allowances[1].Reason, l.Allowances[1].Code = "", "" }, "BR-44"),
		"BR-CO-26": one(func(d *invoice.Document) {
			d.Seller.IDs, d.Seller.Legal, d.Seller.VATID, d.Creditor = nil, invoice.Identifier{}, "", ""
		}),

		"BR-DEC-01": tiny(func(d *invoice.Document) *invoice.Decimal { return &d.Allowances[0].Amount }),
		"BR-DEC-02": tiny(func(d *invoice.Document) *invoice.Decimal { return &d.Allowances[0].Base }),
		"BR-DEC-05": tiny(func(d *invoice.Document) *invoice.Decimal { return &d.Allowances[1].Amount }),
		"BR-DEC-06": tiny(func(d *invoice.Document) *invoice.Decimal { return &d.Allowances[1].Base }),
		"BR-DEC-09": tiny(func(d *invoice.Document) *invoice.Decimal { return &d.Totals.Lines }, "BR-CO-13"),
		"BR-DEC-10": tiny(func(d *invoice.Document) *invoice.Decimal { return &d.Totals.Allowances }, "BR-CO-13"),
		"BR-DEC-11": tiny(func(d *invoice.Document) *invoice.Decimal { return &d.Totals.Charges }, "BR-CO-13"),
		"BR-DEC-12": tiny(func(d *invoice.Document) *invoice.Decimal { return &d.Totals.Net }, "BR-CO-13", "BR-CO-15"),
		"BR-DEC-13": tiny(func(d *invoice.Document) *invoice.Decimal { return &d.Totals.Tax }, "BR-CO-15"),
		"BR-DEC-14": tiny(func(d *invoice.Document) *invoice.Decimal { return &d.Totals.Gross }, "BR-CO-15", "BR-CO-16"),
		"BR-DEC-15": tiny(func(d *invoice.Document) *invoice.Decimal { return &d.Totals.TaxInCurrency }),
		"BR-DEC-16": tiny(func(d *invoice.Document) *invoice.Decimal { return &d.Totals.Prepaid }, "BR-CO-16"),
		"BR-DEC-17": tiny(func(d *invoice.Document) *invoice.Decimal { return &d.Totals.Rounding }, "BR-CO-16"),
		"BR-DEC-18": tiny(func(d *invoice.Document) *invoice.Decimal { return &d.Totals.Payable }, "BR-CO-16"),
		"BR-DEC-19": tiny(func(d *invoice.Document) *invoice.Decimal { return &d.Taxes[0].Base }),
		"BR-DEC-20": tiny(func(d *invoice.Document) *invoice.Decimal { return &d.Taxes[0].Amount }),
		"BR-DEC-23": tiny(func(d *invoice.Document) *invoice.Decimal { return &d.Lines[0].Net }),
		"BR-DEC-24": tiny(func(d *invoice.Document) *invoice.Decimal { return &d.Lines[0].Allowances[0].Amount }),
		"BR-DEC-25": tiny(func(d *invoice.Document) *invoice.Decimal { return &d.Lines[0].Allowances[0].Base }),
		"BR-DEC-27": tiny(func(d *invoice.Document) *invoice.Decimal { return &d.Lines[0].Allowances[1].Amount }),
		"BR-DEC-28": tiny(func(d *invoice.Document) *invoice.Decimal { return &d.Lines[0].Allowances[1].Base }),

		"SD-01":         one(func(d *invoice.Document) { d.Repeated = []string{"cbc:ID"} }),
		"SD-02":         one(func(d *invoice.Document) { d.OtherCurrencies = []string{"USD"} }),
		"SD-03 warning": cent2(),
		"SD-04 warning": first(func(l *invoice.Line) { more(&l.Price, 10, 0) }),
	}
}

// cent2 returns a breach that makes the VAT wrong by two cents in all amounts.
func cent2() []breach {
	return one(func(d *invoice.Document) {
		for _, at := range []*invoice.Decimal{&d.Taxes[0].Amount, &d.Totals.Tax, &d.Totals.Gross, &d.Totals.Payable} {
			more(at, 2, 2)
		}
	})
}
