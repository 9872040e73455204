package syntax

// ciiTotals maps the tax breakdown, allowances, charges and totals of the document.
var ciiTotals = join(
	[]row{
		{path: "ram:ApplicableTradeTax", begin: addTax, end: breakdownScheme},
		{path: "ram:ApplicableTradeTax/ram:TypeCode", to: schemeOf},
		{path: "ram:SpecifiedTradeAllowanceCharge", begin: func(b *builder) { b.addAllowance(&b.doc.Allowances) }},
	},
	withPrefix("ram:ApplicableTradeTax", join(
		ciiAmount("ram:CalculatedAmount", func(b *builder) any { return &b.taxLine().Amount }),
		ciiAmount("ram:BasisAmount", func(b *builder) any { return &b.taxLine().Base }),
		ciiDate("ram:TaxPointDate", func(b *builder) any { return &b.doc.TaxPoint }),
		[]row{
			{path: "ram:CategoryCode", to: func(b *builder) any { return &b.taxLine().Category }},
			{path: "ram:RateApplicablePercent", to: func(b *builder) any { return &b.taxLine().Rate }},
			{path: "ram:ExemptionReason", to: func(b *builder) any { return &b.taxLine().Reason }},
			{path: "ram:ExemptionReasonCode", to: func(b *builder) any { return &b.taxLine().ReasonCode }},
			{path: "ram:DueDateTypeCode", to: func(b *builder) any { return &b.flag }, end: taxPointCode},
		},
	)),
	withPrefix("ram:SpecifiedTradeAllowanceCharge", ciiAllowance),
	[]row{
		{path: "ram:SpecifiedTradeAllowanceCharge/ram:CategoryTradeTax", end: allowanceScheme},
		{path: "ram:SpecifiedTradeAllowanceCharge/ram:CategoryTradeTax/ram:TypeCode", to: schemeOf},
	},
	withPrefix("ram:SpecifiedTradeSettlementHeaderMonetarySummation", join(
		ciiAmount("ram:LineTotalAmount", func(b *builder) any { return &b.doc.Totals.Lines }),
		ciiAmount("ram:ChargeTotalAmount", func(b *builder) any { return &b.doc.Totals.Charges }),
		ciiAmount("ram:AllowanceTotalAmount", func(b *builder) any { return &b.doc.Totals.Allowances }),
		ciiAmount("ram:TaxBasisTotalAmount", func(b *builder) any { return &b.doc.Totals.Net }),
		ciiAmount("ram:RoundingAmount", func(b *builder) any { return &b.doc.Totals.Rounding }),
		ciiAmount("ram:GrandTotalAmount", func(b *builder) any { return &b.doc.Totals.Gross }),
		ciiAmount("ram:TotalPrepaidAmount", func(b *builder) any { return &b.doc.Totals.Prepaid }),
		ciiAmount("ram:DuePayableAmount", func(b *builder) any { return &b.doc.Totals.Payable }),
		[]row{
			{path: "ram:TaxTotalAmount", begin: addTaxTotal, to: func(b *builder) any { return &b.taxTotal().amount }},
			{path: "ram:TaxTotalAmount@currencyID", to: func(b *builder) any { return &b.taxTotal().currency }},
		},
	)),
)

// ciiAllowance maps the elements of an allowance or charge.
var ciiAllowance = join(
	[]row{
		{path: "ram:ChargeIndicator/udt:Indicator", to: func(b *builder) any { return &b.allowance.Charge }},
		{path: "ram:CalculationPercent", to: func(b *builder) any { return &b.allowance.Percent }},
		{path: "ram:ReasonCode", to: func(b *builder) any { return &b.allowance.Code }},
		{path: "ram:Reason", to: func(b *builder) any { return &b.allowance.Reason }},
		{path: "ram:CategoryTradeTax/ram:CategoryCode", to: func(b *builder) any { return &b.allowance.Category }},
		{path: "ram:CategoryTradeTax/ram:RateApplicablePercent", to: func(b *builder) any { return &b.allowance.Rate }},
	},
	ciiAmount("ram:ActualAmount", func(b *builder) any { return &b.allowance.Amount }),
	ciiAmount("ram:BasisAmount", func(b *builder) any { return &b.allowance.Base }),
)

