package syntax

import (
	"math"
	"slices"
	"strings"
)

// ublOccurrences returns the rules of EN 16931-3-2 on the number of occurrences of elements
// (UBL-SR).
func ublOccurrences() []occurrence {
	const seller, buyer = "cac:AccountingSupplierParty/cac:Party/", "cac:AccountingCustomerParty/cac:Party/"
	return slices.Concat(
		atMostOnce("",
			"UBL-SR-01", "cac:ContractDocumentReference/cbc:ID",
			"UBL-SR-02", "cac:ReceiptDocumentReference/cbc:ID",
			"UBL-SR-03", "cac:DespatchDocumentReference/cbc:ID",
			"UBL-SR-05", "cac:PaymentTerms/cbc:Note",
			"UBL-SR-08", "cac:InvoicePeriod",
			"UBL-SR-09", seller+"cac:PartyLegalEntity/cbc:RegistrationName",
			"UBL-SR-10", seller+"cac:PartyName/cbc:Name",
			"UBL-SR-11", seller+"cac:PartyLegalEntity/cbc:CompanyID",
			"UBL-SR-14", seller+"cac:PartyLegalEntity/cbc:CompanyLegalForm",
			"UBL-SR-15", buyer+"cac:PartyLegalEntity/cbc:RegistrationName",
			"UBL-SR-16", buyer+"cac:PartyIdentification/cbc:ID",
			"UBL-SR-17", buyer+"cac:PartyLegalEntity/cbc:CompanyID",
			"UBL-SR-24", "cac:Delivery",
			"UBL-SR-39", "cac:ProjectReference/cbc:ID",
			"UBL-SR-40", buyer+"cac:PartyName/cbc:Name",
			"UBL-SR-45", "cac:PaymentMeans/cbc:PaymentDueDate",
			"UBL-SR-49", "cac:InvoicePeriod/cbc:DescriptionCode",
			"UBL-SR-54", "cac:PaymentMeans/cac:CardAccount",
			"UBL-SR-55", "cac:PaymentMeans/cac:PaymentMandate",
			"UBL-SR-56", "cac:OriginatorDocumentReference/cbc:ID"),
		[]occurrence{{rule: "UBL-SR-42", scope: strings.TrimSuffix(seller, "/"), path: "cac:PartyTaxScheme", most: 2}},
		atMostOnce("cac:BillingReference", "UBL-SR-06", "cac:InvoiceDocumentReference"),
		[]occurrence{{rule: "BR-55", scope: "cac:BillingReference", path: "cac:InvoiceDocumentReference/cbc:ID", most: math.MaxInt32 - 1, least: true}},
		atMostOnce("cac:PayeeParty", "UBL-SR-19", "cac:PartyName/cbc:Name", "UBL-SR-21", "cac:PartyLegalEntity/cbc:CompanyID"),
		atMostOnce("cac:TaxRepresentativeParty", "UBL-SR-22", "cac:PartyName/cbc:Name", "UBL-SR-23", "cac:PartyTaxScheme/cbc:CompanyID"),
		atMostOnce("cac:Delivery", "UBL-SR-25", "cac:DeliveryParty/cac:PartyName/cbc:Name"),
		atMostOnce("cac:PaymentMeans", "UBL-SR-26", "cbc:PaymentID", "UBL-SR-27", "cbc:PaymentMeansCode", "UBL-SR-28", "cac:PaymentMandate/cbc:ID"),
		saysWhich("cac:AllowanceCharge"),
		atMostOnce("cac:AllowanceCharge", "UBL-SR-30", "cbc:AllowanceChargeReason"),
		atMostOnce("cac:TaxTotal/cac:TaxSubtotal", "UBL-SR-32", "cac:TaxCategory/cbc:TaxExemptionReason"),
		atMostOnce("cac:AdditionalDocumentReference", "UBL-SR-33", "cbc:DocumentDescription"),
		ublLineOccurrences("cac:InvoiceLine"), ublLineOccurrences("cac:CreditNoteLine"), ublAddressOccurrences(seller, buyer),
	)
}

// saysWhich returns the rule SD-08: an allowance or charge must contain ChargeIndicator, which
// tells the two apart.
func saysWhich(scope string) []occurrence {
	return []occurrence{{rule: "SD-08", scope: scope, path: "cbc:ChargeIndicator", most: math.MaxInt32 - 1, least: true}}
}

// ublLineOccurrences returns the occurrence rules of a line at a path.
func ublLineOccurrences(line string) []occurrence {
	return slices.Concat(
		atMostOnce(line,
			"UBL-SR-34", "cbc:Note",
			"UBL-SR-35", "cac:OrderLineReference/cbc:LineID",
			"UBL-SR-36", "cac:InvoicePeriod",
			"UBL-SR-37", "cac:Price/cac:AllowanceCharge/cbc:Amount",
			"UBL-SR-50", "cac:Item/cbc:Description",
			"UBL-SR-52", "cac:DocumentReference"),
		[]occurrence{{rule: "UBL-SR-48", scope: line, path: "cac:Item/cac:ClassifiedTaxCategory", most: 1, least: true}},
		saysWhich(line+"/cac:AllowanceCharge"),
		atMostOnce(line+"/cac:AllowanceCharge", "UBL-SR-30", "cbc:AllowanceChargeReason"))
}

// ublAddressOccurrences returns the occurrence rules of all addresses.
func ublAddressOccurrences(seller, buyer string) (table []occurrence) {
	for _, address := range []string{
		seller + "cac:PostalAddress", buyer + "cac:PostalAddress", "cac:PayeeParty/cac:PostalAddress",
		"cac:TaxRepresentativeParty/cac:PostalAddress", "cac:Delivery/cac:DeliveryLocation/cac:Address",
	} {
		table = append(table, atMostOnce(address, "UBL-SR-51", "cac:AddressLine")...)
	}
	return table
}
