package invoicetest

import "example.org/smartdrive/internal/intake/invoice"

// Full returns a valid invoice that uses every term of the model that all syntaxes of EN 16931 can
// express. It has one preceding invoice, because CII allows only one.
func Full(seed uint64) *invoice.Document {
	d := Of(seed, "S", 19)
	d.TaxCurrency, d.TaxPointCode = "USD", "35"
	d.Project, d.Contract, d.SalesOrder = "Project 7", "Contract 7", "SO-7"
	d.Receipt, d.Despatch, d.Tender, d.BuyerAccounting = "RA-7", "DA-7", "T-7", "4711"
	d.Object = invoice.Identifier{ID: "Meter 7", Scheme: "ABZ"}
	d.Preceding = []invoice.Reference{{Number: "R-6", Date: invoice.NewDate(2026, 1, 31)}}
	d.Seller.LegalInfo, d.Seller.TaxID = "Example court", "000/000/00000"
	d.Seller.Legal.Scheme = "0204"
	d.Seller.Address.Line2, d.Seller.Address.Line3, d.Seller.Address.Region = "2nd yard", "3rd floor", "Berlin"
	d.Payee = &invoice.Party{
		Name: "Payee Ltd", IDs: []invoice.Identifier{{ID: "P-7"}}, Legal: invoice.Identifier{ID: "HRB 07", Scheme: "0204"},
	}
	d.TaxRepresentative = &invoice.Party{Name: "Tax Ltd", VATID: "DE000999999", Address: &invoice.Address{City: "Bonn", Country: "DE"}}
	d.Delivery.Location = invoice.Identifier{ID: "0000000000000", Scheme: "0088"}
	d.Period = &invoice.Period{Start: invoice.NewDate(2026, 1, 1), End: invoice.NewDate(2026, 1, 31)}
	d.Payments[0].Code = "57" // all payments must have the same code (UBL-SR-47)
	d.Payments = append(d.Payments,
		invoice.Payment{Code: "57", Card: "123456", CardHolder: "Erika Example"},
		invoice.Payment{Code: "57", DebitAccount: "DE00000000000000000001"})
	d.Mandate, d.Creditor = "M-7", "DE00ZZZ00000000000"
	d.Attachments = []invoice.Attachment{{ID: "Timesheet", Text: "Hours", URL: "https://example.com/hours.pdf"}}
	d.Totals.Prepaid, d.Totals.Rounding = amount(1_000), amount(-1)
	full(&d.Lines[0])
	Total(d)
	return d
}

// full sets all terms of a line.
func full(l *invoice.Line) {
	l.Note, l.OrderLine, l.Accounting, l.BuyerItem, l.Origin = "A note", "3", "4712", "B-7", "CN"
	l.Object = invoice.Identifier{ID: "Meter 8", Scheme: "ABZ"}
	l.Period = &invoice.Period{Start: invoice.NewDate(2026, 1, 1), End: invoice.NewDate(2026, 1, 15)}
	l.BaseQuantity, l.BaseUnit = invoice.NewDecimal(100, 0), l.Unit
	l.Price = l.Price.Mul(l.BaseQuantity)
	l.Discount, l.GrossPrice = amount(100), l.Price.Add(amount(100))
	l.StandardItem = invoice.Identifier{ID: "00000000000000", Scheme: "0160"}
	l.Classes = []invoice.Class{{Code: "0721-880X", Scheme: "IB", Version: "1"}}
	l.Attributes = []invoice.Attribute{{Name: "Colour", Value: "blue"}}
}
