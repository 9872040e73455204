package rule_test

import (
	"slices"
	"testing"

	"example.org/smartdrive/internal/intake/invoice"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
	"example.org/smartdrive/internal/intake/invoice/rule"
)

// forPeppol returns an invoice that is valid by the rules of Peppol.
func forPeppol() *invoice.Document {
	d := invoicetest.Of(3, "S", 19)
	d.Profile, d.Process, d.PurchaseOrder = rule.ProfilePeppol, "urn:fdc:peppol.eu:2017:poacc:billing:01:1.0", "B-7"
	d.Seller.Endpoint, d.Buyer.Endpoint = invoice.Identifier{ID: "5790000436057", Scheme: "0088"}, invoice.Identifier{ID: "7300010000001", Scheme: "0088"}
	return d
}

// peppolBreaches maps each Peppol rule to a change of forPeppol that breaks it.
var peppolBreaches = map[string]func(*invoice.Document){
	"PEPPOL-EN16931-R001": func(d *invoice.Document) { d.Process = "" },
	"PEPPOL-EN16931-R002": func(d *invoice.Document) {
		d.Buyer.VATID, d.Notes = "FR12345678901", []invoice.Note{{Text: "a"}, {Text: "b"}}
	},
	"PEPPOL-EN16931-R003": func(d *invoice.Document) { d.BuyerReference, d.PurchaseOrder = "", "" },
	"PEPPOL-EN16931-R004": func(d *invoice.Document) { d.Profile = invoice.ProfileCore },
	"PEPPOL-EN16931-R005": func(d *invoice.Document) {
		d.TaxCurrency, d.Totals.TaxInCurrency = d.Currency, d.Totals.Tax
	},
	"PEPPOL-EN16931-R007": func(d *invoice.Document) { d.Process = "P1" },
	"PEPPOL-EN16931-R010": func(d *invoice.Document) { d.Buyer.Endpoint = invoice.Identifier{} },
	"PEPPOL-EN16931-R020": func(d *invoice.Document) { d.Seller.Endpoint = invoice.Identifier{} },
	"PEPPOL-EN16931-R055": func(d *invoice.Document) { d.TaxCurrency, d.Totals.TaxInCurrency = "SEK", d.Totals.Tax.Neg() },
	"PEPPOL-EN16931-R061": func(d *invoice.Document) {
		d.Payments, d.Mandate = []invoice.Payment{{Code: "59", DebitAccount: "DE1"}}, ""
	},
	"PEPPOL-EN16931-P0100": func(d *invoice.Document) { d.Type = "389" },
	"PEPPOL-EN16931-P0101": func(d *invoice.Document) { d.Type = "261" },
	"PEPPOL-EN16931-R040": func(d *invoice.Document) {
		d.Lines[0].Allowances = append(d.Lines[0].Allowances, invoice.Allowance{Amount: number(1), Base: number(100), Percent: number(3), Reason: "x"})
	},
	"PEPPOL-EN16931-R041": func(d *invoice.Document) {
		d.Allowances = append(d.Allowances, invoice.Allowance{Amount: number(1), Percent: number(3), Reason: "x"})
	},
	"PEPPOL-EN16931-R042": func(d *invoice.Document) {
		d.Allowances = append(d.Allowances, invoice.Allowance{Amount: number(1), Base: number(3), Reason: "x"})
	},
	"PEPPOL-EN16931-R046": func(d *invoice.Document) {
		d.Lines[0].GrossPrice, d.Lines[0].GrossBaseQuantity = d.Lines[0].Price.Add(number(5)), noNumber()
		d.Lines[0].Discount = number(1)
	},
	"PEPPOL-EN16931-R110": func(d *invoice.Document) {
		d.Period, d.Lines[0].Period = &invoice.Period{Start: 20261001}, &invoice.Period{Start: 20260901}
	},
	"PEPPOL-EN16931-R111": func(d *invoice.Document) {
		d.Period, d.Lines[0].Period = &invoice.Period{End: 20261001}, &invoice.Period{End: 20261101}
	},
	"PEPPOL-EN16931-R120":  func(d *invoice.Document) { d.Lines[0].Net = d.Lines[0].Net.Add(number(1)) },
	"PEPPOL-EN16931-R121":  func(d *invoice.Document) { d.Lines[0].BaseQuantity = number(-1) },
	"PEPPOL-EN16931-R130":  func(d *invoice.Document) { d.Lines[0].BaseUnit = "ZZ" },
	"PEPPOL-EN16931-P0104": reasonFor("VATEX-EU-G"), "PEPPOL-EN16931-P0105": reasonFor("VATEX-EU-O"), "PEPPOL-EN16931-P0106": reasonFor("VATEX-EU-IC"),
	"PEPPOL-EN16931-P0107": reasonFor("VATEX-EU-AE"), "PEPPOL-EN16931-P0108": reasonFor("VATEX-EU-D"), "PEPPOL-EN16931-P0109": reasonFor("vatex-eu-f"),
	"PEPPOL-EN16931-P0110": reasonFor("VATEX-EU-I"), "PEPPOL-EN16931-P0111": reasonFor("VATEX-EU-J"),
	"PEPPOL-COMMON-R040": numberOf("0088", "5790000436058"), "PEPPOL-COMMON-R041": numberOf("0192", "974760674"), "PEPPOL-COMMON-R042": numberOf("0184", "1234567"),
	"PEPPOL-COMMON-R043": numberOf("0208", "0202239952"), "PEPPOL-COMMON-R049": numberOf("0007", "5567321708"), "PEPPOL-COMMON-R050": numberOf("0151", "51824753557"),
}

