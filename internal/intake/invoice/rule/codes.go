package rule

import (
	"strings"

	"smartdrive/internal/intake/invoice"
)

// codes are the rules that codes come from their lists. Lists grow. So what cannot be a code of its
// list is fatal; what has the form of one and is not known here is a warning. Where no list is kept
// here, only the form is checked. Closed lists are fatal.
func codes() []Rule {
	return []Rule{
		ofDocument("BR-CL-01", Fatal, "The type code (BT-3) is one to three digits (UNTDID 1001)", typeOf, digits(1, 3)),
		ofDocument("BR-CL-01", Warning, "The type code (BT-3) is one of an invoice or a credit note (UNTDID 1001)", typeOf, invoiceTypes.has),
		ofDocument("BR-CL-04", Fatal, "The currency (BT-5) is three capital letters (ISO 4217)", currencyOf, letters(3, 3)),
		ofDocument("BR-CL-04", Warning, "The currency (BT-5) is a known one (ISO 4217)", currencyOf, currencies.has),
		ofDocument("BR-CL-05", Fatal, "The currency for accounting VAT (BT-6) is three capital letters (ISO 4217)", taxCurrencyOf, letters(3, 3)),
		ofDocument("BR-CL-05", Warning, "The currency for accounting VAT (BT-6) is a known one (ISO 4217)", taxCurrencyOf, currencies.has),
		ofDocument("BR-CL-06", Fatal, "The code of the date when VAT becomes due (BT-8) is 3, 35 or 432",
			func(d *document) []string { return []string{d.TaxPointCode} }, list("3 35 432").has),
		ofDocument("BR-CL-07", Warning, "The scheme of an object (BT-18) is a qualifier of references (UNTDID 1153)",
			func(d *document) []string { return []string{d.Object.Scheme} }, capitals(1, 3)),
		ofDocument("BR-CL-08", Warning, "The subject of a note (BT-21) is three capital letters (UNTDID 4451)", noteSubjects, letters(3, 3)),
		ofDocument("BR-CL-10", Warning, "The scheme of a party's identifier (BT-29, BT-46, BT-60) is one of ISO 6523", partySchemes, isICD),
		ofDocument("BR-CL-11", Warning, "The scheme of a registration (BT-30, BT-47, BT-61) is one of ISO 6523", legalSchemes, isICD),
		ofLine("BR-CL-13", Warning, "The scheme of a classification (BT-158) is two or three capital letters (UNTDID 7143)", classSchemes, capitals(2, 3)),
		ofDocument("BR-CL-14", Fatal, "A country is two capital letters (ISO 3166-1)", countriesOf, capitals(2, 2)),
		ofDocument("BR-CL-14", Warning, "A country is a known one (ISO 3166-1)", countriesOf, countries.has),
		ofLine("BR-CL-15", Fatal, "A country of origin (BT-159) is two capital letters (ISO 3166-1)", origin, capitals(2, 2)),
		ofLine("BR-CL-15", Warning, "A country of origin (BT-159) is a known one (ISO 3166-1)", origin, countries.has),
		ofDocument("BR-CL-16", Fatal, "A means of payment (BT-81) is a number or ZZZ (UNTDID 4461)", means, isMeans),
		ofDocument("BR-CL-16", Warning, "A means of payment (BT-81) is a known one (UNTDID 4461)", means, paymentMeans.has),
		{
			ID: "BR-CL-17", Severity: Fatal, Text: "The category of a VAT breakdown (BT-118) is one of UNTDID 5305 that EN 16931 takes",
			tax: func(_ *document, t *tax) bool { return t.Category == "" || vatCodes.has(t.Category) },
		},
		{
			ID: "BR-CL-18", Severity: Fatal, Text: "The VAT category of a line (BT-151) is one of UNTDID 5305 that EN 16931 takes",
			line: func(_ *document, l *line) bool { return l.Category == "" || vatCodes.has(l.Category) },
		},
		{
			ID: "BR-CL-18", Severity: Fatal, Text: "The VAT category of an allowance or charge (BT-95, BT-102) is one of UNTDID 5305 that EN 16931 takes",
			allowance: func(_ *document, a *allowance) bool { return a.Category == "" || vatCodes.has(a.Category) },
		},
		ofAllowances("BR-CL-19", "The code of an allowance's reason is one of UNTDID 5189", false, allowanceReasons.has),
		ofAllowances("BR-CL-20", "The code of a charge's reason is two or three capital letters (UNTDID 7161)", true, capitals(2, 3)),
		ofLine("BR-CL-21", Warning, "The scheme of an item's standard identifier (BT-157) is one of ISO 6523",
			func(l *line) []string { return []string{l.StandardItem.Scheme} }, isICD),
		ofDocument("BR-CL-22", Fatal, "The code of an exemption's reason (BT-121) begins with VATEX-", exemptions, isVATEX),
		ofDocument("BR-CL-22", Warning, "The code of an exemption's reason (BT-121) is a known one (VATEX)", exemptions, isKnownVATEX),
		ofLine("BR-CL-23", Fatal, "A unit (BT-130, BT-150) is two or three capital letters or digits (UN/ECE Rec 20, 21)",
			func(l *line) []string { return []string{l.Unit, l.BaseUnit} }, capitals(2, 3)),
		ofDocument("BR-CL-24", Fatal, "An embedded file (BT-125) is of a type that EN 16931 takes", mediaTypes, mimes.has),
		ofDocument("BR-CL-25", Warning, "The scheme of an electronic address (BT-34, BT-49) is one of the EAS list", endpointSchemes, isEAS),
		ofDocument("BR-CL-26", Warning, "The scheme of a place of delivery (BT-71) is one of ISO 6523", deliverySchemes, isICD),
	}
}

