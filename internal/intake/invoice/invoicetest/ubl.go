package invoicetest

import "example.org/smartdrive/internal/intake/invoice"

// UBL encodes a document as an Invoice, or as a CreditNote if its type is 381.
func UBL(d *invoice.Document) []byte {
	w := &ublWriter{d: d, root: "Invoice", line: "cac:InvoiceLine", quantity: "cbc:InvoicedQuantity"}
	if d.Type == "381" {
		w.root, w.line, w.quantity = "CreditNote", "cac:CreditNoteLine", "cbc:CreditedQuantity"
	}
	w.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n")
	const space = "urn:oasis:names:specification:ubl:schema:xsd:"
	w.open(w.root, "xmlns", space+w.root+"-2", "xmlns:cac", space+"CommonAggregateComponents-2", "xmlns:cbc", space+"CommonBasicComponents-2")
	w.head()
	w.references()
	w.parties()
	w.payment()
	for i := range d.Allowances {
		w.allowance(&d.Allowances[i])
	}
	w.totals()
	for i := range d.Lines {
		w.writeLine(w.line, &d.Lines[i])
	}
	w.WriteString("</" + w.root + ">\n")
	return w.Bytes()
}

// ublWriter writes a UBL document; its methods write the elements of the same name.
type ublWriter struct {
	writer
	d                    *invoice.Document
	root, line, quantity string
}

// amount writes an amount in the document's currency.
func (w *ublWriter) amount(name string, value invoice.Decimal) {
	w.text(name, value.String(), "currencyID", w.d.Currency)
}

// head writes profile, number, dates, type, notes and currencies.
func (w *ublWriter) head() {
	d := w.d
	w.text("cbc:CustomizationID", d.Profile)
	w.text("cbc:ProfileID", d.Process)
	w.text("cbc:ID", d.Number)
	w.text("cbc:IssueDate", d.Date.String())
	if w.root == "Invoice" {
		w.text("cbc:DueDate", d.Due.String())
	}
	w.text("cbc:"+w.root+"TypeCode", d.Type)
	for _, note := range d.Notes {
		if note.Subject != "" {
			note.Text = "#" + note.Subject + "#" + note.Text
		}
		w.text("cbc:Note", note.Text)
	}
	w.text("cbc:TaxPointDate", d.TaxPoint.String())
	w.text("cbc:DocumentCurrencyCode", d.Currency)
	w.text("cbc:TaxCurrencyCode", d.TaxCurrency)
	w.text("cbc:AccountingCost", d.BuyerAccounting)
	w.text("cbc:BuyerReference", d.BuyerReference)
	w.period(d.Period, d.TaxPointCode)
}

// period writes the invoice period and the code of its tax point; nothing if both are absent.
func (w *ublWriter) period(p *invoice.Period, code string) {
	if p == nil && code == "" {
		return
	}
	w.always("cac:InvoicePeriod", func() {
		if p != nil {
			w.text("cbc:StartDate", p.Start.String())
			w.text("cbc:EndDate", p.End.String())
		}
		w.text("cbc:DescriptionCode", code)
	})
}

// references writes the references to orders, earlier invoices, deliveries and attachments.
func (w *ublWriter) references() {
	d := w.d
	w.group("cac:OrderReference", func() {
		w.text("cbc:ID", d.PurchaseOrder)
		w.text("cbc:SalesOrderID", d.SalesOrder)
	})
	for _, p := range d.Preceding {
		w.always("cac:BillingReference", func() {
			w.always("cac:InvoiceDocumentReference", func() { w.text("cbc:ID", p.Number); w.text("cbc:IssueDate", p.Date.String()) })
		})
	}
	w.in("cac:DespatchDocumentReference/cbc:ID", d.Despatch)
	w.in("cac:ReceiptDocumentReference/cbc:ID", d.Receipt)
	w.in("cac:OriginatorDocumentReference/cbc:ID", d.Tender)
	w.in("cac:ContractDocumentReference/cbc:ID", d.Contract)
	if d.Object.ID != "" {
		w.reference(d.Object, "130")
	}
	for i := range d.Attachments {
		a := &d.Attachments[i]
		w.always("cac:AdditionalDocumentReference", func() {
			w.text("cbc:ID", a.ID)
			w.text("cbc:DocumentDescription", a.Text)
			w.in("cac:Attachment/cac:ExternalReference/cbc:URI", a.URL)
		})
	}
	w.in("cac:ProjectReference/cbc:ID", d.Project)
}

