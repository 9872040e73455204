package syntax

import (
	"sync"

	"example.org/smartdrive/internal/intake/invoice"
)

// Namespaces of UBL 2.1, with the binding of EN 16931-3-2, and the prefixes that paths use for
// them. Invoice and CreditNote share one table.

var (
	// ublSpaces lists the namespaces of UBL in the order of ublPrefixes.
	ublSpaces = []string{
		"urn:oasis:names:specification:ubl:schema:xsd:Invoice-2",
		"urn:oasis:names:specification:ubl:schema:xsd:CreditNote-2",
		"urn:oasis:names:specification:ubl:schema:xsd:CommonAggregateComponents-2",
		"urn:oasis:names:specification:ubl:schema:xsd:CommonBasicComponents-2",
	}
	// ublPrefixes lists the prefixes that paths of UBL elements use.
	ublPrefixes = []string{"inv", "cn", "cac", "cbc"}
)

// Indexes of the root elements' namespaces in ublSpaces, from 1.
const (
	spaceUBLInvoice    = 1
	spaceUBLCreditNote = 2
)

// ublTree returns the common tree of Invoice and CreditNote, whose specific elements have different
// names.
var ublTree = sync.OnceValue(func() *node {
	root := grow(ublPrefixes, ublHead, ublReferences, ublParties, ublPayment, ublTotals,
		withPrefix("cac:InvoiceLine", ublLine), withPrefix("cac:CreditNoteLine", ublLine))
	// XRechnung extension: nested lines
	sub := grow(ublPrefixes, withPrefix("cac:SubInvoiceLine", ublSubLine())).find("cac:SubInvoiceLine")
	sub.children["SubInvoiceLine"] = sub
	root.find("cac:InvoiceLine").children["SubInvoiceLine"] = sub
	root.limit(ublPrefixes, ublOccurrences())
	return root
})

// ublHead maps the elements at the beginning of the document.
var ublHead = []row{
	{path: "cbc:CustomizationID", to: func(b *builder) any { return &b.doc.Profile }},
	{path: "cbc:ProfileID", to: func(b *builder) any { return &b.doc.Process }},
	{path: "cbc:ID", to: func(b *builder) any { return &b.doc.Number }},
	{path: "cbc:IssueDate", to: func(b *builder) any { return &b.doc.Date }},
	{path: "cbc:DueDate", to: func(b *builder) any { return &b.doc.Due }},
	{path: "cbc:InvoiceTypeCode", to: func(b *builder) any { return &b.doc.Type }},
	{path: "cbc:CreditNoteTypeCode", to: func(b *builder) any { return &b.doc.Type }},
	{path: "cbc:Note", begin: addNote, to: func(b *builder) any { return &b.note().Text }, end: splitNote},
	{path: "cbc:TaxPointDate", to: func(b *builder) any { return &b.doc.TaxPoint }},
	{path: "cbc:DocumentCurrencyCode", to: func(b *builder) any { return &b.doc.Currency }},
	{path: "cbc:TaxCurrencyCode", to: func(b *builder) any { return &b.doc.TaxCurrency }},
	{path: "cbc:AccountingCost", to: func(b *builder) any { return &b.doc.BuyerAccounting }},
	{path: "cbc:BuyerReference", to: func(b *builder) any { return &b.doc.BuyerReference }},
	{path: "cac:InvoicePeriod", begin: docPeriod},
	{path: "cac:InvoicePeriod/cbc:StartDate", to: func(b *builder) any { return &b.period.Start }},
	{path: "cac:InvoicePeriod/cbc:EndDate", to: func(b *builder) any { return &b.period.End }},
	{path: "cac:InvoicePeriod/cbc:DescriptionCode", to: func(b *builder) any { return &b.doc.TaxPointCode }},
	{path: "cac:Delivery", begin: addDelivery},
	{path: "cac:Delivery/cbc:ActualDeliveryDate", to: func(b *builder) any { return &b.doc.Delivery.Date }},
	{path: "cac:Delivery/cac:DeliveryLocation/cbc:ID", to: func(b *builder) any { return &b.doc.Delivery.Location.ID }},
	{path: "cac:Delivery/cac:DeliveryLocation/cbc:ID@schemeID", to: func(b *builder) any { return &b.doc.Delivery.Location.Scheme }},
	{path: "cac:Delivery/cac:DeliveryParty/cac:PartyName/cbc:Name", to: func(b *builder) any { return &b.doc.Delivery.Name }},
}

