package rule_test

import (
	"slices"
	"testing"

	"example.org/smartdrive/internal/intake/invoice"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
	"example.org/smartdrive/internal/intake/invoice/rule"
)

// germanBreaches maps each rule of XRechnung to a change of a valid invoice that breaks it.
var germanBreaches = map[string]func(*invoice.Document){
	"BR-DE-1":  func(d *invoice.Document) { d.Payments = nil },
	"BR-DE-2":  func(d *invoice.Document) { d.Seller.Contact = nil },
	"BR-DE-3":  func(d *invoice.Document) { d.Seller.Address.City = "" },
	"BR-DE-4":  func(d *invoice.Document) { d.Seller.Address.Zone = "" },
	"BR-DE-5":  func(d *invoice.Document) { d.Seller.Contact.Name = "" },
	"BR-DE-6":  func(d *invoice.Document) { d.Seller.Contact.Phone = "" },
	"BR-DE-7":  func(d *invoice.Document) { d.Seller.Contact.Email = "" },
	"BR-DE-8":  func(d *invoice.Document) { d.Buyer.Address.City = "" },
	"BR-DE-9":  func(d *invoice.Document) { d.Buyer.Address.Zone = "" },
	"BR-DE-10": func(d *invoice.Document) { d.Delivery.Address.City = "" },
	"BR-DE-11": func(d *invoice.Document) { d.Delivery.Address.Zone = "" },
	"BR-DE-14": func(d *invoice.Document) { d.Taxes[0].Rate = noNumber() },
	"BR-DE-15": func(d *invoice.Document) { d.BuyerReference = "" },
	"BR-DE-16": nobody,
	"BR-DE-17": func(d *invoice.Document) { d.Type = "386" },
	"BR-DE-18": func(d *invoice.Document) { d.PaymentTerms = "14 days\n#SKONTO#TAGE=7#PROZENT=2,00#" },
	"BR-DE-21": func(d *invoice.Document) { d.Profile = invoice.ProfileCore },
	"BR-DE-22": func(d *invoice.Document) {
		d.Attachments = []invoice.Attachment{{ID: "1", Name: "a.pdf"}, {ID: "2", Name: "a.pdf"}}
	},
	"BR-DE-23-a": func(d *invoice.Document) { d.Payments[0].Transfer = false },
	"BR-DE-23-b": func(d *invoice.Document) { d.Payments[0].Card = "1234" },
	"BR-DE-24-a": func(d *invoice.Document) { d.Payments = []invoice.Payment{{Code: "48"}} },
	"BR-DE-24-b": func(d *invoice.Document) { d.Payments = []invoice.Payment{{Code: "48", Card: "1234", Transfer: true}} },
	"BR-DE-25-a": func(d *invoice.Document) { d.Payments = []invoice.Payment{{Code: "59"}} },
	"BR-DE-25-b": func(d *invoice.Document) {
		d.Payments = []invoice.Payment{{Code: "59", DebitAccount: "1", Card: "1234"}}
	},
	"BR-DE-26": func(d *invoice.Document) { d.Type = "384" },
	"BR-DE-27": func(d *invoice.Document) { d.Seller.Contact.Phone = "12" },
	"BR-DE-28": func(d *invoice.Document) { d.Seller.Contact.Email = "a@b@c" },
	"BR-DE-30": func(d *invoice.Document) { d.Mandate = "M-7" },
	"BR-DE-31": func(d *invoice.Document) { d.Mandate, d.Creditor = "M-7", "DE00ZZZ00000000000" },
}

func TestTheRulesOfXRechnung(t *testing.T) {
	t.Parallel()
	for _, r := range rule.ProfileRules(rule.XRechnung) {
		change, ok := germanBreaches[r.ID]
		if !ok {
			t.Errorf("%s: no breach is listed", r.ID)
			continue
		}
		d := invoicetest.Of(3, "S", 19)
		if findings := rule.ValidateAs(d, rule.XRechnung); len(findings) > 0 {
			t.Fatalf("the document that is to be broken is: %v", findings)
		}
		change(d)
		broken := func(p rule.Profile) bool {
			return slices.ContainsFunc(rule.ValidateAs(d, p), func(f rule.Finding) bool { return f.Rule == r.ID && f.Severity == r.Severity })
		}
		if !broken(rule.XRechnung) || broken(rule.Core) {
			t.Errorf("%s: broken as XRechnung %t, as EN 16931 %t", r.ID, broken(rule.XRechnung), broken(rule.Core))
		}
	}
	if n := len(rule.ProfileRules(rule.XRechnung)); n != len(germanBreaches) {
		t.Errorf("%d rules and %d breaches", n, len(germanBreaches))
	}
}
