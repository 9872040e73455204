package syntax

import (
	"strings"
	"sync"

	"example.org/smartdrive/internal/intake/invoice"
)

// Namespaces of UN/CEFACT Cross Industry Invoice D16B, with the binding of EN 16931-3-3, and the
// prefixes that paths use for them. In a CII, lines come before everything else.

var (
	// ciiSpaces lists the namespaces of CII in the order of ciiPrefixes.
	ciiSpaces = []string{
		"urn:un:unece:uncefact:data:standard:CrossIndustryInvoice:100",
		"urn:un:unece:uncefact:data:standard:ReusableAggregateBusinessInformationEntity:100",
		"urn:un:unece:uncefact:data:standard:UnqualifiedDataType:100",
		"urn:un:unece:uncefact:data:standard:QualifiedDataType:100",
	}
	// ciiPrefixes lists the prefixes that paths of CII elements use.
	ciiPrefixes = []string{"rsm", "ram", "udt", "qdt"}
)

// ciiTree returns the tree of a CrossIndustryInvoice.
var ciiTree = sync.OnceValue(func() *node {
	const trade = "rsm:SupplyChainTradeTransaction/"
	root := grow(ciiPrefixes, ciiHead,
		withPrefix(trade+"ram:IncludedSupplyChainTradeLineItem", ciiLine),
		withPrefix(trade+"ram:ApplicableHeaderTradeAgreement", ciiAgreement),
		withPrefix(trade+"ram:ApplicableHeaderTradeDelivery", ciiDelivery),
		withPrefix(trade+"ram:ApplicableHeaderTradeSettlement", join(ciiSettlement, ciiPayment, ciiTotals)))
	root.limit(ciiPrefixes, ciiOccurrences())
	return root
})

// ciiHead maps the context and the head of the document.
var ciiHead = join([]row{
	{
		path: "rsm:ExchangedDocumentContext/ram:GuidelineSpecifiedDocumentContextParameter/ram:ID",
		to:   func(b *builder) any { return &b.doc.Profile },
	},
	{
		path: "rsm:ExchangedDocumentContext/ram:BusinessProcessSpecifiedDocumentContextParameter/ram:ID",
		to:   func(b *builder) any { return &b.doc.Process },
	},
	{path: "rsm:ExchangedDocument/ram:ID", to: func(b *builder) any { return &b.doc.Number }},
	{path: "rsm:ExchangedDocument/ram:TypeCode", to: func(b *builder) any { return &b.doc.Type }},
	{path: "rsm:ExchangedDocument/ram:IncludedNote", begin: addNote},
	{path: "rsm:ExchangedDocument/ram:IncludedNote/ram:Content", to: func(b *builder) any { return &b.note().Text }},
	{path: "rsm:ExchangedDocument/ram:IncludedNote/ram:SubjectCode", to: func(b *builder) any { return &b.note().Subject }},
}, ciiRuledDate("BR-03", "rsm:ExchangedDocument/ram:IssueDateTime", func(b *builder) any { return &b.doc.Date }))

// ciiRuledDate maps a date that is invalid without format 102. Otherwise it breaks the given rule.
func ciiRuledDate(rule, path string, to place) []row {
	rows := ciiDate(path, to)
	for i := range rows {
		if rows[i].end != nil {
			rows[i].end = func(b *builder) {
				if b.date != "102" {
					b.recordBreach(rule, nil)
				}
				b.date = ""
			}
		}
	}
	return rows
}

// ciiDate maps a date in one of CII's date elements, with the format in an attribute.
func ciiDate(path string, to place) []row {
	var rows []row
	for _, leaf := range []string{"/udt:DateTimeString", "/qdt:DateTimeString", "/udt:DateString"} {
		if leaf[:4] == "/qdt" != strings.HasSuffix(path, "FormattedIssueDateTime") {
			continue
		}
		rows = append(rows, row{path: path + leaf, to: to, end: func(b *builder) { b.date = "" }},
			row{path: path + leaf + "@format", to: func(b *builder) any { return &b.date }})
	}
	return rows
}

// ciiDetailDate maps a date whose first value counts.
func ciiDetailDate(path string, to place) []row {
	rows := ciiDate(path, to)
	for i := range rows {
		rows[i].detail = true
	}
	return rows
}

