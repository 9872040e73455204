package invoicetest

import "example.org/smartdrive/internal/intake/invoice"

// settlement writes payment, taxes, allowances, terms and totals.
func (w *ciiWriter) settlement() {
	d := w.d
	w.text("ram:CreditorReferenceID", d.Creditor)
	w.text("ram:PaymentReference", d.PaymentReference)
	w.text("ram:TaxCurrencyCode", d.TaxCurrency)
	w.text("ram:InvoiceCurrencyCode", d.Currency)
	if d.Payee != nil {
		w.party("ram:PayeeTradeParty", d.Payee)
	}
	for i := range d.Payments {
		w.payment(&d.Payments[i])
	}
	for i := range d.Taxes {
		w.tax(&d.Taxes[i])
	}
	w.period(d.Period)
	for i := range d.Allowances {
		w.allowance(&d.Allowances[i])
	}
	w.group("ram:SpecifiedTradePaymentTerms", func() {
		w.text("ram:Description", d.PaymentTerms)
		w.date("ram:DueDateDateTime", "udt:DateTimeString", d.Due)
		w.text("ram:DirectDebitMandateID", d.Mandate)
	})
	w.totals()
	for _, p := range d.Preceding {
		w.always("ram:InvoiceReferencedDocument", func() {
			w.text("ram:IssuerAssignedID", p.Number)
			w.date("ram:FormattedIssueDateTime", "qdt:DateTimeString", p.Date)
		})
	}
	w.in("ram:ReceivableSpecifiedTradeAccountingAccount/ram:ID", d.BuyerAccounting)
}

// payment writes one means of payment.
func (w *ciiWriter) payment(p *invoice.Payment) {
	w.always("ram:SpecifiedTradeSettlementPaymentMeans", func() {
		w.text("ram:TypeCode", p.Code)
		w.text("ram:Information", p.Text)
		w.group("ram:ApplicableTradeSettlementFinancialCard", func() {
			w.text("ram:ID", p.Card)
			w.text("ram:CardholderName", p.CardHolder)
		})
		w.in("ram:PayerPartyDebtorFinancialAccount/ram:IBANID", p.DebitAccount)
		if p.Transfer {
			w.always("ram:PayeePartyCreditorFinancialAccount", func() {
				w.text("ram:IBANID", p.Account)
				w.text("ram:AccountName", p.AccountName)
			})
		}
		w.in("ram:PayeeSpecifiedCreditorFinancialInstitution/ram:BICID", p.Bank)
	})
}

// tax writes one VAT breakdown.
func (w *ciiWriter) tax(t *invoice.Tax) {
	w.always("ram:ApplicableTradeTax", func() {
		w.text("ram:CalculatedAmount", t.Amount.String())
		w.text("ram:TypeCode", "VAT")
		w.text("ram:ExemptionReason", t.Reason)
		w.text("ram:BasisAmount", t.Base.String())
		w.text("ram:CategoryCode", t.Category)
		w.text("ram:ExemptionReasonCode", t.ReasonCode)
		w.date("ram:TaxPointDate", "udt:DateString", w.d.TaxPoint)
		w.text("ram:DueDateTypeCode", map[string]string{"3": "5", "35": "29", "432": "72"}[w.d.TaxPointCode])
		w.text("ram:RateApplicablePercent", t.Rate.String())
	})
}

// period writes a billing period; nothing for nil.
func (w *ciiWriter) period(p *invoice.Period) {
	if p != nil {
		w.always("ram:BillingSpecifiedPeriod", func() {
			w.date("ram:StartDateTime", "udt:DateTimeString", p.Start)
			w.date("ram:EndDateTime", "udt:DateTimeString", p.End)
		})
	}
}

// allowance writes one allowance or charge.
func (w *ciiWriter) allowance(a *invoice.Allowance) {
	w.always("ram:SpecifiedTradeAllowanceCharge", func() {
		w.in("ram:ChargeIndicator/udt:Indicator", indicator(a.Charge))
		w.text("ram:CalculationPercent", a.Percent.String())
		w.text("ram:BasisAmount", a.Base.String())
		w.text("ram:ActualAmount", a.Amount.String())
		w.text("ram:ReasonCode", a.Code)
		w.text("ram:Reason", a.Reason)
		if a.Category != "" {
			w.category("ram:CategoryTradeTax", a.Category, a.Rate)
		}
	})
}

