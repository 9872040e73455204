package syntax

import (
	"slices"

	"example.org/smartdrive/internal/intake/invoice"
)

// ublTotals maps the tax breakdown, allowances, charges and totals of the document.
var ublTotals = join(
	[]row{
		{path: "cac:AllowanceCharge", begin: func(b *builder) { b.addAllowance(&b.doc.Allowances) }},
		{path: "cac:TaxTotal/cbc:TaxAmount", begin: addTaxTotal, to: func(b *builder) any { return &b.taxTotal().amount }},
		{path: "cac:TaxTotal/cbc:TaxAmount@currencyID", to: func(b *builder) any { return &b.taxTotal().currency }},
		{path: "cac:TaxTotal/cac:TaxSubtotal", begin: func(b *builder) { b.doc.Taxes = append(b.doc.Taxes, invoice.Tax{}) }},
	},
	withPrefix("cac:AllowanceCharge", ublAllowance),
	[]row{
		{path: "cac:AllowanceCharge/cac:TaxCategory", end: allowanceScheme},
		{path: "cac:AllowanceCharge/cac:TaxCategory/cac:TaxScheme/cbc:ID", to: schemeOf},
		{path: "cac:TaxTotal/cac:TaxSubtotal/cac:TaxCategory", end: breakdownScheme},
		{path: "cac:TaxTotal/cac:TaxSubtotal/cac:TaxCategory/cac:TaxScheme/cbc:ID", to: schemeOf},
	},
	withPrefix("cac:TaxTotal/cac:TaxSubtotal", join(
		ublAmount("cbc:TaxableAmount", func(b *builder) any { return &b.taxLine().Base }),
		ublAmount("cbc:TaxAmount", func(b *builder) any { return &b.taxLine().Amount }),
		[]row{
			{path: "cac:TaxCategory/cbc:ID", to: func(b *builder) any { return &b.taxLine().Category }},
			{path: "cac:TaxCategory/cbc:Percent", to: func(b *builder) any { return &b.taxLine().Rate }},
			{path: "cac:TaxCategory/cbc:TaxExemptionReason", to: func(b *builder) any { return &b.taxLine().Reason }},
			{path: "cac:TaxCategory/cbc:TaxExemptionReasonCode", to: func(b *builder) any { return &b.taxLine().ReasonCode }},
		},
	)),
	withPrefix("cac:LegalMonetaryTotal", join(
		ublAmount("cbc:LineExtensionAmount", func(b *builder) any { return &b.doc.Totals.Lines }),
		ublAmount("cbc:TaxExclusiveAmount", func(b *builder) any { return &b.doc.Totals.Net }),
		ublAmount("cbc:TaxInclusiveAmount", func(b *builder) any { return &b.doc.Totals.Gross }),
		ublAmount("cbc:AllowanceTotalAmount", func(b *builder) any { return &b.doc.Totals.Allowances }),
		ublAmount("cbc:ChargeTotalAmount", func(b *builder) any { return &b.doc.Totals.Charges }),
		ublAmount("cbc:PrepaidAmount", func(b *builder) any { return &b.doc.Totals.Prepaid }),
		ublAmount("cbc:PayableRoundingAmount", func(b *builder) any { return &b.doc.Totals.Rounding }),
		ublAmount("cbc:PayableAmount", func(b *builder) any { return &b.doc.Totals.Payable }),
	)),
)

// ublAmount maps an amount with its mandatory currency.
func ublAmount(path string, to place) []row {
	return []row{{path: path, to: to, end: (*builder).ublCurrency}, {path: path + "@currencyID", to: currencyOf}}
}

// ublAllowance maps the elements of an allowance or charge.
var ublAllowance = join(
	[]row{
		{path: "cbc:ChargeIndicator", to: func(b *builder) any { return &b.allowance.Charge }},
		{path: "cbc:AllowanceChargeReasonCode", to: func(b *builder) any { return &b.allowance.Code }},
		{path: "cbc:AllowanceChargeReason", to: func(b *builder) any { return &b.allowance.Reason }},
		{path: "cbc:MultiplierFactorNumeric", to: func(b *builder) any { return &b.allowance.Percent }},
		{path: "cac:TaxCategory/cbc:ID", to: func(b *builder) any { return &b.allowance.Category }},
		{path: "cac:TaxCategory/cbc:Percent", to: func(b *builder) any { return &b.allowance.Rate }},
	},
	ublAmount("cbc:Amount", func(b *builder) any { return &b.allowance.Amount }),
	ublAmount("cbc:BaseAmount", func(b *builder) any { return &b.allowance.Base }),
)