// ciiAmount maps an amount with an optional currency.
func ciiAmount(path string, to place) []row {
	return []row{{path: path, to: to, end: (*builder).sawCurrency}, {path: path + "@currencyID", to: currencyOf}}
}

// ciiAgreement maps parties and references of the header.
var ciiAgreement = join(
	[]row{
		{path: "ram:BuyerReference", to: func(b *builder) any { return &b.doc.BuyerReference }},
		{path: "ram:SellerTradeParty", begin: func(b *builder) { b.party = &b.doc.Seller }},
		{path: "ram:BuyerTradeParty", begin: func(b *builder) { b.party = &b.doc.Buyer }},
		{path: "ram:SellerTaxRepresentativeTradeParty", begin: taxRepresentative},
		{path: "ram:BuyerOrderReferencedDocument/ram:IssuerAssignedID", to: func(b *builder) any { return &b.doc.PurchaseOrder }},
		{path: "ram:SellerOrderReferencedDocument/ram:IssuerAssignedID", to: func(b *builder) any { return &b.doc.SalesOrder }},
		{path: "ram:ContractReferencedDocument/ram:IssuerAssignedID", to: func(b *builder) any { return &b.doc.Contract }},
		{path: "ram:SpecifiedProcuringProject/ram:ID", to: func(b *builder) any { return &b.doc.Project }},
		{path: "ram:AdditionalReferencedDocument", begin: newReference, end: func(b *builder) { b.addReference(&b.doc.Tender) }},
	},
	withPrefix("ram:SellerTradeParty", ciiParty), withPrefix("ram:BuyerTradeParty", ciiParty), withPrefix("ram:SellerTaxRepresentativeTradeParty", ciiParty),
	withPrefix("ram:AdditionalReferencedDocument", []row{
		{path: "ram:IssuerAssignedID", to: func(b *builder) any { return &b.ref.attachment.ID }},
		{path: "ram:ReferenceTypeCode", to: func(b *builder) any { return &b.ref.scheme }},
		{path: "ram:TypeCode", to: func(b *builder) any { return &b.ref.kind }},
		{path: "ram:Name", to: func(b *builder) any { return &b.ref.attachment.Text }},
		{path: "ram:URIID", to: func(b *builder) any { return &b.ref.attachment.URL }},
		{path: "ram:AttachmentBinaryObject", file: true},
		{path: "ram:AttachmentBinaryObject@mimeCode", to: func(b *builder) any { return &b.ref.attachment.Type }},
		{path: "ram:AttachmentBinaryObject@filename", to: func(b *builder) any { return &b.ref.attachment.Name }},
	}),
)

// ciiParty maps the elements of a party.
var ciiParty = join([]row{
	{path: "ram:ID", begin: newID, to: func(b *builder) any { return &b.id.ID }, end: (*builder).endPartyID},
	{path: "ram:ID@schemeID", to: func(b *builder) any { return &b.id.Scheme }},
	{path: "ram:GlobalID", begin: newID, to: func(b *builder) any { return &b.id.ID }, end: (*builder).endPartyID},
	{path: "ram:GlobalID@schemeID", to: func(b *builder) any { return &b.id.Scheme }},
	{path: "ram:Name", to: func(b *builder) any { return &b.party.Name }},
	{path: "ram:Description", to: func(b *builder) any { return &b.party.LegalInfo }, detail: true},
	{path: "ram:SpecifiedLegalOrganization/ram:ID", to: func(b *builder) any { return &b.party.Legal.ID }},
	{path: "ram:SpecifiedLegalOrganization/ram:ID@schemeID", to: func(b *builder) any { return &b.party.Legal.Scheme }},
	{path: "ram:SpecifiedLegalOrganization/ram:TradingBusinessName", to: func(b *builder) any { return &b.party.TradeName }},
	{path: "ram:DefinedTradeContact", begin: partyContact},
	{path: "ram:DefinedTradeContact/ram:PersonName", to: func(b *builder) any { return &b.party.Contact.Name }, detail: true},
	{path: "ram:DefinedTradeContact/ram:DepartmentName", to: unlessSet(func(b *builder) *string { return &b.party.Contact.Name })},
	{path: "ram:DefinedTradeContact/ram:TelephoneUniversalCommunication/ram:CompleteNumber", to: func(b *builder) any { return &b.party.Contact.Phone }, detail: true},
	{path: "ram:DefinedTradeContact/ram:EmailURIUniversalCommunication/ram:URIID", to: func(b *builder) any { return &b.party.Contact.Email }, detail: true},
	{path: "ram:URIUniversalCommunication/ram:URIID", to: func(b *builder) any { return &b.party.Endpoint.ID }},
	{path: "ram:URIUniversalCommunication/ram:URIID@schemeID", to: func(b *builder) any { return &b.party.Endpoint.Scheme }},
	{path: "ram:SpecifiedTaxRegistration", begin: newTax, end: endTaxCII},
	{path: "ram:SpecifiedTaxRegistration/ram:ID", to: func(b *builder) any { return &b.tax.id }},
	{path: "ram:SpecifiedTaxRegistration/ram:ID@schemeID", to: func(b *builder) any { return &b.tax.scheme }},
	{path: "ram:PostalTradeAddress", begin: partyAddress},
}, withPrefix("ram:PostalTradeAddress", ciiAddress))