// reference writes an additional document reference of a type code.
func (w *ublWriter) reference(id invoice.Identifier, kind string) {
	w.group("cac:AdditionalDocumentReference", func() {
		w.text("cbc:ID", id.ID, "schemeID", id.Scheme)
		w.text("cbc:DocumentTypeCode", kind)
	})
}

// parties writes seller, buyer, payee, representative and delivery.
func (w *ublWriter) parties() {
	d := w.d
	w.always("cac:AccountingSupplierParty", func() { w.party("cac:Party", &d.Seller, true, d.Creditor) })
	w.always("cac:AccountingCustomerParty", func() { w.party("cac:Party", &d.Buyer, true, "") })
	if d.Payee != nil {
		w.party("cac:PayeeParty", d.Payee, false, "")
	}
	if d.TaxRepresentative != nil {
		w.party("cac:TaxRepresentativeParty", d.TaxRepresentative, false, "")
	}
	if d.Delivery == nil {
		return
	}
	w.always("cac:Delivery", func() {
		w.text("cbc:ActualDeliveryDate", d.Delivery.Date.String())
		w.group("cac:DeliveryLocation", func() {
			w.text("cbc:ID", d.Delivery.Location.ID, "schemeID", d.Delivery.Location.Scheme)
			w.address("cac:Address", d.Delivery.Address)
		})
		w.in("cac:DeliveryParty/cac:PartyName/cbc:Name", d.Delivery.Name)
	})
}

// party writes a party. The argument full is true for seller and buyer, which have a trade name and
// a registered name; creditor is a SEPA creditor id, or empty.
func (w *ublWriter) party(name string, p *invoice.Party, full bool, creditor string) {
	w.always(name, func() {
		w.text("cbc:EndpointID", p.Endpoint.ID, "schemeID", p.Endpoint.Scheme)
		for _, id := range p.IDs {
			w.group("cac:PartyIdentification", func() { w.text("cbc:ID", id.ID, "schemeID", id.Scheme) })
		}
		w.group("cac:PartyIdentification", func() { w.text("cbc:ID", creditor, "schemeID", "SEPA") })
		shown := p.Name
		if full {
			shown = p.TradeName
		}
		w.in("cac:PartyName/cbc:Name", shown)
		w.address("cac:PostalAddress", p.Address)
		w.taxScheme(p.VATID, "VAT")
		w.taxScheme(p.TaxID, "FC")
		w.group("cac:PartyLegalEntity", func() {
			if full {
				w.text("cbc:RegistrationName", p.Name)
			}
			w.text("cbc:CompanyID", p.Legal.ID, "schemeID", p.Legal.Scheme)
			w.text("cbc:CompanyLegalForm", p.LegalInfo)
		})
		if c := p.Contact; c != nil {
			w.always("cac:Contact", func() {
				w.text("cbc:Name", c.Name)
				w.text("cbc:Telephone", c.Phone)
				w.text("cbc:ElectronicMail", c.Email)
			})
		}
	})
}

// taxScheme writes a tax identifier; nothing for an empty one.
func (w *ublWriter) taxScheme(id, scheme string) {
	if id != "" {
		w.group("cac:PartyTaxScheme", func() { w.text("cbc:CompanyID", id); w.in("cac:TaxScheme/cbc:ID", scheme) })
	}
}

// address writes an address as an element of a name; nothing for nil.
func (w *ublWriter) address(name string, a *invoice.Address) {
	if a == nil {
		return
	}
	w.always(name, func() {
		w.text("cbc:StreetName", a.Line1)
		w.text("cbc:AdditionalStreetName", a.Line2)
		w.text("cbc:CityName", a.City)
		w.text("cbc:PostalZone", a.Zone)
		w.text("cbc:CountrySubentity", a.Region)
		w.in("cac:AddressLine/cbc:Line", a.Line3)
		w.in("cac:Country/cbc:IdentificationCode", a.Country)
	})
}
