package syntax

import (
	"slices"
	"strings"
	"testing"

	"example.org/smartdrive/internal/intake/invoice/rule"
)

// TestWhatAFileSaysIsJudged changes the file of a valid invoice in one place and expects a rule to
// be broken. A question mark after a rule stands for a warning.
func TestWhatAFileSaysIsJudged(t *testing.T) {
	t.Parallel()
	const scheme = "<cac:TaxScheme><cbc:ID>VAT</cbc:ID></cac:TaxScheme>"
	other := strings.Replace(scheme, "VAT", "OTH", 1)
	const gross, base = "</ram:GrossPriceProductTradePrice>", `<ram:BasisQuantity unitCode="C62">1</ram:BasisQuantity>`
	note := "<ram:IncludedNote><ram:Content>A note</ram:Content></ram:IncludedNote>"
	for name, c := range map[string]struct {
		text string
		want string
	}{
		"another tax in a line":            {behind(ubl("", ""), "cac:ClassifiedTaxCategory", scheme, other), "BR-CO-04"},
		"a line's tax in small letters":    {behind(ubl("", ""), "cac:ClassifiedTaxCategory", scheme, strings.Replace(scheme, "VAT", "vat", 1)), ""},
		"another tax in a breakdown":       {behind(ubl("", ""), "cac:TaxSubtotal", scheme, other), "BR-47"},
		"another tax in an allowance":      {behind(ubl("", ""), "cac:AllowanceCharge", scheme, other), "BR-32"},
		"no tax named in a line of CII":    {behind(cii("", ""), "ram:SpecifiedLineTradeSettlement", "<ram:TypeCode>VAT</ram:TypeCode>", ""), "BR-CO-04"},
		"another tax in CII":               {behind(cii("", ""), "ram:CategoryTradeTax", ">VAT<", ">OTH<"), "BR-32 CII-DT-037"},
		"a registration of no scheme":      {cii(` schemeID="VA"`, ""), "BR-56 SD-06?"},
		"a credit note's type":             {ubl(">380<", ">381<"), "BR-CL-01"},
		"a credit note's type in CII":      {cii(">380<", ">381<"), ""},
		"a unit of no list":                {ubl(`unitCode="`, `unitCode="PCS" was="`), "BR-CL-23"},
		"no currency of a total of VAT":    {ubl(`<cbc:TaxAmount currencyID="EUR">`, "<cbc:TaxAmount>"), "BR-CL-03 BR-CO-15"},
		"no currency of VAT in CII":        {cii(`<ram:TaxTotalAmount currencyID="EUR">`, "<ram:TaxTotalAmount>"), "BR-CO-15"},
		"a day of issue of no format":      {behind(cii("", ""), "rsm:ExchangedDocument>", ` format="102"`, ""), "BR-03"},
		"a due date of another format":     {behind(cii("", ""), "ram:DueDateDateTime", `"102"`, `"203"`), "SD-07?"},
		"a preceding invoice of no number": {ubl("<cbc:ID>R-6</cbc:ID>", ""), "BR-55"},
		"a currency of no list":            {ubl(`<cbc:PayableAmount currencyID="EUR"`, `<cbc:PayableAmount currencyID="EXR"`), "BR-CL-03 SD-02"},
		"a third decimal that is zero":     {ubl("</cbc:PayableAmount>", "0</cbc:PayableAmount>"), "BR-DEC-18"},
		"a decimal that is zero":           {ubl("</cbc:TaxInclusiveAmount>", "0</cbc:TaxInclusiveAmount>"), ""},
		"zeros of a price":                 {ubl(">39.665</cbc:PriceAmount>", ">39.665000</cbc:PriceAmount>"), ""},
		"a third decimal of CII":           {cii("</ram:DuePayableAmount>", "0</ram:DuePayableAmount>"), "BR-DEC-18"},
		"a creditor's number of the buyer": {behind(ubl("", ""), "cac:AccountingCustomerParty", "<cac:PartyIdentification><cbc:ID>", `<cac:PartyIdentification><cbc:ID schemeID="SEPA">`), "BR-CL-10"},
		"a number of the EAS list alone":   {behind(ubl("", ""), "cac:AccountingCustomerParty", "<cac:PartyIdentification><cbc:ID>", `<cac:PartyIdentification><cbc:ID schemeID="9930">`), "BR-CL-10 BR-CL-10?"},
		"an empty period of CII":           {emptyPeriod(cii("", "")), "BR-CO-19"},
		"another currency":                 {ubl(`<cbc:PayableAmount currencyID="EUR"`, `<cbc:PayableAmount currencyID="CHF"`), "SD-02"},
		"a second note of a line":          {ubl("<cbc:Note>A note</cbc:Note>", "<cbc:Note>A note</cbc:Note><cbc:Note>A note</cbc:Note>"), "UBL-SR-34"},
		"a second category of a line":      {behind(ubl("", ""), "cac:InvoiceLine", "<cac:ClassifiedTaxCategory>", "<cac:ClassifiedTaxCategory>"+scheme+"</cac:ClassifiedTaxCategory><cac:ClassifiedTaxCategory>"), "UBL-SR-48"},
		"several means of payment":         {strings.Replace(ubl("", ""), ">57<", ">42<", 1), "UBL-SR-47"},

		"a second note of a line of CII": {cii(note, note+strings.Replace(note, "A note", "Another", 1)), ""},
		"a second telephone number":      {behind(cii("", ""), "ram:SellerTradeParty", "</ram:CompleteNumber>", "</ram:CompleteNumber><ram:CompleteNumber>1</ram:CompleteNumber>"), "SD-05?"},
		"tiers of discounts":             {cii("</ram:SpecifiedTradePaymentTerms>", "</ram:SpecifiedTradePaymentTerms><ram:SpecifiedTradePaymentTerms><ram:Description>2 % within a week</ram:Description></ram:SpecifiedTradePaymentTerms>"), ""},
		"prices of other quantities":     {cii(gross, base+gross), ""},
	} {
		want := strings.Fields(c.want)
		var got []string
		for _, f := range rule.Validate(mustDecode(t, []byte(c.text))) {
			id := f.Rule
			if f.Severity == rule.Warning {
				id += "?"
			}
			if f.Place == "" && f.Rule != "BR-CL-01" && f.Rule != "BR-CL-23" && f.Rule != "BR-56" {
				t.Errorf("%s: %s does not say where", name, f.Rule)
			}
			got = append(got, id)
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// emptyPeriod removes the days from the period of a CII, which the code of BT-8 does not replace.
func emptyPeriod(text string) string {
	const begin, end = "<ram:BillingSpecifiedPeriod>", "</ram:BillingSpecifiedPeriod>"
	from := strings.LastIndex(text, begin) + len(begin) // the first one is a line's period
	return text[:from] + text[from+strings.Index(text[from:], end):]
}

// behind replaces a text once, after the first start of an element.
func behind(text, element, old, with string) string {
	at := strings.Index(text, "<"+element)
	return text[:at] + strings.Replace(text[at:], old, with, 1)
}

// TestSeveralValuesAreKept checks that values that CII may repeat are all kept.
func TestSeveralValuesAreKept(t *testing.T) {
	t.Parallel()
	const gross, base = "</ram:GrossPriceProductTradePrice>", `<ram:BasisQuantity unitCode="C62">1</ram:BasisQuantity>`
	const terms = "</ram:SpecifiedTradePaymentTerms>"
	d := mustDecode(t, []byte(cii(terms, terms+"<ram:SpecifiedTradePaymentTerms><ram:Description>2 % within a week</ram:Description>"+terms)))
	if want := "14 days, net\n2 % within a week"; d.PaymentTerms != want {
		t.Errorf("the terms are %q, want %q", d.PaymentTerms, want)
	}
	d = mustDecode(t, []byte(cii(gross, base+gross)))
	if l := d.Lines[0]; l.GrossBaseQuantity.String() != "1" || l.BaseQuantity.String() != "100" {
		t.Errorf("the net price is for %s, the gross price for %s", l.BaseQuantity, l.GrossBaseQuantity)
	}
}