// unlessSet returns a place for a fallback value, which is dropped if a better value is already
// set: a department if there is a person, a local account number if there is an IBAN, a local
// identifier if there is a global one.
func unlessSet(of func(*builder) *string) place {
	return func(b *builder) any {
		if p := of(b); *p == "" {
			return p
		}
		return new(string)
	}
}

// ciiAddress maps the elements of a postal address.
var ciiAddress = []row{
	{path: "ram:PostcodeCode", to: func(b *builder) any { return &b.address.Zone }},
	{path: "ram:LineOne", to: func(b *builder) any { return &b.address.Line1 }},
	{path: "ram:LineTwo", to: func(b *builder) any { return &b.address.Line2 }},
	{path: "ram:LineThree", to: func(b *builder) any { return &b.address.Line3 }},
	{path: "ram:CityName", to: func(b *builder) any { return &b.address.City }},
	{path: "ram:CountryID", to: func(b *builder) any { return &b.address.Country }},
	{path: "ram:CountrySubDivisionName", to: func(b *builder) any { return &b.address.Region }},
}

// ciiDelivery maps the delivery.
var ciiDelivery = join(
	[]row{
		{path: "ram:ShipToTradeParty", begin: addDelivery},
		{path: "ram:ShipToTradeParty/ram:ID", to: unlessSet(func(b *builder) *string { return &b.doc.Delivery.Location.ID })},
		{path: "ram:ShipToTradeParty/ram:GlobalID", begin: func(b *builder) { b.doc.Delivery.Location.ID = "" }, to: func(b *builder) any { return &b.doc.Delivery.Location.ID }},
		{path: "ram:ShipToTradeParty/ram:GlobalID@schemeID", to: func(b *builder) any { return &b.doc.Delivery.Location.Scheme }},
		{path: "ram:ShipToTradeParty/ram:Name", to: func(b *builder) any { return &b.doc.Delivery.Name }},
		{path: "ram:ShipToTradeParty/ram:PostalTradeAddress", begin: deliveryAddress},
		{path: "ram:ActualDeliverySupplyChainEvent", begin: addDelivery},
		{path: "ram:DespatchAdviceReferencedDocument/ram:IssuerAssignedID", to: func(b *builder) any { return &b.doc.Despatch }},
		{path: "ram:ReceivingAdviceReferencedDocument/ram:IssuerAssignedID", to: func(b *builder) any { return &b.doc.Receipt }},
	},
	withPrefix("ram:ShipToTradeParty/ram:PostalTradeAddress", ciiAddress),
	ciiDate("ram:ActualDeliverySupplyChainEvent/ram:OccurrenceDateTime", func(b *builder) any { return &b.doc.Delivery.Date }),
)