// ublReferences maps the references to other documents.
var ublReferences = join([]row{
	{path: "cac:OrderReference/cbc:ID", to: func(b *builder) any { return &b.doc.PurchaseOrder }},
	{path: "cac:OrderReference/cbc:SalesOrderID", to: func(b *builder) any { return &b.doc.SalesOrder }},
	{path: "cac:BillingReference/cac:InvoiceDocumentReference", begin: addPreceding},
	{path: "cac:BillingReference/cac:InvoiceDocumentReference/cbc:ID", to: func(b *builder) any { return &b.preceding().Number }},
	{path: "cac:BillingReference/cac:InvoiceDocumentReference/cbc:IssueDate", to: func(b *builder) any { return &b.preceding().Date }},
	{path: "cac:DespatchDocumentReference/cbc:ID", to: func(b *builder) any { return &b.doc.Despatch }},
	{path: "cac:ReceiptDocumentReference/cbc:ID", to: func(b *builder) any { return &b.doc.Receipt }},
	{path: "cac:OriginatorDocumentReference/cbc:ID", to: func(b *builder) any { return &b.doc.Tender }},
	{path: "cac:ContractDocumentReference/cbc:ID", to: func(b *builder) any { return &b.doc.Contract }},
	{path: "cac:ProjectReference/cbc:ID", to: func(b *builder) any { return &b.doc.Project }},
	// a credit note has no ProjectReference: there, type 50 is the project (EN 16931-3-2,
	// BT-11)
	{path: "cac:AdditionalDocumentReference", begin: newReference, end: func(b *builder) { b.addReference(&b.doc.Project) }},
}, withPrefix("cac:AdditionalDocumentReference", []row{
	{path: "cbc:ID", to: func(b *builder) any { return &b.ref.attachment.ID }},
	{path: "cbc:ID@schemeID", to: func(b *builder) any { return &b.ref.scheme }},
	{path: "cbc:DocumentTypeCode", to: func(b *builder) any { return &b.ref.kind }},
	{path: "cbc:DocumentDescription", to: func(b *builder) any { return &b.ref.attachment.Text }},
	{path: "cac:Attachment/cac:ExternalReference/cbc:URI", to: func(b *builder) any { return &b.ref.attachment.URL }},
	{path: "cac:Attachment/cbc:EmbeddedDocumentBinaryObject", file: true},
	{path: "cac:Attachment/cbc:EmbeddedDocumentBinaryObject@mimeCode", to: func(b *builder) any { return &b.ref.attachment.Type }},
	{path: "cac:Attachment/cbc:EmbeddedDocumentBinaryObject@filename", to: func(b *builder) any { return &b.ref.attachment.Name }},
}))

// ublParties maps the parties and the delivery address.
var ublParties = join(
	[]row{
		{path: "cac:AccountingSupplierParty/cac:Party", begin: func(b *builder) { b.party = &b.doc.Seller }},
		{path: "cac:AccountingCustomerParty/cac:Party", begin: func(b *builder) { b.party = &b.doc.Buyer }},
		{path: "cac:PayeeParty", begin: payee},
		{path: "cac:TaxRepresentativeParty", begin: taxRepresentative},
	},
	withPrefix("cac:AccountingSupplierParty/cac:Party", ublFullParty), withPrefix("cac:AccountingCustomerParty/cac:Party", ublFullParty),
	withPrefix("cac:PayeeParty", ublNamedParty), withPrefix("cac:TaxRepresentativeParty", ublNamedParty),
	withPrefix("cac:Delivery/cac:DeliveryLocation/cac:Address", ublAddress),
	[]row{{path: "cac:Delivery/cac:DeliveryLocation/cac:Address", begin: deliveryAddress}},
)

// ublParty maps the elements that all parties share.
var ublParty = join([]row{
	{path: "cbc:EndpointID", to: func(b *builder) any { return &b.party.Endpoint.ID }},
	{path: "cbc:EndpointID@schemeID", to: func(b *builder) any { return &b.party.Endpoint.Scheme }},
	{path: "cac:PartyIdentification/cbc:ID", begin: newID, to: func(b *builder) any { return &b.id.ID }, end: (*builder).endPartyID},
	{path: "cac:PartyIdentification/cbc:ID@schemeID", to: func(b *builder) any { return &b.id.Scheme }},
	{path: "cac:PostalAddress", begin: partyAddress},
	{path: "cac:PartyTaxScheme", begin: newTax, end: endTaxUBL},
	{path: "cac:PartyTaxScheme/cbc:CompanyID", to: func(b *builder) any { return &b.tax.id }},
	{path: "cac:PartyTaxScheme/cac:TaxScheme/cbc:ID", to: func(b *builder) any { return &b.tax.scheme }},
	{path: "cac:PartyLegalEntity/cbc:CompanyID", to: func(b *builder) any { return &b.party.Legal.ID }},
	{path: "cac:PartyLegalEntity/cbc:CompanyID@schemeID", to: func(b *builder) any { return &b.party.Legal.Scheme }},
	{path: "cac:PartyLegalEntity/cbc:CompanyLegalForm", to: func(b *builder) any { return &b.party.LegalInfo }},
	{path: "cac:Contact", begin: partyContact},
	{path: "cac:Contact/cbc:Name", to: func(b *builder) any { return &b.party.Contact.Name }},
	{path: "cac:Contact/cbc:Telephone", to: func(b *builder) any { return &b.party.Contact.Phone }},
	{path: "cac:Contact/cbc:ElectronicMail", to: func(b *builder) any { return &b.party.Contact.Email }},
}, withPrefix("cac:PostalAddress", ublAddress))