func number(n int64) invoice.Decimal { return invoice.NewDecimal(n, 0) }

func reasonFor(code string) func(*invoice.Document) {
	return func(d *invoice.Document) { d.Taxes[0].ReasonCode = code }
}

func numberOf(scheme, id string) func(*invoice.Document) {
	return func(d *invoice.Document) { d.Buyer.Legal = invoice.Identifier{ID: id, Scheme: scheme} }
}

func TestTheRulesOfPeppol(t *testing.T) {
	t.Parallel()
	for _, r := range rule.ProfileRules(rule.Peppol) {
		change, ok := peppolBreaches[r.ID]
		if !ok {
			t.Errorf("%s: no breach is listed", r.ID)
			continue
		}
		d := forPeppol()
		if findings := rule.ValidateAs(d, rule.Peppol); len(findings) > 0 {
			t.Fatalf("the document that is to be broken is: %v", findings)
		}
		change(d)
		broken := func(p rule.Profile) bool {
			return slices.ContainsFunc(rule.ValidateAs(d, p), func(f rule.Finding) bool { return f.Rule == r.ID && f.Severity == r.Severity })
		}
		if !broken(rule.Peppol) || broken(rule.Core) {
			t.Errorf("%s: broken as Peppol %t, as EN 16931 %t", r.ID, broken(rule.Peppol), broken(rule.Core))
		}
	}
	if n := len(rule.ProfileRules(rule.Peppol)); n != len(peppolBreaches) {
		t.Errorf("%d rules and %d breaches", n, len(peppolBreaches))
	}
}

// TestNumbersWithCheckDigits uses published, valid numbers.
func TestNumbersWithCheckDigits(t *testing.T) {
	t.Parallel()
	for scheme, id := range map[string]string{
		"0088": "5790000436057", "0192": "974760673", "0184": "DK12345678", "0208": "0202239951", "0007": "5567321707", "0151": "51824753556",
	} {
		d := forPeppol()
		numberOf(scheme, id)(d)
		if findings := rule.ValidateAs(d, rule.Peppol); len(findings) > 0 {
			t.Errorf("%s %s: %v", scheme, id, findings)
		}
	}
}
