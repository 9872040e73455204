package syntax

import (
	"math"
	"slices"
)

// ciiOccurrences returns the rules of EN 16931-3-3 on the number of occurrences of elements
// (CII-SR), limited to those that its validators treat as fatal.
func ciiOccurrences() []occurrence {
	const (
		trade      = "rsm:SupplyChainTradeTransaction/"
		line       = trade + "ram:IncludedSupplyChainTradeLineItem/"
		agreement  = trade + "ram:ApplicableHeaderTradeAgreement/"
		settlement = trade + "ram:ApplicableHeaderTradeSettlement"
		sums       = settlement + "/ram:SpecifiedTradeSettlementHeaderMonetarySummation"
		allowance  = "/ram:SpecifiedTradeAllowanceCharge"
	)
	exactly := func(rule, scope, path string) []occurrence {
		return []occurrence{{rule: rule, scope: scope, path: path, most: 1, least: true}}
	}
	some := func(rule, scope, path string) []occurrence {
		return []occurrence{{rule: rule, scope: scope, path: path, most: math.MaxInt32 - 1, least: true}}
	}
	period := func(rule, scope string) []occurrence {
		scope += "/ram:BillingSpecifiedPeriod/"
		return slices.Concat(some(rule, scope+"ram:StartDateTime", "udt:DateTimeString"), some(rule, scope+"ram:EndDateTime", "udt:DateTimeString"))
	}
	return slices.Concat(
		period("BR-29", settlement), period("BR-30", line+"ram:SpecifiedLineTradeSettlement"),
		exactly("CII-SR-009", "rsm:ExchangedDocumentContext", "ram:GuidelineSpecifiedDocumentContextParameter"),
		exactly("CII-SR-010", "rsm:ExchangedDocumentContext", "ram:GuidelineSpecifiedDocumentContextParameter/ram:ID"),
		exactly("CII-SR-014", "rsm:ExchangedDocument", "ram:TypeCode"),
		some("BR-62", agreement+"ram:SellerTradeParty/ram:URIUniversalCommunication", "ram:URIID"),
		some("BR-63", agreement+"ram:BuyerTradeParty/ram:URIUniversalCommunication", "ram:URIID"),
		some("CII-SR-090", line+"ram:SpecifiedTradeProduct/ram:OriginTradeCountry", "ram:ID"),
		atMostOnce(line+"ram:SpecifiedTradeProduct", "CII-SR-090", "ram:OriginTradeCountry/ram:ID"),
		exactly("CII-SR-069", line+"ram:SpecifiedTradeProduct/ram:ApplicableProductCharacteristic", "ram:Description"),
		exactly("CII-SR-072", line+"ram:SpecifiedTradeProduct/ram:ApplicableProductCharacteristic", "ram:Value"),
		exactly("CII-SR-439", line+"ram:SpecifiedLineTradeAgreement", "ram:NetPriceProductTradePrice/ram:ChargeAmount"),
		atMostOnce(line+"ram:SpecifiedLineTradeAgreement/ram:GrossPriceProductTradePrice/ram:AppliedTradeAllowanceCharge", "CII-SR-440", "ram:ActualAmount"),
		ciiAllowanceOccurrences(settlement+allowance), ciiAllowanceOccurrences(line+"ram:SpecifiedLineTradeSettlement"+allowance),
		atMostOnce(trade+"ram:ApplicableHeaderTradeAgreement",
			"CII-SR-455", "ram:SellerTradeParty/ram:DefinedTradeContact", "CII-SR-456", "ram:BuyerTradeParty/ram:DefinedTradeContact",
			"CII-SR-459", "ram:SellerTradeParty/ram:URIUniversalCommunication", "CII-SR-460", "ram:BuyerTradeParty/ram:URIUniversalCommunication"),
		atMostOnce(settlement, "CII-SR-461", "ram:ApplicableTradeTax/ram:TaxPointDate", "CII-SR-469", "ram:PaymentReference"),
		atMostOnce(sums,
			"CII-SR-477", "ram:LineTotalAmount", "CII-SR-478", "ram:ChargeTotalAmount", "CII-SR-479", "ram:AllowanceTotalAmount",
			"CII-SR-480", "ram:TaxBasisTotalAmount", "CII-SR-481", "ram:RoundingAmount", "CII-SR-482", "ram:GrandTotalAmount",
			"CII-SR-484", "ram:TotalPrepaidAmount", "CII-SR-487", "ram:DuePayableAmount"),
	)
}

// ciiAllowanceOccurrences returns the occurrence rules of allowances and charges at a path.
func ciiAllowanceOccurrences(scope string) []occurrence {
	return slices.Concat(
		[]occurrence{
			{rule: "CII-SR-463", scope: scope, path: "ram:ChargeIndicator", most: math.MaxInt32 - 1, least: true},
			{rule: "SD-08", scope: scope + "/ram:ChargeIndicator", path: "udt:Indicator", most: math.MaxInt32 - 1, least: true},
		},
		atMostOnce(scope, "CII-SR-472", "ram:CategoryTradeTax", "CII-SR-473", "ram:ActualAmount"))
}