// ublLine maps the elements of a line of an invoice or a credit note, relative to its element.
var ublLine = join(
	[]row{
		{path: "", begin: addLine, end: endLine},
		{path: "cbc:ID", to: func(b *builder) any { return &b.line().ID }},
		{path: "cbc:Note", to: func(b *builder) any { return &b.line().Note }},
		{path: "cbc:InvoicedQuantity", to: func(b *builder) any { return &b.line().Quantity }},
		{path: "cbc:InvoicedQuantity@unitCode", to: func(b *builder) any { return &b.line().Unit }},
		{path: "cbc:CreditedQuantity", to: func(b *builder) any { return &b.line().Quantity }},
		{path: "cbc:CreditedQuantity@unitCode", to: func(b *builder) any { return &b.line().Unit }},
		{path: "cbc:AccountingCost", to: func(b *builder) any { return &b.line().Accounting }},
		{path: "cac:InvoicePeriod", begin: linePeriod},
		{path: "cac:InvoicePeriod/cbc:StartDate", to: func(b *builder) any { return &b.period.Start }},
		{path: "cac:InvoicePeriod/cbc:EndDate", to: func(b *builder) any { return &b.period.End }},
		{path: "cac:OrderLineReference/cbc:LineID", to: func(b *builder) any { return &b.line().OrderLine }},
		{path: "cac:DocumentReference", begin: newReference, end: lineObject},
		{path: "cac:DocumentReference/cbc:ID", to: func(b *builder) any { return &b.ref.attachment.ID }},
		{path: "cac:DocumentReference/cbc:ID@schemeID", to: func(b *builder) any { return &b.ref.scheme }},
		{path: "cac:DocumentReference/cbc:DocumentTypeCode", to: func(b *builder) any { return &b.ref.kind }},
		{path: "cac:AllowanceCharge", begin: func(b *builder) { b.addAllowance(&b.line().Allowances) }},
	},
	ublAmount("cbc:LineExtensionAmount", func(b *builder) any { return &b.line().Net }),
	withPrefix("cac:AllowanceCharge", ublAllowance),
	withPrefix("cac:Item", ublItem),
	withPrefix("cac:Price", join(
		ublAmount("cbc:PriceAmount", func(b *builder) any { return &b.line().Price }),
		ublAmount("cac:AllowanceCharge/cbc:Amount", func(b *builder) any { return &b.line().Discount }),
		ublAmount("cac:AllowanceCharge/cbc:BaseAmount", func(b *builder) any { return &b.line().GrossPrice }),
		[]row{
			{path: "cbc:BaseQuantity", to: func(b *builder) any { return &b.line().BaseQuantity }},
			{path: "cbc:BaseQuantity@unitCode", to: func(b *builder) any { return &b.line().BaseUnit }},
		},
	)),
)

// ublItem maps the elements of an item.
var ublItem = []row{
	{path: "cbc:Name", to: func(b *builder) any { return &b.line().Name }},
	{path: "cbc:Description", to: func(b *builder) any { return &b.line().Description }},
	{path: "cac:SellersItemIdentification/cbc:ID", to: func(b *builder) any { return &b.line().SellerItem }},
	{path: "cac:BuyersItemIdentification/cbc:ID", to: func(b *builder) any { return &b.line().BuyerItem }},
	{path: "cac:StandardItemIdentification/cbc:ID", to: func(b *builder) any { return &b.line().StandardItem.ID }},
	{path: "cac:StandardItemIdentification/cbc:ID@schemeID", to: func(b *builder) any { return &b.line().StandardItem.Scheme }},
	{path: "cac:OriginCountry/cbc:IdentificationCode", to: func(b *builder) any { return &b.line().Origin }},
	{path: "cac:CommodityClassification/cbc:ItemClassificationCode", begin: addClass, to: func(b *builder) any { return &b.class().Code }},
	{path: "cac:CommodityClassification/cbc:ItemClassificationCode@listID", to: func(b *builder) any { return &b.class().Scheme }},
	{path: "cac:CommodityClassification/cbc:ItemClassificationCode@listVersionID", to: func(b *builder) any { return &b.class().Version }},
	{path: "cac:ClassifiedTaxCategory/cbc:ID", to: func(b *builder) any { return &b.line().Category }},
	{path: "cac:ClassifiedTaxCategory/cbc:Percent", to: func(b *builder) any { return &b.line().Rate }},
	{path: "cac:ClassifiedTaxCategory", end: lineScheme},
	{path: "cac:ClassifiedTaxCategory/cac:TaxScheme/cbc:ID", to: schemeOf},
	{path: "cac:AdditionalItemProperty", begin: addAttribute},
	{path: "cac:AdditionalItemProperty/cbc:Name", to: func(b *builder) any { return &b.attribute().Name }},
	{path: "cac:AdditionalItemProperty/cbc:Value", to: func(b *builder) any { return &b.attribute().Value }},
}

// ublSubLine maps the elements of a nested line.
func ublSubLine() []row {
	rows := slices.Clone(ublLine)
	rows[0].begin = addSubLine
	return rows
}