// category writes VAT category and rate as an element of a name.
func (w *ciiWriter) category(name, category string, rate invoice.Decimal) {
	w.group(name, func() {
		w.text("ram:TypeCode", "VAT")
		w.text("ram:CategoryCode", category)
		w.text("ram:RateApplicablePercent", rate.String())
	})
}

// totals writes the document's sums.
func (w *ciiWriter) totals() {
	d, t := w.d, &w.d.Totals
	w.always("ram:SpecifiedTradeSettlementHeaderMonetarySummation", func() {
		w.text("ram:LineTotalAmount", t.Lines.String())
		w.text("ram:ChargeTotalAmount", t.Charges.String())
		w.text("ram:AllowanceTotalAmount", t.Allowances.String())
		w.text("ram:TaxBasisTotalAmount", t.Net.String())
		w.text("ram:TaxTotalAmount", t.Tax.String(), "currencyID", d.Currency)
		w.text("ram:TaxTotalAmount", t.TaxInCurrency.String(), "currencyID", d.TaxCurrency)
		w.text("ram:RoundingAmount", t.Rounding.String())
		w.text("ram:GrandTotalAmount", t.Gross.String())
		w.text("ram:TotalPrepaidAmount", t.Prepaid.String())
		w.text("ram:DuePayableAmount", t.Payable.String())
	})
}

// writeLine writes one invoice line.
func (w *ciiWriter) writeLine(l *invoice.Line) {
	w.always("ram:IncludedSupplyChainTradeLineItem", func() {
		w.group("ram:AssociatedDocumentLineDocument", func() {
			w.text("ram:LineID", l.ID)
			w.in("ram:IncludedNote/ram:Content", l.Note)
		})
		w.group("ram:SpecifiedTradeProduct", func() { w.product(l) })
		w.group("ram:SpecifiedLineTradeAgreement", func() {
			w.in("ram:BuyerOrderReferencedDocument/ram:LineID", l.OrderLine)
			w.group("ram:GrossPriceProductTradePrice", func() {
				w.text("ram:ChargeAmount", l.GrossPrice.String())
				w.in("ram:AppliedTradeAllowanceCharge/ram:ActualAmount", l.Discount.String())
			})
			w.group("ram:NetPriceProductTradePrice", func() {
				w.text("ram:ChargeAmount", l.Price.String())
				w.text("ram:BasisQuantity", l.BaseQuantity.String(), "unitCode", l.BaseUnit)
			})
		})
		w.in("ram:SpecifiedLineTradeDelivery/ram:BilledQuantity", l.Quantity.String(), "unitCode", l.Unit)
		w.always("ram:SpecifiedLineTradeSettlement", func() { w.lineSettlement(l) })
	})
}

// product writes the item of a line.
func (w *ciiWriter) product(l *invoice.Line) {
	w.text("ram:GlobalID", l.StandardItem.ID, "schemeID", l.StandardItem.Scheme)
	w.text("ram:SellerAssignedID", l.SellerItem)
	w.text("ram:BuyerAssignedID", l.BuyerItem)
	w.text("ram:Name", l.Name)
	w.text("ram:Description", l.Description)
	for _, a := range l.Attributes {
		w.always("ram:ApplicableProductCharacteristic", func() { w.text("ram:Description", a.Name); w.text("ram:Value", a.Value) })
	}
	for _, class := range l.Classes {
		w.in("ram:DesignatedProductClassification/ram:ClassCode", class.Code, "listID", class.Scheme, "listVersionID", class.Version)
	}
	w.in("ram:OriginTradeCountry/ram:ID", l.Origin)
}

// lineSettlement writes VAT, period, allowances and net amount of a line.
func (w *ciiWriter) lineSettlement(l *invoice.Line) {
	if l.Category != "" {
		w.category("ram:ApplicableTradeTax", l.Category, l.Rate)
	}
	w.period(l.Period)
	for i := range l.Allowances {
		w.allowance(&l.Allowances[i])
	}
	w.in("ram:SpecifiedTradeSettlementLineMonetarySummation/ram:LineTotalAmount", l.Net.String())
	w.reference(l.Object, "130")
	w.in("ram:ReceivableSpecifiedTradeAccountingAccount/ram:ID", l.Accounting)
}
