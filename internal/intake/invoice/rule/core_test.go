package rule_test

import (
	"maps"

	"example.org/smartdrive/internal/intake/invoice"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
)

// allBreaches returns all breaches, by key.
func allBreaches() map[string][]breach {
	all := map[string][]breach{}
	maps.Copy(all, coreBreaches())
	maps.Copy(all, sumBreaches())
	maps.Copy(all, codeBreaches())
	maps.Copy(all, categoryBreaches())
	maps.Copy(all, chineseBreaches())
	return all
}

// one returns a breach by a change of a full invoice.
func one(change func(*invoice.Document), with ...string) []breach {
	return []breach{{change: change, with: with}}
}

// first returns a breach by a change of the first line of a full invoice.
func first(change func(*invoice.Line), with ...string) []breach {
	return one(func(d *invoice.Document) { change(&d.Lines[0]) }, with...)
}

func noNumber() invoice.Decimal { return invoice.Decimal{} }

// coreBreaches returns the breaches of the rules on mandatory terms.
func coreBreaches() map[string][]breach {
	return map[string][]breach{
		"BR-01": one(func(d *invoice.Document) { d.Profile = "" }),
		"BR-02": one(func(d *invoice.Document) { d.Number = "" }),
		"BR-03": one(func(d *invoice.Document) { d.Date = 0 }),
		"BR-04": one(func(d *invoice.Document) { d.Type = "" }),
		"BR-05": one(func(d *invoice.Document) { d.Currency = "" }),
		"BR-06": one(func(d *invoice.Document) { d.Seller.Name = "" }),
		"BR-07": one(func(d *invoice.Document) { d.Buyer.Name = "" }),
		"BR-08": one(func(d *invoice.Document) { d.Seller.Address = nil }, "BR-09"),
		"BR-09": one(func(d *invoice.Document) { d.Seller.Address.Country = "" }),
		"BR-10": one(func(d *invoice.Document) { d.Buyer.Address = nil }, "BR-11"),
		"BR-11": one(func(d *invoice.Document) { d.Buyer.Address.Country = "" }),
		"BR-12": one(func(d *invoice.Document) { d.Totals.Lines = noNumber() }, "BR-CO-10", "BR-CO-13"),
		"BR-13": one(func(d *invoice.Document) { d.Totals.Net = noNumber() }, "BR-CO-13", "BR-CO-15"),
		"BR-14": one(func(d *invoice.Document) { d.Totals.Gross = noNumber() }, "BR-CO-15", "BR-CO-16"),
		"BR-15": one(func(d *invoice.Document) { d.Totals.Payable = noNumber() }, "BR-CO-16"),
		"BR-16": one(func(d *invoice.Document) { d.Lines = nil }, "BR-CO-10", "BR-S-08"),
		"BR-17": one(func(d *invoice.Document) { d.Payee.Name = "" }),
		"BR-18": one(func(d *invoice.Document) { d.TaxRepresentative.Name = "" }),
		"BR-19": one(func(d *invoice.Document) { d.TaxRepresentative.Address = nil }, "BR-20"),
		"BR-20": one(func(d *invoice.Document) { d.TaxRepresentative.Address.Country = "" }),
		"BR-21": first(func(l *invoice.Line) { l.ID = "" }),
		"BR-22": first(func(l *invoice.Line) { l.Quantity = noNumber() }),
		"BR-23": first(func(l *invoice.Line) { l.Unit = "" }),
		"BR-24": one(func(d *invoice.Document) {
			d.Lines[1].Net, d.Lines[1].Price = noNumber(), invoice.NewDecimal(0, 0)
			invoicetest.Total(d)
		}),
		"BR-25":         first(func(l *invoice.Line) { l.Name = "" }),
		"BR-26":         first(func(l *invoice.Line) { l.Price = noNumber() }),
		"BR-27":         first(func(l *invoice.Line) { l.Price, l.Quantity = l.Price.Neg(), l.Quantity.Neg() }),
		"BR-28":         first(func(l *invoice.Line) { l.GrossPrice = invoice.NewDecimal(-1, 0) }),
		"BR-29":         one(func(d *invoice.Document) { d.Period.Start = d.Period.End + 1 }),
		"BR-30":         first(func(l *invoice.Line) { l.Period.Start = l.Period.End + 1 }),
		"BR-31":         one(func(d *invoice.Document) { d.Allowances[0].Amount = noNumber(); invoicetest.Total(d) }),
		"BR-32":         one(func(d *invoice.Document) { d.Allowances[0].Category = "" }),
		"BR-33":         one(func(d *invoice.Document) { d.Allowances[0].Reason, d.Allowances[0].Code = "", "" }, "BR-CO-21"),
		"BR-36":         one(func(d *invoice.Document) { d.Allowances[1].Amount = noNumber(); invoicetest.Total(d) }),
		"BR-37":         one(func(d *invoice.Document) { d.Allowances[1].Category = "" }, "BR-S-08"),
		"BR-38":         one(func(d *invoice.Document) { d.Allowances[1].Reason, d.Allowances[1].Code = "", "" }, "BR-CO-22"),
		"BR-41":         first(func(l *invoice.Line) { l.Allowances[0].Amount = noNumber() }, "SD-04 warning"),
		"BR-42":         first(func(l *invoice.Line) { l.Allowances[0].Reason, l.Allowances[0].Code = "", "" }, "BR-CO-23"),
		"BR-43":         first(func(l *invoice.Line) { l.Allowances[1].Amount = noNumber() }, "SD-04 warning"),
		"BR-44":         first(func(l *invoice.Line) { l.Allowances[1].Reason, l.Allowances[1].Code = "", "" }, "BR-CO-24"),
		"BR-45":         one(func(d *invoice.Document) { d.Taxes[0].Base = noNumber() }, "BR-CO-17", "BR-S-08", "BR-S-09", "SD-03 warning"),
		"BR-46":         one(func(d *invoice.Document) { d.Taxes[0].Amount = noNumber() }, "BR-CO-14", "BR-CO-17", "BR-S-09", "SD-03 warning"),
		"BR-47":         one(func(d *invoice.Document) { d.Taxes[0].Category = "" }, "BR-S-01"),
		"BR-48":         one(func(d *invoice.Document) { d.Taxes[0].Rate = noNumber() }, "BR-CO-17", "BR-S-08", "BR-S-09", "SD-03 warning"),
		"BR-49":         one(func(d *invoice.Document) { d.Payments[1].Code = "" }),
		"BR-50":         one(func(d *invoice.Document) { d.Payments[0].Code, d.Payments[0].Account = "58", "" }, "BR-61"),
		"BR-51 warning": one(func(d *invoice.Document) { d.Payments[1].Card = "1234567890123" }),
		"BR-52":         one(func(d *invoice.Document) { d.Attachments[0].ID = "" }),
		"BR-53":         one(func(d *invoice.Document) { d.Totals.TaxInCurrency = noNumber() }),
		"BR-54":         first(func(l *invoice.Line) { l.Attributes[0].Value = "" }),
		"BR-55":         one(func(d *invoice.Document) { d.Preceding[0].Number = "" }),
		"BR-56":         one(func(d *invoice.Document) { d.TaxRepresentative.VATID = "" }),
		"BR-57":         one(func(d *invoice.Document) { d.Delivery.Address.Country = "" }),
		"BR-61":         one(func(d *invoice.Document) { d.Payments[1].Code = "58" }),
		"BR-62":         one(func(d *invoice.Document) { d.Seller.Endpoint.Scheme = "" }),
		"BR-63":         one(func(d *invoice.Document) { d.Buyer.Endpoint.Scheme = "" }),
		"BR-64":         first(func(l *invoice.Line) { l.StandardItem.Scheme = "" }),
		"BR-66":         one(func(d *invoice.Document) { d.Payments = append(d.Payments, d.Payments[1]) }),
		"BR-67":         one(func(d *invoice.Document) { d.Payments = append(d.Payments, d.Payments[2]) }),
		"BR-65":         first(func(l *invoice.Line) { l.Classes[0].Scheme = "" }),
	}
}
