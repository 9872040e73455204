package rule

import (
	"slices"
	"strings"

	"smartdrive/internal/intake/invoice"
)

// codes are the rules that codes come from their lists, as Release has them. Lists of identifier
// schemes (ISO 6523, EAS) and of reasons for exemption get new codes twice a year: a code of theirs
// that has the form of one and is not known here is a warning, what cannot be one is fatal. Other
// lists are matched by value (decision 57).
func codes() []Rule {
	return slices.Concat(documentCodes(), lineCodes(), schemeCodes())
}

func documentCodes() []Rule {
	return []Rule{
		{ID: "BR-CL-01", Severity: Fatal, Text: "The type code (BT-3) is one of an invoice or, in a credit note, of a credit note (UNTDID 1001)", document: rightType},
		{ID: "BR-CL-03", Severity: Fatal, Text: "An amount of UBL names its currency"},
		{
			ID: "BR-CL-03", Severity: Fatal, Text: "The currency of an amount is one of ISO 4217", near: "SD-02",
			document: func(d *document) bool { return all(d.OtherCurrencies, isCurrency) },
		},
		ofDocument("BR-CL-04", Fatal, "The currency (BT-5) is one of ISO 4217", currencyOf, isCurrency),
		ofDocument("BR-CL-04", Warning, "The currency (BT-5) is a present one (ISO 4217)", currencyOf, currencies.has),
		ofDocument("BR-CL-05", Fatal, "The currency for accounting VAT (BT-6) is one of ISO 4217", taxCurrencyOf, isCurrency),
		ofDocument("BR-CL-05", Warning, "The currency for accounting VAT (BT-6) is a present one (ISO 4217)", taxCurrencyOf, currencies.has),
		ofDocument("BR-CL-06", Fatal, "The code of the date when VAT becomes due (BT-8) is 3, 35 or 432",
			func(d *document) []string { return []string{d.TaxPointCode} }, list("3 35 432").has),
		ofDocument("BR-CL-07", Fatal, "The scheme of an object (BT-18) is a qualifier of references (UNTDID 1153)",
			func(d *document) []string { return []string{d.Object.Scheme} }, isQualifier),
		ofDocument("BR-CL-08", Fatal, "The subject of a note (BT-21) is one of UNTDID 4451", noteSubjects, isSubject),
		ofDocument("BR-CL-14", Fatal, "A country is one of ISO 3166-1", countriesOf, countries.has),
		ofDocument("BR-CL-16", Fatal, "A means of payment (BT-81) is one of UNTDID 4461", means, paymentMeans.has),
		{
			ID: "BR-CL-17", Severity: Fatal, Text: "The category of a VAT breakdown (BT-118) is one of UNTDID 5305 that EN 16931 takes",
			tax: func(_ *document, t *tax) bool { return t.Category == "" || vatCodes.has(t.Category) },
		},
		ofDocument("BR-CL-22", Fatal, "The code of an exemption's reason (BT-121) begins with VATEX-", exemptions, isVATEX),
		ofDocument("BR-CL-22", Warning, "The code of an exemption's reason (BT-121) is a known one (VATEX)", exemptions, isKnownVATEX),
		ofDocument("BR-CL-24", Fatal, "An embedded file (BT-125) is of a type that EN 16931 takes", mediaTypes, mimes.has),
	}
}

