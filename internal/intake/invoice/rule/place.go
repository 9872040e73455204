package rule

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"example.org/smartdrive/internal/intake/invoice"
)

// Terms returns the business terms and groups of EN 16931 that a rule's text names, such as BT-131.
func Terms(text string) []string { return term.FindAllString(text, -1) }

// term matches a business term or group.
var term = regexp.MustCompile(`\bB[TG]-(DEX-)?\d+`)

// placeIn returns the XPath, in the document's file, of the first term that a rule's text names.
// The argument n is the number of the line, breakdown or allowance, from 1; 0: none. The result is
// "" if unknown.
func placeIn(d *invoice.Document, text string, n int) string {
	all := Terms(text)
	if len(all) == 0 {
		return ""
	}
	return PlaceOf(d, all[0], n)
}

// PlaceOf returns the XPath of a term in the document's file, whether or not it is present there;
// "" if unknown. The argument n selects the line, breakdown or allowance, from 1; 0: none.
func PlaceOf(d *invoice.Document, term string, n int) string {
	at, root := ublPlaces(), "/Invoice/"
	switch d.Written.Syntax {
	case invoice.CIISyntax:
		at, root = ciiPlaces(), "/rsm:CrossIndustryInvoice/"
	case invoice.UBLSyntax:
		if d.Written.CreditNote {
			root = "/CreditNote/"
		}
	default:
		return ""
	}
	place, known := at[term]
	if !known {
		return ""
	}
	if d.Written.CreditNote {
		place = creditNames.Replace(place)
	}
	which := ""
	if n > 0 {
		which = fmt.Sprintf("[%d]", n)
	}
	return root + strings.Replace(place, "#", which, 1)
}

// creditNames maps element names of a UBL invoice to those of a credit note.
var creditNames = strings.NewReplacer("cac:InvoiceLine", "cac:CreditNoteLine", "cbc:InvoicedQuantity", "cbc:CreditedQuantity", "cbc:InvoiceTypeCode", "cbc:CreditNoteTypeCode")

// placesOf parses a table of terms and their paths. In a path, "#" is the position of the number n,
// and a word in braces stands for the path of that word in below.
func placesOf(table string, below map[string]string) map[string]string {
	places := map[string]string{}
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		place := fields[len(fields)-1]
		for word, at := range below {
			place = strings.Replace(place, "{"+word+"}", at, 1)
		}
		for _, id := range fields[:len(fields)-1] {
			places[id] = place
		}
	}
	return places
}

// ublPlaces returns the paths of terms in UBL (EN 16931-3-2).
var ublPlaces = sync.OnceValue(func() map[string]string {
	return placesOf(ublTable, map[string]string{
		"seller": "cac:AccountingSupplierParty/cac:Party", "buyer": "cac:AccountingCustomerParty/cac:Party",
		"tax": "cac:TaxTotal/cac:TaxSubtotal#", "line": "cac:InvoiceLine#",
	})
})

