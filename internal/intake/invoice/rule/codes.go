package rule

import (
	"slices"
	"strings"

	"example.org/smartdrive/internal/intake/invoice"
)

// codes returns the rules that codes must be in their code lists, as of Release. Lists of
// identifier schemes (ISO 6523, EAS) and of exemption reasons grow twice a year: an unknown code of
// valid form is a warning, a code of invalid form is fatal. Codes of other lists must match exactly
// (decision 57).
func codes() []Rule {
	return slices.Concat(documentCodes(), lineCodes(), schemeCodes())
}

// documentCodes returns the code-list rules (BR-CL-...) about the document as a whole.
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
		ofDocument("BR-CL-16", Fatal, "A means of payment (BT-81) is one of UNTDID 4461", paymentMeansCodes, paymentMeans.has),
		{
			ID: "BR-CL-17", Severity: Fatal, Text: "The category of a VAT breakdown (BT-118) is one of UNTDID 5305 that EN 16931 takes",
			tax: func(_ *document, t *tax) bool { return t.Category == "" || vatCodes.has(t.Category) },
		},
		ofDocument("BR-CL-22", Fatal, "The code of an exemption's reason (BT-121) begins with VATEX-", exemptions, isVATEX),
		ofDocument("BR-CL-22", Warning, "The code of an exemption's reason (BT-121) is a known one (VATEX)", exemptions, isKnownVATEX),
		ofDocument("BR-CL-24", Fatal, "An embedded file (BT-125) is of a type that EN 16931 takes", mediaTypes, mimes.has),
	}
}

// lineCodes returns the code-list rules (BR-CL-...) about lines and allowances.
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

// schemeCodes returns the rules on schemes of identifiers. The XRechnung extension adds schemes
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

// extensionSchemes holds the schemes that the XRechnung extension adds.
var extensionSchemes = list("XR01 XR02 XR03")

// ofSchemes returns a rule that all schemes satisfy right, or are schemes of the extension if the
// document uses it.
func ofSchemes(id string, severity Severity, text string, of func(*document) []string, right func(string) bool) Rule {
	return Rule{ID: id, Severity: severity, Text: text, document: func(d *document) bool {
		return all(of(d), func(code string) bool { return right(code) || isExtension(d) && extensionSchemes.has(code) })
	}}
}

// itemSchemes returns the schemes of all items' standard identifiers.
func itemSchemes(d *document) (codes []string) {
	for i := range d.Lines {
		codes = append(codes, d.Lines[i].StandardItem.Scheme)
	}
	return codes
}

// rightType checks the type code. In UBL it must also match the root element.
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

// ofDocument returns a rule that every code that of returns satisfies right. Empty codes pass;
// other rules require them.
func ofDocument(id string, severity Severity, text string, of func(*document) []string, right func(string) bool) Rule {
	return Rule{ID: id, Severity: severity, Text: text, document: func(d *document) bool { return all(of(d), right) }}
}

// ofLine returns a rule that every code that of returns for a line satisfies right. Empty codes
// pass.
func ofLine(id string, severity Severity, text string, of func(*line) []string, right func(string) bool) Rule {
	return Rule{ID: id, Severity: severity, Text: text, line: func(_ *document, l *line) bool { return all(of(l), right) }}
}

// ofAllowances returns a rule on the reason codes of all allowances, or of all charges, of the
// document and its lines.
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

// all reports whether every non-empty code satisfies right; true for no codes.
func all(codes []string, right func(string) bool) bool {
	for _, code := range codes {
		if code != "" && !right(code) {
			return false
		}
	}
	return true
}

// currencyOf returns the document's currency (BT-5).
func currencyOf(d *document) []string { return []string{d.Currency} }

// taxCurrencyOf returns the document's currency for VAT (BT-6).
func taxCurrencyOf(d *document) []string { return []string{d.TaxCurrency} }

// origin returns the line's country of origin (BT-159).
func origin(l *line) []string { return []string{l.Origin} }

// unitsOf returns the units of a line and its sublines.
func unitsOf(l *line) []string {
	codes := []string{l.Unit, l.BaseUnit, l.GrossBaseUnit}
	for i := range l.Lines {
		codes = append(codes, unitsOf(&l.Lines[i])...)
	}
	return codes
}

// noteSubjects returns the subject codes of all notes.
func noteSubjects(d *document) (codes []string) {
	for i := range d.Notes {
		codes = append(codes, d.Notes[i].Subject)
	}
	return codes
}

// eachParty calls visit for each party of the document.
func eachParty(d *document, visit func(*invoice.Party)) {
	for _, p := range []*invoice.Party{&d.Seller, &d.Buyer, d.Payee, d.TaxRepresentative} {
		if p != nil {
			visit(p)
		}
	}
}

// partySchemes returns the schemes of all parties' identifiers.
func partySchemes(d *document) (codes []string) {
	eachParty(d, func(p *invoice.Party) {
		for _, id := range p.IDs {
			codes = append(codes, id.Scheme)
		}
	})
	return codes
}

// legalSchemes returns the schemes of all parties' registrations.
func legalSchemes(d *document) (codes []string) {
	eachParty(d, func(p *invoice.Party) { codes = append(codes, p.Legal.Scheme) })
	return codes
}

// endpointSchemes returns the schemes of seller's and buyer's electronic addresses.
func endpointSchemes(d *document) []string {
	return []string{d.Seller.Endpoint.Scheme, d.Buyer.Endpoint.Scheme}
}

// countriesOf returns the countries of all addresses.
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

// deliverySchemes returns the scheme of the delivery location.
func deliverySchemes(d *document) []string {
	if d.Delivery == nil {
		return nil
	}
	return []string{d.Delivery.Location.Scheme}
}

// classSchemes returns the schemes of an item's classifications, except CVD (clean vehicles
// directive), which XRechnung adds.
func classSchemes(l *line) (codes []string) {
	for i := range l.Classes {
		if l.Classes[i].Scheme != "CVD" {
			codes = append(codes, l.Classes[i].Scheme)
		}
	}
	return codes
}

// paymentMeansCodes returns the codes of all means of payment.
func paymentMeansCodes(d *document) (codes []string) {
	for i := range d.Payments {
		codes = append(codes, d.Payments[i].Code)
	}
	return codes
}

// exemptions returns the exemption reason codes of all breakdowns.
func exemptions(d *document) (codes []string) {
	for i := range d.Taxes {
		codes = append(codes, d.Taxes[i].ReasonCode)
	}
	return codes
}

// mediaTypes returns the media types of embedded files, in lower case. It leaves out XML if the
// document uses the XRechnung extension, which allows it.
func mediaTypes(d *document) (codes []string) {
	for i := range d.Attachments {
		mime := strings.ToLower(d.Attachments[i].Type)
		if !isExtension(d) || mime != "application/xml" && mime != "text/xml" {
			codes = append(codes, mime)
		}
	}
	return codes
}
