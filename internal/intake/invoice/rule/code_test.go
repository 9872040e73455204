package rule_test

import "example.org/smartdrive/internal/intake/invoice"

// codeBreaches returns the breaches of the rules on code lists.
func codeBreaches() map[string][]breach {
	return map[string][]breach{
		"BR-CL-01": {
			{change: func(d *invoice.Document) { d.Type = "999" }},
			{change: func(d *invoice.Document) { d.Type, d.Written.Syntax = "381", invoice.UBLSyntax }},
			{change: func(d *invoice.Document) { d.Written.Syntax, d.Written.CreditNote = invoice.UBLSyntax, true }},
		},
		"BR-CL-04":         one(func(d *invoice.Document) { d.Currency = "QQQ" }, "BR-CL-04 warning"),
		"BR-CL-04 warning": one(func(d *invoice.Document) { d.Currency = "HRK" }),
		"BR-CL-05":         one(func(d *invoice.Document) { d.TaxCurrency = "eur" }, "BR-CL-05 warning"),
		"BR-CL-05 warning": one(func(d *invoice.Document) { d.TaxCurrency = "HRK" }),
		"BR-CL-06":         one(func(d *invoice.Document) { d.TaxPointCode = "29" }),
		"BR-CL-07": {
			{change: func(d *invoice.Document) { d.Object.Scheme = "QQQ" }},
			{change: func(d *invoice.Document) { d.Lines[0].Object.Scheme = "QQQ" }},
		},
		"BR-CL-08": one(func(d *invoice.Document) { d.Notes[0].Subject = "QQQ" }),
		"BR-CL-03": one(func(d *invoice.Document) { d.OtherCurrencies = []string{"CHF", "EXR"} }, "SD-02"),
		"BR-CL-10": {
			{change: func(d *invoice.Document) { d.Payee.IDs[0].Scheme = "GLN" }, with: []string{"BR-CL-10 warning"}},
			{change: func(d *invoice.Document) { d.Payee.IDs[0].Scheme = "9901" }, with: []string{"BR-CL-10 warning"}},
		},
		"BR-CL-10 warning": one(func(d *invoice.Document) { d.Payee.IDs[0].Scheme = "0299" }),
		"BR-CL-11":         one(func(d *invoice.Document) { d.Seller.Legal.Scheme = "HRB" }, "BR-CL-11 warning"),
		"BR-CL-11 warning": one(func(d *invoice.Document) { d.Seller.Legal.Scheme = "0299" }),
		"BR-CL-13":         first(func(l *invoice.Line) { l.Classes[0].Scheme = "QQQ" }),
		"BR-CL-14":         one(func(d *invoice.Document) { d.Delivery.Address.Country = "QX" }),
		"BR-CL-15":         first(func(l *invoice.Line) { l.Origin = "QX" }),
		"BR-CL-16":         one(func(d *invoice.Document) { d.Payments[1].Code = "99" }),
		"BR-CL-17":         one(func(d *invoice.Document) { d.Taxes = append(d.Taxes, zeroTax("X")) }),
		"BR-CL-18": {
			{change: func(d *invoice.Document) { d.Lines = append(d.Lines, zeroLine(d.Lines[1], "X")) }},
			{change: func(d *invoice.Document) { d.Allowances = append(d.Allowances, zeroAllowance("X")) }},
		},
		"BR-CL-19": {
			{change: func(d *invoice.Document) { d.Allowances[0].Code = "FC" }},
			{change: func(d *invoice.Document) { d.Lines[0].Allowances[0].Code = "1" }},
		},
		"BR-CL-20":         one(func(d *invoice.Document) { d.Allowances[1].Code = "QQQ" }),
		"BR-CL-21":         first(func(l *invoice.Line) { l.StandardItem.Scheme = "GTIN" }, "BR-CL-21 warning"),
		"BR-CL-21 warning": first(func(l *invoice.Line) { l.StandardItem.Scheme = "0299" }),
		"BR-CL-22":         {{of: only("E"), change: func(d *invoice.Document) { d.Taxes[0].ReasonCode = "EU-132" }}},
		"BR-CL-22 warning": {{of: only("E"), change: func(d *invoice.Document) { d.Taxes[0].ReasonCode = "VATEX-XX-1" }}},
		"BR-CL-23": {
			{change: func(d *invoice.Document) { d.Lines[0].Unit = "PCS" }},
			{change: func(d *invoice.Document) { d.Lines[0].BaseUnit = "MO" }},
		},
		"BR-CL-24":         one(func(d *invoice.Document) { d.Attachments[0].Type = "application/x-msdownload" }),
		"BR-CL-25":         one(func(d *invoice.Document) { d.Buyer.Endpoint.Scheme = "mailto" }, "BR-CL-25 warning"),
		"BR-CL-25 warning": one(func(d *invoice.Document) { d.Buyer.Endpoint.Scheme = "9999" }),
		"BR-CL-26":         one(func(d *invoice.Document) { d.Delivery.Location.Scheme = "GLN" }, "BR-CL-26 warning"),
		"BR-CL-26 warning": one(func(d *invoice.Document) { d.Delivery.Location.Scheme = "0299" }),
	}
}

// zeroTax, zeroLine and zeroAllowance return an element of a category that does not change the sums
// of a document.
func zeroTax(category string) invoice.Tax {
	zero := invoice.NewDecimal(0, 0)
	return invoice.Tax{Category: category, Rate: zero, Base: zero, Amount: zero}
}

func zeroLine(like invoice.Line, category string) invoice.Line {
	zero := invoice.NewDecimal(0, 0)
	like.ID, like.Net, like.Price, like.Category, like.Rate = "zero", zero, zero, category, zero
	return like
}

func zeroAllowance(category string) invoice.Allowance {
	zero := invoice.NewDecimal(0, 0)
	return invoice.Allowance{Amount: zero, Category: category, Rate: zero, Reason: "nothing"}
}