// ciiSettlement maps currencies, payee, period and preceding invoices.
var ciiSettlement = join(
	[]row{
		{path: "ram:CreditorReferenceID", to: func(b *builder) any { return &b.doc.Creditor }},
		{path: "ram:PaymentReference", to: func(b *builder) any { return &b.doc.PaymentReference }},
		{path: "ram:TaxCurrencyCode", to: func(b *builder) any { return &b.doc.TaxCurrency }},
		{path: "ram:InvoiceCurrencyCode", to: func(b *builder) any { return &b.doc.Currency }},
		{path: "ram:ReceivableSpecifiedTradeAccountingAccount/ram:ID", to: func(b *builder) any { return &b.doc.BuyerAccounting }},
		{path: "ram:PayeeTradeParty", begin: payee},
		{path: "ram:BillingSpecifiedPeriod", begin: docPeriod},
		{path: "ram:InvoiceReferencedDocument", begin: addPreceding},
		{path: "ram:InvoiceReferencedDocument/ram:IssuerAssignedID", to: func(b *builder) any { return &b.preceding().Number }},
	},
	withPrefix("ram:PayeeTradeParty", ciiParty),
	ciiRuledDate("BR-29", "ram:BillingSpecifiedPeriod/ram:StartDateTime", func(b *builder) any { return &b.period.Start }),
	ciiRuledDate("BR-29", "ram:BillingSpecifiedPeriod/ram:EndDateTime", func(b *builder) any { return &b.period.End }),
	ciiDate("ram:InvoiceReferencedDocument/ram:FormattedIssueDateTime", func(b *builder) any { return &b.preceding().Date }),
)

// ciiPayment maps payment terms and means of payment.
var ciiPayment = join([]row{
	{
		path: "ram:SpecifiedTradePaymentTerms/ram:Description", to: func(b *builder) any { return &b.doc.PaymentTerms },
		also: joined(func(b *builder) *string { return &b.doc.PaymentTerms }),
	},
	{path: "ram:SpecifiedTradePaymentTerms/ram:DirectDebitMandateID", to: func(b *builder) any { return &b.doc.Mandate }},
	{path: "ram:SpecifiedTradeSettlementPaymentMeans", begin: addPayment},
}, ciiDetailDate("ram:SpecifiedTradePaymentTerms/ram:DueDateDateTime", func(b *builder) any { return &b.doc.Due }),
	withPrefix("ram:SpecifiedTradeSettlementPaymentMeans", []row{
		{path: "ram:TypeCode", to: func(b *builder) any { return &b.payment().Code }, end: sameMeans("CII-SR-467")},
		{path: "ram:Information", to: func(b *builder) any { return &b.payment().Text }, end: sameInformation},
		{path: "ram:ApplicableTradeSettlementFinancialCard/ram:ID", to: func(b *builder) any { return &b.payment().Card }},
		{path: "ram:ApplicableTradeSettlementFinancialCard/ram:CardholderName", to: func(b *builder) any { return &b.payment().CardHolder }},
		{path: "ram:PayerPartyDebtorFinancialAccount/ram:IBANID", to: func(b *builder) any { return &b.payment().DebitAccount }},
		{path: "ram:PayeePartyCreditorFinancialAccount", begin: func(b *builder) { b.payment().Transfer = true }},
		{path: "ram:PayeePartyCreditorFinancialAccount/ram:IBANID", to: func(b *builder) any { return &b.payment().Account }},
		{path: "ram:PayeePartyCreditorFinancialAccount/ram:ProprietaryID", to: unlessSet(func(b *builder) *string { return &b.payment().Account })},
		{path: "ram:PayeePartyCreditorFinancialAccount/ram:AccountName", to: func(b *builder) any { return &b.payment().AccountName }},
		{path: "ram:PayeeSpecifiedCreditorFinancialInstitution/ram:BICID", to: func(b *builder) any { return &b.payment().Bank }},
	}),
)

// ciiTaxPoint maps tax point codes of CII (UNTDID 2475) to those of the model (UNTDID 2005).
var ciiTaxPoint = map[string]string{"5": "3", "29": "35", "72": "432"}

// taxPointCode stores the first tax point code, converted to UNTDID 2005.
func taxPointCode(b *builder) {
	if code, ok := ciiTaxPoint[b.flag]; ok {
		b.flag = code
	}
	if b.doc.TaxPointCode == "" {
		b.doc.TaxPointCode = b.flag
	}
	b.flag = ""
}

// addTax appends a tax breakdown.
func addTax(b *builder) { b.doc.Taxes = append(b.doc.Taxes, invoice.Tax{}) }