// ofDocument is a rule that each of some codes is right; a code that is absent is a matter for
// other rules.
func ofDocument(id string, severity Severity, text string, of func(*document) []string, right func(string) bool) Rule {
	return Rule{ID: id, Severity: severity, Text: text, document: func(d *document) bool { return all(of(d), right) }}
}

func ofLine(id string, severity Severity, text string, of func(*line) []string, right func(string) bool) Rule {
	return Rule{ID: id, Severity: severity, Text: text, line: func(_ *document, l *line) bool { return all(of(l), right) }}
}

// ofAllowances also looks at the lines.
func ofAllowances(id, text string, charge bool, right func(string) bool) Rule {
	ok := func(list []allowance) bool {
		for i := range list {
			if list[i].Charge == charge && list[i].Code != "" && !right(list[i].Code) {
				return false
			}
		}
		return true
	}
	return Rule{ID: id, Severity: Warning, Text: text, document: func(d *document) bool {
		for i := range d.Lines {
			if !ok(d.Lines[i].Allowances) {
				return false
			}
		}
		return ok(d.Allowances)
	}}
}

func all(codes []string, right func(string) bool) bool {
	for _, code := range codes {
		if code != "" && !right(code) {
			return false
		}
	}
	return true
}

func typeOf(d *document) []string        { return []string{d.Type} }
func currencyOf(d *document) []string    { return []string{d.Currency} }
func taxCurrencyOf(d *document) []string { return []string{d.TaxCurrency} }
func origin(l *line) []string            { return []string{l.Origin} }

func noteSubjects(d *document) (codes []string) {
	for i := range d.Notes {
		codes = append(codes, d.Notes[i].Subject)
	}
	return codes
}

// eachParty visits the parties that there are.
func eachParty(d *document, visit func(*invoice.Party)) {
	for _, p := range []*invoice.Party{&d.Seller, &d.Buyer, d.Payee, d.TaxRepresentative} {
		if p != nil {
			visit(p)
		}
	}
}

func partySchemes(d *document) (codes []string) {
	eachParty(d, func(p *invoice.Party) {
		for _, id := range p.IDs {
			codes = append(codes, id.Scheme)
		}
	})
	return codes
}

func legalSchemes(d *document) (codes []string) {
	eachParty(d, func(p *invoice.Party) { codes = append(codes, p.Legal.Scheme) })
	return codes
}

func endpointSchemes(d *document) []string {
	return []string{d.Seller.Endpoint.Scheme, d.Buyer.Endpoint.Scheme}
}

func countriesOf(d *document) (codes []string) {
	eachParty(d, func(p *invoice.Party) {
		if p.Address != nil {
			codes = append(codes, p.Address.Country)
		}
	})
	if d.Delivery != nil && d.Delivery.Address != nil {
		codes = append(codes, d.Delivery.Address.Country)
	}
	return codes
}

func deliverySchemes(d *document) []string {
	if d.Delivery == nil {
		return nil
	}
	return []string{d.Delivery.Location.Scheme}
}

func classSchemes(l *line) (codes []string) {
	for i := range l.Classes {
		codes = append(codes, l.Classes[i].Scheme)
	}
	return codes
}

func means(d *document) (codes []string) {
	for i := range d.Payments {
		codes = append(codes, d.Payments[i].Code)
	}
	return codes
}

func exemptions(d *document) (codes []string) {
	for i := range d.Taxes {
		codes = append(codes, d.Taxes[i].ReasonCode)
	}
	return codes
}

// mediaTypes of embedded files. The XRechnung extension also embeds XML.
func mediaTypes(d *document) (codes []string) {
	for i := range d.Attachments {
		mime := strings.ToLower(d.Attachments[i].Type)
		if !isExtension(d) || mime != "application/xml" && mime != "text/xml" {
			codes = append(codes, mime)
		}
	}
	return codes
}