// Parties differ in their name: the registered name for seller and buyer, the only name for payee
// and tax representative.
var (
	ublFullParty = join(ublParty, []row{
		{path: "cac:PartyName/cbc:Name", to: func(b *builder) any { return &b.party.TradeName }},
		{path: "cac:PartyLegalEntity/cbc:RegistrationName", to: func(b *builder) any { return &b.party.Name }},
	})
	ublNamedParty = join(ublParty, []row{{path: "cac:PartyName/cbc:Name", to: func(b *builder) any { return &b.party.Name }}})
)

// ublAddress maps the elements of a postal address.
var ublAddress = []row{
	{path: "cbc:StreetName", to: func(b *builder) any { return &b.address.Line1 }},
	{path: "cbc:AdditionalStreetName", to: func(b *builder) any { return &b.address.Line2 }},
	{path: "cac:AddressLine/cbc:Line", to: func(b *builder) any { return &b.address.Line3 }},
	{path: "cbc:CityName", to: func(b *builder) any { return &b.address.City }},
	{path: "cbc:PostalZone", to: func(b *builder) any { return &b.address.Zone }},
	{path: "cbc:CountrySubentity", to: func(b *builder) any { return &b.address.Region }},
	{path: "cac:Country/cbc:IdentificationCode", to: func(b *builder) any { return &b.address.Country }},
}

// ublPayment maps means and terms of payment, and third-party amounts.
var ublPayment = []row{
	{path: "cac:PaymentMeans", begin: addPayment},
	{path: "cac:PaymentMeans/cbc:PaymentMeansCode", to: func(b *builder) any { return &b.payment().Code }, end: sameMeans("UBL-SR-47")},
	{path: "cac:PaymentMeans/cbc:PaymentMeansCode@name", to: func(b *builder) any { return &b.payment().Text }},
	{path: "cac:PaymentMeans/cbc:PaymentDueDate", to: func(b *builder) any { return &b.doc.Due }},
	{path: "cac:PaymentMeans/cbc:PaymentID", to: func(b *builder) any { return &b.doc.PaymentReference }, also: recordsBreach("UBL-SR-44")},
	{path: "cac:PaymentMeans/cac:CardAccount/cbc:PrimaryAccountNumberID", to: func(b *builder) any { return &b.payment().Card }},
	{path: "cac:PaymentMeans/cac:CardAccount/cbc:HolderName", to: func(b *builder) any { return &b.payment().CardHolder }},
	{path: "cac:PaymentMeans/cac:PayeeFinancialAccount", begin: func(b *builder) { b.payment().Transfer = true }},
	{path: "cac:PaymentMeans/cac:PayeeFinancialAccount/cbc:ID", to: func(b *builder) any { return &b.payment().Account }},
	{path: "cac:PaymentMeans/cac:PayeeFinancialAccount/cbc:Name", to: func(b *builder) any { return &b.payment().AccountName }},
	{
		path: "cac:PaymentMeans/cac:PayeeFinancialAccount/cac:FinancialInstitutionBranch/cbc:ID",
		to:   func(b *builder) any { return &b.payment().Bank },
	},
	{path: "cac:PaymentMeans/cac:PaymentMandate/cbc:ID", to: func(b *builder) any { return &b.doc.Mandate }},
	{path: "cac:PaymentMeans/cac:PaymentMandate/cac:PayerFinancialAccount/cbc:ID", to: func(b *builder) any { return &b.payment().DebitAccount }},
	{path: "cac:PaymentTerms/cbc:Note", to: func(b *builder) any { return &b.doc.PaymentTerms }},
	{path: "cac:PrepaidPayment", begin: func(b *builder) { b.doc.ThirdParty = append(b.doc.ThirdParty, invoice.Collected{}) }},
	{path: "cac:PrepaidPayment/cbc:ID", to: func(b *builder) any { return &b.collected().Type }},
	{path: "cac:PrepaidPayment/cbc:PaidAmount", to: func(b *builder) any { return &b.collected().Amount }, end: (*builder).ublCurrency},
	{path: "cac:PrepaidPayment/cbc:PaidAmount@currencyID", to: currencyOf},
	{path: "cac:PrepaidPayment/cbc:InstructionID", to: func(b *builder) any { return &b.collected().Text }},
}