func lineCodes() []Rule {
	return []Rule{
		ofLine("BR-CL-07", Fatal, "The scheme of a line's object (BT-128) is a qualifier of references (UNTDID 1153)",
			func(l *line) []string { return []string{l.Object.Scheme} }, isQualifier),
		ofLine("BR-CL-13", Fatal, "The scheme of a classification (BT-158) is one of UNTDID 7143", classSchemes, isClassification),
		ofLine("BR-CL-15", Fatal, "A country of origin (BT-159) is one of ISO 3166-1", origin, countries.has),
		{
			ID: "BR-CL-18", Severity: Fatal, Text: "The VAT category of a line (BT-151) is one of UNTDID 5305 that EN 16931 takes",
			line: func(_ *document, l *line) bool {
				return eachLine(l, func(l *line) bool { return l.Category == "" || vatCodes.has(l.Category) })
			},
		},
		{
			ID: "BR-CL-18", Severity: Fatal, Text: "The VAT category of an allowance or charge (BT-95, BT-102) is one of UNTDID 5305 that EN 16931 takes",
			allowance: func(_ *document, a *allowance) bool { return a.Category == "" || vatCodes.has(a.Category) },
		},
		ofAllowances("BR-CL-19", "The code of an allowance's reason is one of UNTDID 5189", false, allowanceReasons.has),
		ofAllowances("BR-CL-20", "The code of a charge's reason is one of UNTDID 7161", true, isChargeReason),
		ofLine("BR-CL-23", Fatal, "A unit (BT-130, BT-150) is one of UN/ECE Rec 20 or 21",
			unitsOf, isUnit),
	}
}

// schemeCodes are rules on schemes of identifiers. The XRechnung extension adds some of its own
// (BR-DEX-04 to 08).
func schemeCodes() []Rule {
	const form, known = " has the form of ISO 6523: four digits, the first two not 99", " is a known one of ISO 6523"
	schemes := func(id, what string, of func(*document) []string) []Rule {
		return []Rule{
			ofSchemes(id, Fatal, what+form, of, isICD), ofSchemes(id, Warning, what+known, of, isKnownICD),
		}
	}
	return slices.Concat(
		schemes("BR-CL-10", "The scheme of a party's identifier (BT-29, BT-46, BT-60)", partySchemes),
		schemes("BR-CL-11", "The scheme of a registration (BT-30, BT-47, BT-61)", legalSchemes),
		schemes("BR-CL-21", "The scheme of an item's standard identifier (BT-157)", itemSchemes),
		[]Rule{
			ofSchemes("BR-CL-25", Fatal, "The scheme of an electronic address (BT-34, BT-49) has the form of the EAS list", endpointSchemes, isEAS),
			ofSchemes("BR-CL-25", Warning, "The scheme of an electronic address (BT-34, BT-49) is one of the EAS list", endpointSchemes, isKnownEAS),
		},
		schemes("BR-CL-26", "The scheme of a place of delivery (BT-71)", deliverySchemes))
}

// extensionSchemes are those that the XRechnung extension adds.
var extensionSchemes = list("XR01 XR02 XR03")

func ofSchemes(id string, severity Severity, text string, of func(*document) []string, right func(string) bool) Rule {
	return Rule{ID: id, Severity: severity, Text: text, document: func(d *document) bool {
		return all(of(d), func(code string) bool { return right(code) || isExtension(d) && extensionSchemes.has(code) })
	}}
}

func itemSchemes(d *document) (codes []string) {
	for i := range d.Lines {
		codes = append(codes, d.Lines[i].StandardItem.Scheme)
	}
	return codes
}

// rightType also ties the type code to the root element of UBL.
func rightType(d *document) bool {
	switch {
	case d.Type == "":
		return true
	case d.Written.Syntax != invoice.UBLSyntax:
		return debitTypes.has(d.Type) || creditTypes.has(d.Type)
	case d.Written.CreditNote:
		return creditTypes.has(d.Type)
	}
	return debitTypes.has(d.Type)
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
	return Rule{ID: id, Severity: Fatal, Text: text, document: func(d *document) bool {
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

func currencyOf(d *document) []string    { return []string{d.Currency} }
func taxCurrencyOf(d *document) []string { return []string{d.TaxCurrency} }
func origin(l *line) []string            { return []string{l.Origin} }

// unitsOf also looks at the lines in a line.
func unitsOf(l *line) []string {
	codes := []string{l.Unit, l.BaseUnit, l.GrossBaseUnit}
	for i := range l.Lines {
		codes = append(codes, unitsOf(&l.Lines[i])...)
	}
	return codes
}

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

// classSchemes leaves out that of the directive on clean vehicles, which XRechnung adds.
func classSchemes(l *line) (codes []string) {
	for i := range l.Classes {
		if l.Classes[i].Scheme != "CVD" {
			codes = append(codes, l.Classes[i].Scheme)
		}
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