// ublTable maps terms to paths in a UBL invoice; see placesOf.
const ublTable = `
	BT-1 cbc:ID
	BT-2 cbc:IssueDate
	BT-3 cbc:InvoiceTypeCode
	BT-5 cbc:DocumentCurrencyCode
	BT-6 cbc:TaxCurrencyCode
	BT-7 cbc:TaxPointDate
	BT-8 cac:InvoicePeriod/cbc:DescriptionCode
	BT-9 cbc:DueDate
	BT-10 cbc:BuyerReference
	BT-11 cac:ProjectReference/cbc:ID
	BT-12 cac:ContractDocumentReference/cbc:ID
	BT-13 cac:OrderReference/cbc:ID
	BT-15 cac:ReceiptDocumentReference/cbc:ID
	BT-16 cac:DespatchDocumentReference/cbc:ID
	BT-17 cac:OriginatorDocumentReference/cbc:ID
	BT-18 BT-122 BT-123 BT-124 BT-125 cac:AdditionalDocumentReference
	BT-19 cbc:AccountingCost
	BT-20 cac:PaymentTerms/cbc:Note
	BT-21 BT-22 cbc:Note
	BT-23 cbc:ProfileID
	BT-24 cbc:CustomizationID
	BG-3 BT-25 cac:BillingReference/cac:InvoiceDocumentReference/cbc:ID
	BT-27 {seller}/cac:PartyLegalEntity/cbc:RegistrationName
	BT-28 {seller}/cac:PartyName/cbc:Name
	BT-29 {seller}/cac:PartyIdentification/cbc:ID
	BT-30 {seller}/cac:PartyLegalEntity/cbc:CompanyID
	BT-31 BT-32 {seller}/cac:PartyTaxScheme/cbc:CompanyID
	BT-33 {seller}/cac:PartyLegalEntity/cbc:CompanyLegalForm
	BT-34 {seller}/cbc:EndpointID
	BG-5 {seller}/cac:PostalAddress
	BT-37 {seller}/cac:PostalAddress/cbc:CityName
	BT-38 {seller}/cac:PostalAddress/cbc:PostalZone
	BT-40 {seller}/cac:PostalAddress/cac:Country/cbc:IdentificationCode
	BG-6 {seller}/cac:Contact
	BT-41 {seller}/cac:Contact/cbc:Name
	BT-42 {seller}/cac:Contact/cbc:Telephone
	BT-43 {seller}/cac:Contact/cbc:ElectronicMail
	BT-44 {buyer}/cac:PartyLegalEntity/cbc:RegistrationName
	BT-45 {buyer}/cac:PartyName/cbc:Name
	BT-46 {buyer}/cac:PartyIdentification/cbc:ID
	BT-47 {buyer}/cac:PartyLegalEntity/cbc:CompanyID
	BT-48 {buyer}/cac:PartyTaxScheme/cbc:CompanyID
	BT-49 {buyer}/cbc:EndpointID
	BG-8 {buyer}/cac:PostalAddress
	BT-52 {buyer}/cac:PostalAddress/cbc:CityName
	BT-53 {buyer}/cac:PostalAddress/cbc:PostalZone
	BT-55 {buyer}/cac:PostalAddress/cac:Country/cbc:IdentificationCode
	BG-9 {buyer}/cac:Contact
	BT-59 cac:PayeeParty/cac:PartyName/cbc:Name
	BT-60 cac:PayeeParty/cac:PartyIdentification/cbc:ID
	BT-61 cac:PayeeParty/cac:PartyLegalEntity/cbc:CompanyID
	BG-11 cac:TaxRepresentativeParty
	BT-62 cac:TaxRepresentativeParty/cac:PartyName/cbc:Name
	BT-63 cac:TaxRepresentativeParty/cac:PartyTaxScheme/cbc:CompanyID
	BG-12 cac:TaxRepresentativeParty/cac:PostalAddress
	BT-69 cac:TaxRepresentativeParty/cac:PostalAddress/cac:Country/cbc:IdentificationCode
	BG-13 cac:Delivery
	BT-70 cac:Delivery/cac:DeliveryParty/cac:PartyName/cbc:Name
	BT-71 cac:Delivery/cac:DeliveryLocation/cbc:ID
	BT-72 cac:Delivery/cbc:ActualDeliveryDate
	BT-77 cac:Delivery/cac:DeliveryLocation/cac:Address/cbc:CityName
	BT-78 cac:Delivery/cac:DeliveryLocation/cac:Address/cbc:PostalZone
	BT-80 cac:Delivery/cac:DeliveryLocation/cac:Address/cac:Country/cbc:IdentificationCode
	BG-14 cac:InvoicePeriod
	BT-73 cac:InvoicePeriod/cbc:StartDate
	BT-74 cac:InvoicePeriod/cbc:EndDate
	BG-16 cac:PaymentMeans
	BT-81 BT-82 cac:PaymentMeans/cbc:PaymentMeansCode
	BT-83 cac:PaymentMeans/cbc:PaymentID
	BG-17 cac:PaymentMeans/cac:PayeeFinancialAccount
	BT-84 cac:PaymentMeans/cac:PayeeFinancialAccount/cbc:ID
	BG-18 cac:PaymentMeans/cac:CardAccount
	BT-87 cac:PaymentMeans/cac:CardAccount/cbc:PrimaryAccountNumberID
	BG-19 cac:PaymentMeans/cac:PaymentMandate
	BT-89 cac:PaymentMeans/cac:PaymentMandate/cbc:ID
	BT-90 {seller}/cac:PartyIdentification/cbc:ID
	BT-91 cac:PaymentMeans/cac:PaymentMandate/cac:PayerFinancialAccount/cbc:ID
	BT-92 BT-99 cac:AllowanceCharge#/cbc:Amount
	BT-93 BT-100 cac:AllowanceCharge#/cbc:BaseAmount
	BT-95 BT-102 cac:AllowanceCharge#/cac:TaxCategory/cbc:ID
	BT-97 BT-104 cac:AllowanceCharge#/cbc:AllowanceChargeReason
	BT-106 cac:LegalMonetaryTotal/cbc:LineExtensionAmount
	BT-107 cac:LegalMonetaryTotal/cbc:AllowanceTotalAmount
	BT-108 cac:LegalMonetaryTotal/cbc:ChargeTotalAmount
	BT-109 cac:LegalMonetaryTotal/cbc:TaxExclusiveAmount
	BT-110 BT-111 cac:TaxTotal/cbc:TaxAmount
	BT-112 cac:LegalMonetaryTotal/cbc:TaxInclusiveAmount
	BT-113 cac:LegalMonetaryTotal/cbc:PrepaidAmount
	BT-114 cac:LegalMonetaryTotal/cbc:PayableRoundingAmount
	BT-115 cac:LegalMonetaryTotal/cbc:PayableAmount
	BG-23 {tax}
	BT-116 {tax}/cbc:TaxableAmount
	BT-117 {tax}/cbc:TaxAmount
	BT-118 {tax}/cac:TaxCategory/cbc:ID
	BT-119 {tax}/cac:TaxCategory/cbc:Percent
	BT-120 {tax}/cac:TaxCategory/cbc:TaxExemptionReason
	BT-121 {tax}/cac:TaxCategory/cbc:TaxExemptionReasonCode
	BG-25 cac:InvoiceLine#
	BT-126 {line}/cbc:ID
	BT-127 {line}/cbc:Note
	BT-128 {line}/cac:DocumentReference/cbc:ID
	BT-129 BT-130 {line}/cbc:InvoicedQuantity
	BT-131 {line}/cbc:LineExtensionAmount
	BG-26 {line}/cac:InvoicePeriod
	BT-134 {line}/cac:InvoicePeriod/cbc:StartDate
	BT-135 {line}/cac:InvoicePeriod/cbc:EndDate
	BT-136 BT-141 {line}/cac:AllowanceCharge/cbc:Amount
	BT-137 BT-142 {line}/cac:AllowanceCharge/cbc:BaseAmount
	BT-139 BT-144 {line}/cac:AllowanceCharge/cbc:AllowanceChargeReason
	BT-146 {line}/cac:Price/cbc:PriceAmount
	BT-147 {line}/cac:Price/cac:AllowanceCharge/cbc:Amount
	BT-148 {line}/cac:Price/cac:AllowanceCharge/cbc:BaseAmount
	BT-149 BT-150 {line}/cac:Price/cbc:BaseQuantity
	BG-30 BT-151 {line}/cac:Item/cac:ClassifiedTaxCategory/cbc:ID
	BT-153 {line}/cac:Item/cbc:Name
	BT-154 {line}/cac:Item/cbc:Description
	BT-157 {line}/cac:Item/cac:StandardItemIdentification/cbc:ID
	BT-158 {line}/cac:Item/cac:CommodityClassification/cbc:ItemClassificationCode
	BT-159 {line}/cac:Item/cac:OriginCountry/cbc:IdentificationCode
	BT-160 {line}/cac:Item/cac:AdditionalItemProperty/cbc:Name
`

