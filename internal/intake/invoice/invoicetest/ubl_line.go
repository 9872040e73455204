package invoicetest

import (
	"slices"

	"example.org/smartdrive/internal/intake/invoice"
)

// payment writes the means and terms of payment.
func (w *ublWriter) payment() {
	d := w.d
	for i := range d.Payments {
		p := &d.Payments[i]
		w.always("cac:PaymentMeans", func() {
			w.text("cbc:PaymentMeansCode", p.Code, "name", p.Text)
			if w.root == "CreditNote" {
				w.text("cbc:PaymentDueDate", d.Due.String())
			}
			w.text("cbc:PaymentID", d.PaymentReference)
			w.group("cac:CardAccount", func() {
				w.text("cbc:PrimaryAccountNumberID", p.Card)
				w.text("cbc:HolderName", p.CardHolder)
			})
			if p.Transfer {
				w.always("cac:PayeeFinancialAccount", func() {
					w.text("cbc:ID", p.Account)
					w.text("cbc:Name", p.AccountName)
					w.in("cac:FinancialInstitutionBranch/cbc:ID", p.Bank)
				})
			}
			w.group("cac:PaymentMandate", func() {
				if p.DebitAccount != "" || !debits(d) && i == 0 { // only once per document (UBL-SR-55)
					w.text("cbc:ID", d.Mandate)
				}
				w.in("cac:PayerFinancialAccount/cbc:ID", p.DebitAccount)
			})
		})
	}
	w.in("cac:PaymentTerms/cbc:Note", d.PaymentTerms)
}

// debits reports whether any payment of the document has an account to debit.
func debits(d *invoice.Document) bool {
	return slices.ContainsFunc(d.Payments, func(p invoice.Payment) bool { return p.DebitAccount != "" })
}

// category writes VAT category and rate as an element of a name; inside writes further children.
func (w *ublWriter) category(name, category string, rate invoice.Decimal, inside func()) {
	w.group(name, func() {
		w.text("cbc:ID", category)
		w.text("cbc:Percent", rate.String())
		inside()
		w.in("cac:TaxScheme/cbc:ID", "VAT")
	})
}

// allowance writes one allowance or charge.
func (w *ublWriter) allowance(a *invoice.Allowance) {
	w.always("cac:AllowanceCharge", func() {
		w.text("cbc:ChargeIndicator", indicator(a.Charge))
		w.text("cbc:AllowanceChargeReasonCode", a.Code)
		w.text("cbc:AllowanceChargeReason", a.Reason)
		w.text("cbc:MultiplierFactorNumeric", a.Percent.String())
		w.amount("cbc:Amount", a.Amount)
		w.amount("cbc:BaseAmount", a.Base)
		if a.Category != "" {
			w.category("cac:TaxCategory", a.Category, a.Rate, func() {})
		}
	})
}

// totals writes the VAT breakdowns and the document's sums.
func (w *ublWriter) totals() {
	d, t := w.d, &w.d.Totals
	w.group("cac:TaxTotal", func() {
		w.amount("cbc:TaxAmount", t.Tax)
		for i := range d.Taxes {
			tax := &d.Taxes[i]
			w.always("cac:TaxSubtotal", func() {
				w.amount("cbc:TaxableAmount", tax.Base)
				w.amount("cbc:TaxAmount", tax.Amount)
				w.category("cac:TaxCategory", tax.Category, tax.Rate, func() {
					w.text("cbc:TaxExemptionReasonCode", tax.ReasonCode)
					w.text("cbc:TaxExemptionReason", tax.Reason)
				})
			})
		}
	})
	w.group("cac:TaxTotal", func() { w.text("cbc:TaxAmount", t.TaxInCurrency.String(), "currencyID", d.TaxCurrency) })
	w.always("cac:LegalMonetaryTotal", func() {
		w.amount("cbc:LineExtensionAmount", t.Lines)
		w.amount("cbc:TaxExclusiveAmount", t.Net)
		w.amount("cbc:TaxInclusiveAmount", t.Gross)
		w.amount("cbc:AllowanceTotalAmount", t.Allowances)
		w.amount("cbc:ChargeTotalAmount", t.Charges)
		w.amount("cbc:PrepaidAmount", t.Prepaid)
		w.amount("cbc:PayableRoundingAmount", t.Rounding)
		w.amount("cbc:PayableAmount", t.Payable)
	})
}

// writeLine writes one invoice line as an element of a name.
func (w *ublWriter) writeLine(name string, l *invoice.Line) {
	w.always(name, func() {
		w.text("cbc:ID", l.ID)
		w.text("cbc:Note", l.Note)
		w.text(w.quantity, l.Quantity.String(), "unitCode", l.Unit)
		w.amount("cbc:LineExtensionAmount", l.Net)
		w.text("cbc:AccountingCost", l.Accounting)
		w.period(l.Period, "")
		w.in("cac:OrderLineReference/cbc:LineID", l.OrderLine)
		if l.Object.ID != "" {
			w.group("cac:DocumentReference", func() {
				w.text("cbc:ID", l.Object.ID, "schemeID", l.Object.Scheme)
				w.text("cbc:DocumentTypeCode", "130")
			})
		}
		for i := range l.Allowances {
			w.allowance(&l.Allowances[i])
		}
		w.item(l)
		w.group("cac:Price", func() {
			w.amount("cbc:PriceAmount", l.Price)
			w.text("cbc:BaseQuantity", l.BaseQuantity.String(), "unitCode", l.BaseUnit)
			w.group("cac:AllowanceCharge", func() { w.amount("cbc:Amount", l.Discount); w.amount("cbc:BaseAmount", l.GrossPrice) })
		})
		for i := range l.Lines {
			w.writeLine("cac:SubInvoiceLine", &l.Lines[i])
		}
	})
}

// item writes the item of a line.
func (w *ublWriter) item(l *invoice.Line) {
	w.group("cac:Item", func() {
		w.text("cbc:Description", l.Description)
		w.text("cbc:Name", l.Name)
		w.in("cac:BuyersItemIdentification/cbc:ID", l.BuyerItem)
		w.in("cac:SellersItemIdentification/cbc:ID", l.SellerItem)
		w.in("cac:StandardItemIdentification/cbc:ID", l.StandardItem.ID, "schemeID", l.StandardItem.Scheme)
		w.in("cac:OriginCountry/cbc:IdentificationCode", l.Origin)
		for _, class := range l.Classes {
			w.in("cac:CommodityClassification/cbc:ItemClassificationCode", class.Code, "listID", class.Scheme, "listVersionID", class.Version)
		}
		if l.Category != "" {
			w.category("cac:ClassifiedTaxCategory", l.Category, l.Rate, func() {})
		}
		for _, a := range l.Attributes {
			w.always("cac:AdditionalItemProperty", func() { w.text("cbc:Name", a.Name); w.text("cbc:Value", a.Value) })
		}
	})
}