// ciiLine maps the elements of a line, relative to its element.
var ciiLine = join(
	[]row{
		{path: "", begin: addLine, end: endLine},
		{path: "ram:AssociatedDocumentLineDocument/ram:LineID", to: func(b *builder) any { return &b.line().ID }},
		// nested lines: neither EN 16931 nor the extension defines which sums include them
		{path: "ram:AssociatedDocumentLineDocument/ram:ParentLineID", to: func(b *builder) any { return &b.flag }, end: subLines},
		{
			path: "ram:AssociatedDocumentLineDocument/ram:IncludedNote/ram:Content", to: func(b *builder) any { return &b.line().Note },
			also: joined(func(b *builder) *string { return &b.line().Note }),
		},
		{path: "ram:SpecifiedLineTradeDelivery/ram:BilledQuantity", to: func(b *builder) any { return &b.line().Quantity }},
		{path: "ram:SpecifiedLineTradeDelivery/ram:BilledQuantity@unitCode", to: func(b *builder) any { return &b.line().Unit }},
	},
	withPrefix("ram:SpecifiedTradeProduct", ciiProduct),
	withPrefix("ram:SpecifiedLineTradeAgreement", join(
		ciiAmount("ram:GrossPriceProductTradePrice/ram:ChargeAmount", func(b *builder) any { return &b.line().GrossPrice }),
		ciiAmount("ram:GrossPriceProductTradePrice/ram:AppliedTradeAllowanceCharge/ram:ActualAmount",
			func(b *builder) any { return &b.line().Discount }),
		ciiAmount("ram:NetPriceProductTradePrice/ram:ChargeAmount", func(b *builder) any { return &b.line().Price }),
		[]row{
			{path: "ram:BuyerOrderReferencedDocument/ram:LineID", to: func(b *builder) any { return &b.line().OrderLine }},
			{path: "ram:GrossPriceProductTradePrice/ram:BasisQuantity", to: func(b *builder) any { return &b.line().GrossBaseQuantity }},
			{path: "ram:GrossPriceProductTradePrice/ram:BasisQuantity@unitCode", to: func(b *builder) any { return &b.line().GrossBaseUnit }},
			{path: "ram:NetPriceProductTradePrice/ram:BasisQuantity", to: func(b *builder) any { return &b.line().BaseQuantity }},
			{path: "ram:NetPriceProductTradePrice/ram:BasisQuantity@unitCode", to: func(b *builder) any { return &b.line().BaseUnit }},
		},
	)),
	withPrefix("ram:SpecifiedLineTradeSettlement", join(
		[]row{
			{path: "ram:ApplicableTradeTax", end: lineScheme},
			{path: "ram:ApplicableTradeTax/ram:TypeCode", to: schemeOf},
			{path: "ram:ApplicableTradeTax/ram:CategoryCode", to: func(b *builder) any { return &b.line().Category }},
			{path: "ram:ApplicableTradeTax/ram:RateApplicablePercent", to: func(b *builder) any { return &b.line().Rate }},
			{path: "ram:BillingSpecifiedPeriod", begin: linePeriod},
			{path: "ram:SpecifiedTradeAllowanceCharge", begin: func(b *builder) { b.addAllowance(&b.line().Allowances) }},
			{path: "ram:AdditionalReferencedDocument", begin: newReference, end: ciiLineObject},
			{path: "ram:AdditionalReferencedDocument/ram:IssuerAssignedID", to: func(b *builder) any { return &b.ref.attachment.ID }},
			{path: "ram:AdditionalReferencedDocument/ram:TypeCode", to: func(b *builder) any { return &b.ref.kind }},
			{path: "ram:AdditionalReferencedDocument/ram:ReferenceTypeCode", to: func(b *builder) any { return &b.ref.scheme }},
			{path: "ram:ReceivableSpecifiedTradeAccountingAccount/ram:ID", to: func(b *builder) any { return &b.line().Accounting }},
		},
		withPrefix("ram:SpecifiedTradeAllowanceCharge", ciiAllowance),
		ciiRuledDate("BR-30", "ram:BillingSpecifiedPeriod/ram:StartDateTime", func(b *builder) any { return &b.period.Start }),
		ciiRuledDate("BR-30", "ram:BillingSpecifiedPeriod/ram:EndDateTime", func(b *builder) any { return &b.period.End }),
		ciiAmount("ram:SpecifiedTradeSettlementLineMonetarySummation/ram:LineTotalAmount", func(b *builder) any { return &b.line().Net }),
	)),
)

// ciiProduct maps the elements of an item.
var ciiProduct = []row{
	{path: "ram:GlobalID", to: func(b *builder) any { return &b.line().StandardItem.ID }},
	{path: "ram:GlobalID@schemeID", to: func(b *builder) any { return &b.line().StandardItem.Scheme }},
	{path: "ram:SellerAssignedID", to: func(b *builder) any { return &b.line().SellerItem }},
	{path: "ram:BuyerAssignedID", to: func(b *builder) any { return &b.line().BuyerItem }},
	{path: "ram:Name", to: func(b *builder) any { return &b.line().Name }},
	{
		path: "ram:Description", to: func(b *builder) any { return &b.line().Description },
		also: joined(func(b *builder) *string { return &b.line().Description }),
	},
	{path: "ram:ApplicableProductCharacteristic", begin: addAttribute},
	{path: "ram:ApplicableProductCharacteristic/ram:Description", to: func(b *builder) any { return &b.attribute().Name }},
	{path: "ram:ApplicableProductCharacteristic/ram:Value", to: func(b *builder) any { return &b.attribute().Value }},
	{path: "ram:DesignatedProductClassification/ram:ClassCode", begin: addClass, to: func(b *builder) any { return &b.class().Code }},
	{path: "ram:DesignatedProductClassification/ram:ClassCode@listID", to: func(b *builder) any { return &b.class().Scheme }},
	{path: "ram:DesignatedProductClassification/ram:ClassCode@listVersionID", to: func(b *builder) any { return &b.class().Version }},
	{path: "ram:OriginTradeCountry/ram:ID", to: func(b *builder) any { return &b.line().Origin }},
}

// subLines marks a document with nested lines as unsupported.
func subLines(b *builder) {
	if b.flag != "" {
		b.unsupported, b.flag = "lines within lines in CII", ""
	}
}
