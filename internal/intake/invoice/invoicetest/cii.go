package invoicetest

import (
	"strings"

	"example.org/smartdrive/internal/intake/invoice"
)

// CII encodes a document as a Cross Industry Invoice. CII allows only one preceding invoice.
func CII(d *invoice.Document) []byte {
	w := &ciiWriter{d: d}
	w.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n")
	const space = "urn:un:unece:uncefact:data:standard:"
	w.open("rsm:CrossIndustryInvoice", "xmlns:rsm", space+"CrossIndustryInvoice:100",
		"xmlns:ram", space+"ReusableAggregateBusinessInformationEntity:100",
		"xmlns:qdt", space+"QualifiedDataType:100", "xmlns:udt", space+"UnqualifiedDataType:100")
	w.head()
	w.always("rsm:SupplyChainTradeTransaction", func() {
		for i := range d.Lines {
			w.writeLine(&d.Lines[i])
		}
		w.always("ram:ApplicableHeaderTradeAgreement", w.agreement)
		w.always("ram:ApplicableHeaderTradeDelivery", w.delivery)
		w.always("ram:ApplicableHeaderTradeSettlement", w.settlement)
	})
	w.WriteString("</rsm:CrossIndustryInvoice>\n")
	return w.Bytes()
}

// ciiWriter writes a Cross Industry Invoice; its methods write the elements of the same name.
type ciiWriter struct {
	writer
	d *invoice.Document
}

// date writes a date at path/leaf in CII format 102; nothing for the zero date.
func (w *ciiWriter) date(path, leaf string, day invoice.Date) {
	if day != 0 {
		w.in(path+"/"+leaf, strings.ReplaceAll(day.String(), "-", ""), "format", "102")
	}
}

// head writes context, number, type, date and notes.
func (w *ciiWriter) head() {
	d := w.d
	w.group("rsm:ExchangedDocumentContext", func() {
		w.in("ram:BusinessProcessSpecifiedDocumentContextParameter/ram:ID", d.Process)
		w.in("ram:GuidelineSpecifiedDocumentContextParameter/ram:ID", d.Profile)
	})
	w.always("rsm:ExchangedDocument", func() {
		w.text("ram:ID", d.Number)
		w.text("ram:TypeCode", d.Type)
		w.date("ram:IssueDateTime", "udt:DateTimeString", d.Date)
		for _, note := range d.Notes {
			w.group("ram:IncludedNote", func() { w.text("ram:Content", note.Text); w.text("ram:SubjectCode", note.Subject) })
		}
	})
}

// agreement writes the parties and the references to orders, contracts and attachments.
func (w *ciiWriter) agreement() {
	d := w.d
	w.text("ram:BuyerReference", d.BuyerReference)
	w.party("ram:SellerTradeParty", &d.Seller)
	w.party("ram:BuyerTradeParty", &d.Buyer)
	if d.TaxRepresentative != nil {
		w.party("ram:SellerTaxRepresentativeTradeParty", d.TaxRepresentative)
	}
	w.in("ram:SellerOrderReferencedDocument/ram:IssuerAssignedID", d.SalesOrder)
	w.in("ram:BuyerOrderReferencedDocument/ram:IssuerAssignedID", d.PurchaseOrder)
	w.in("ram:ContractReferencedDocument/ram:IssuerAssignedID", d.Contract)
	for i := range d.Attachments {
		a := &d.Attachments[i]
		w.always("ram:AdditionalReferencedDocument", func() {
			w.text("ram:IssuerAssignedID", a.ID)
			w.text("ram:URIID", a.URL)
			w.text("ram:TypeCode", "916")
			w.text("ram:Name", a.Text)
		})
	}
	w.reference(d.Object, "130")
	w.reference(invoice.Identifier{ID: d.Tender}, "50")
	w.in("ram:SpecifiedProcuringProject/ram:ID", d.Project)
}

// reference writes a referenced document of a type code; nothing for an empty id.
func (w *ciiWriter) reference(id invoice.Identifier, kind string) {
	if id.ID != "" {
		w.group("ram:AdditionalReferencedDocument", func() {
			w.text("ram:IssuerAssignedID", id.ID)
			w.text("ram:TypeCode", kind)
			w.text("ram:ReferenceTypeCode", id.Scheme)
		})
	}
}

// party writes a party as an element of a name.
func (w *ciiWriter) party(name string, p *invoice.Party) {
	w.always(name, func() {
		for _, id := range p.IDs {
			if id.Scheme == "" {
				w.text("ram:ID", id.ID)
			} else {
				w.text("ram:GlobalID", id.ID, "schemeID", id.Scheme)
			}
		}
		w.text("ram:Name", p.Name)
		w.text("ram:Description", p.LegalInfo)
		w.group("ram:SpecifiedLegalOrganization", func() {
			w.text("ram:ID", p.Legal.ID, "schemeID", p.Legal.Scheme)
			w.text("ram:TradingBusinessName", p.TradeName)
		})
		if c := p.Contact; c != nil {
			w.always("ram:DefinedTradeContact", func() {
				w.text("ram:PersonName", c.Name)
				w.in("ram:TelephoneUniversalCommunication/ram:CompleteNumber", c.Phone)
				w.in("ram:EmailURIUniversalCommunication/ram:URIID", c.Email)
			})
		}
		w.address(p.Address)
		w.in("ram:URIUniversalCommunication/ram:URIID", p.Endpoint.ID, "schemeID", p.Endpoint.Scheme)
		w.in("ram:SpecifiedTaxRegistration/ram:ID", p.VATID, "schemeID", "VA")
		w.in("ram:SpecifiedTaxRegistration/ram:ID", p.TaxID, "schemeID", "FC")
	})
}

// address writes a postal address; nothing for nil.
func (w *ciiWriter) address(a *invoice.Address) {
	if a == nil {
		return
	}
	w.always("ram:PostalTradeAddress", func() {
		w.text("ram:PostcodeCode", a.Zone)
		w.text("ram:LineOne", a.Line1)
		w.text("ram:LineTwo", a.Line2)
		w.text("ram:LineThree", a.Line3)
		w.text("ram:CityName", a.City)
		w.text("ram:CountryID", a.Country)
		w.text("ram:CountrySubDivisionName", a.Region)
	})
}

// delivery writes place and date of the delivery and the delivery references.
func (w *ciiWriter) delivery() {
	d := w.d
	if place := d.Delivery; place != nil {
		w.always("ram:ShipToTradeParty", func() {
			if place.Location.Scheme == "" {
				w.text("ram:ID", place.Location.ID)
			} else {
				w.text("ram:GlobalID", place.Location.ID, "schemeID", place.Location.Scheme)
			}
			w.text("ram:Name", place.Name)
			w.address(place.Address)
		})
		w.date("ram:ActualDeliverySupplyChainEvent/ram:OccurrenceDateTime", "udt:DateTimeString", place.Date)
	}
	w.in("ram:DespatchAdviceReferencedDocument/ram:IssuerAssignedID", d.Despatch)
	w.in("ram:ReceivingAdviceReferencedDocument/ram:IssuerAssignedID", d.Receipt)
}