// ciiPlaces returns the paths of terms in CII (EN 16931-3-3).
var ciiPlaces = sync.OnceValue(func() map[string]string { return placesOf(ciiTable, ciiBelow()) })

// ciiTable maps terms to paths in a CII; see placesOf.
const ciiTable = `
	BT-1 rsm:ExchangedDocument/ram:ID
	BT-2 rsm:ExchangedDocument/ram:IssueDateTime/udt:DateTimeString
	BT-3 rsm:ExchangedDocument/ram:TypeCode
	BT-5 {pay}/ram:InvoiceCurrencyCode
	BT-6 {pay}/ram:TaxCurrencyCode
	BT-7 {tax}/ram:TaxPointDate
	BT-8 {tax}/ram:DueDateTypeCode
	BT-9 {pay}/ram:SpecifiedTradePaymentTerms/ram:DueDateDateTime
	BT-10 {deal}/ram:BuyerReference
	BT-11 {deal}/ram:SpecifiedProcuringProject/ram:ID
	BT-12 {deal}/ram:ContractReferencedDocument/ram:IssuerAssignedID
	BT-13 {deal}/ram:BuyerOrderReferencedDocument/ram:IssuerAssignedID
	BT-15 {ship}/ram:ReceivingAdviceReferencedDocument/ram:IssuerAssignedID
	BT-16 {ship}/ram:DespatchAdviceReferencedDocument/ram:IssuerAssignedID
	BT-17 BT-18 BT-122 BT-123 BT-124 BT-125 {deal}/ram:AdditionalReferencedDocument
	BT-20 {pay}/ram:SpecifiedTradePaymentTerms/ram:Description
	BT-21 BT-22 rsm:ExchangedDocument/ram:IncludedNote
	BT-23 rsm:ExchangedDocumentContext/ram:BusinessProcessSpecifiedDocumentContextParameter/ram:ID
	BT-24 rsm:ExchangedDocumentContext/ram:GuidelineSpecifiedDocumentContextParameter/ram:ID
	BG-3 BT-25 {pay}/ram:InvoiceReferencedDocument/ram:IssuerAssignedID
	BT-27 {seller}/ram:Name
	BT-28 {seller}/ram:SpecifiedLegalOrganization/ram:TradingBusinessName
	BT-29 {seller}/ram:ID
	BT-30 {seller}/ram:SpecifiedLegalOrganization/ram:ID
	BT-31 BT-32 {seller}/ram:SpecifiedTaxRegistration/ram:ID
	BT-33 {seller}/ram:Description
	BT-34 {seller}/ram:URIUniversalCommunication/ram:URIID
	BG-5 {seller}/ram:PostalTradeAddress
	BT-37 {seller}/ram:PostalTradeAddress/ram:CityName
	BT-38 {seller}/ram:PostalTradeAddress/ram:PostcodeCode
	BT-40 {seller}/ram:PostalTradeAddress/ram:CountryID
	BG-6 {seller}/ram:DefinedTradeContact
	BT-41 {seller}/ram:DefinedTradeContact/ram:PersonName
	BT-42 {seller}/ram:DefinedTradeContact/ram:TelephoneUniversalCommunication/ram:CompleteNumber
	BT-43 {seller}/ram:DefinedTradeContact/ram:EmailURIUniversalCommunication/ram:URIID
	BT-44 {buyer}/ram:Name
	BT-45 {buyer}/ram:SpecifiedLegalOrganization/ram:TradingBusinessName
	BT-46 {buyer}/ram:ID
	BT-47 {buyer}/ram:SpecifiedLegalOrganization/ram:ID
	BT-48 {buyer}/ram:SpecifiedTaxRegistration/ram:ID
	BT-49 {buyer}/ram:URIUniversalCommunication/ram:URIID
	BG-8 {buyer}/ram:PostalTradeAddress
	BT-52 {buyer}/ram:PostalTradeAddress/ram:CityName
	BT-53 {buyer}/ram:PostalTradeAddress/ram:PostcodeCode
	BT-55 {buyer}/ram:PostalTradeAddress/ram:CountryID
	BG-9 {buyer}/ram:DefinedTradeContact
	BT-59 {pay}/ram:PayeeTradeParty/ram:Name
	BT-60 {pay}/ram:PayeeTradeParty/ram:ID
	BT-61 {pay}/ram:PayeeTradeParty/ram:SpecifiedLegalOrganization/ram:ID
	BG-11 {agent}
	BT-62 {agent}/ram:Name
	BT-63 {agent}/ram:SpecifiedTaxRegistration/ram:ID
	BG-12 {agent}/ram:PostalTradeAddress
	BT-69 {agent}/ram:PostalTradeAddress/ram:CountryID
	BG-13 {ship}
	BT-70 {ship}/ram:ShipToTradeParty/ram:Name
	BT-71 {ship}/ram:ShipToTradeParty/ram:ID
	BT-72 {ship}/ram:ActualDeliverySupplyChainEvent/ram:OccurrenceDateTime
	BT-77 {ship}/ram:ShipToTradeParty/ram:PostalTradeAddress/ram:CityName
	BT-78 {ship}/ram:ShipToTradeParty/ram:PostalTradeAddress/ram:PostcodeCode
	BT-80 {ship}/ram:ShipToTradeParty/ram:PostalTradeAddress/ram:CountryID
	BG-14 {pay}/ram:BillingSpecifiedPeriod
	BT-73 {pay}/ram:BillingSpecifiedPeriod/ram:StartDateTime
	BT-74 {pay}/ram:BillingSpecifiedPeriod/ram:EndDateTime
	BG-16 {means}
	BT-81 {means}/ram:TypeCode
	BT-82 {means}/ram:Information
	BT-83 {pay}/ram:PaymentReference
	BG-17 {means}/ram:PayeePartyCreditorFinancialAccount
	BT-84 {means}/ram:PayeePartyCreditorFinancialAccount/ram:IBANID
	BG-18 {means}/ram:ApplicableTradeSettlementFinancialCard
	BT-87 {means}/ram:ApplicableTradeSettlementFinancialCard/ram:ID
	BG-19 BT-89 {pay}/ram:SpecifiedTradePaymentTerms/ram:DirectDebitMandateID
	BT-90 {pay}/ram:CreditorReferenceID
	BT-91 {means}/ram:PayerPartyDebtorFinancialAccount/ram:IBANID
	BT-92 BT-99 {part}/ram:ActualAmount
	BT-93 BT-100 {part}/ram:BasisAmount
	BT-95 BT-102 {part}/ram:CategoryTradeTax/ram:CategoryCode
	BT-97 BT-104 {part}/ram:Reason
	BT-106 {sums}/ram:LineTotalAmount
	BT-107 {sums}/ram:AllowanceTotalAmount
	BT-108 {sums}/ram:ChargeTotalAmount
	BT-109 {sums}/ram:TaxBasisTotalAmount
	BT-110 BT-111 {sums}/ram:TaxTotalAmount
	BT-112 {sums}/ram:GrandTotalAmount
	BT-113 {sums}/ram:TotalPrepaidAmount
	BT-114 {sums}/ram:RoundingAmount
	BT-115 {sums}/ram:DuePayableAmount
	BG-23 {tax}
	BT-116 {tax}/ram:BasisAmount
	BT-117 {tax}/ram:CalculatedAmount
	BT-118 {tax}/ram:CategoryCode
	BT-119 {tax}/ram:RateApplicablePercent
	BT-120 {tax}/ram:ExemptionReason
	BT-121 {tax}/ram:ExemptionReasonCode
	BG-25 {line}
	BT-126 {line}/ram:AssociatedDocumentLineDocument/ram:LineID
	BT-127 {line}/ram:AssociatedDocumentLineDocument/ram:IncludedNote/ram:Content
	BT-129 BT-130 {line}/ram:SpecifiedLineTradeDelivery/ram:BilledQuantity
	BT-131 {lineSums}/ram:SpecifiedTradeSettlementLineMonetarySummation/ram:LineTotalAmount
	BG-26 {lineSums}/ram:BillingSpecifiedPeriod
	BT-134 {lineSums}/ram:BillingSpecifiedPeriod/ram:StartDateTime
	BT-135 {lineSums}/ram:BillingSpecifiedPeriod/ram:EndDateTime
	BT-136 BT-141 {lineSums}/ram:SpecifiedTradeAllowanceCharge/ram:ActualAmount
	BT-137 BT-142 {lineSums}/ram:SpecifiedTradeAllowanceCharge/ram:BasisAmount
	BT-139 BT-144 {lineSums}/ram:SpecifiedTradeAllowanceCharge/ram:Reason
	BT-146 {price}/ram:NetPriceProductTradePrice/ram:ChargeAmount
	BT-147 {price}/ram:GrossPriceProductTradePrice/ram:AppliedTradeAllowanceCharge/ram:ActualAmount
	BT-148 {price}/ram:GrossPriceProductTradePrice/ram:ChargeAmount
	BT-149 BT-150 {price}/ram:NetPriceProductTradePrice/ram:BasisQuantity
	BG-30 BT-151 {lineSums}/ram:ApplicableTradeTax/ram:CategoryCode
	BT-153 {item}/ram:Name
	BT-154 {item}/ram:Description
	BT-157 {item}/ram:GlobalID
	BT-158 {item}/ram:DesignatedProductClassification/ram:ClassCode
	BT-159 {item}/ram:OriginTradeCountry/ram:ID
	BT-160 {item}/ram:ApplicableProductCharacteristic/ram:Description
`

// ciiBelow returns the paths that words in braces of ciiTable stand for.
func ciiBelow() map[string]string {
	const trade = "rsm:SupplyChainTradeTransaction/ram:"
	const deal, pay, line = trade + "ApplicableHeaderTradeAgreement", trade + "ApplicableHeaderTradeSettlement", trade + "IncludedSupplyChainTradeLineItem#"
	return map[string]string{
		"deal": deal, "pay": pay, "line": line, "ship": trade + "ApplicableHeaderTradeDelivery", "seller": deal + "/ram:SellerTradeParty",
		"buyer": deal + "/ram:BuyerTradeParty", "agent": deal + "/ram:SellerTaxRepresentativeTradeParty", "means": pay + "/ram:SpecifiedTradeSettlementPaymentMeans",
		"part": pay + "/ram:SpecifiedTradeAllowanceCharge#", "sums": pay + "/ram:SpecifiedTradeSettlementHeaderMonetarySummation", "tax": pay + "/ram:ApplicableTradeTax#",
		"lineSums": line + "/ram:SpecifiedLineTradeSettlement", "price": line + "/ram:SpecifiedLineTradeAgreement", "item": line + "/ram:SpecifiedTradeProduct",
	}
}
