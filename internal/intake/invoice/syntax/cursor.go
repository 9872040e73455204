package syntax

import (
	"slices"
	"strings"

	"smartdrive/internal/intake/invoice"
)

// What rows do at the start and end of elements that repeat or that mean something as a whole.

func join(tables ...[]row) []row { return slices.Concat(tables...) }

func addNote(b *builder) { b.doc.Notes = append(b.doc.Notes, invoice.Note{}) }

func (b *builder) note() *invoice.Note { return &b.doc.Notes[len(b.doc.Notes)-1] }

// splitNote takes the subject off a UBL note: #ADU#text.
func splitNote(b *builder) {
	note := b.note()
	if rest, ok := strings.CutPrefix(note.Text, "#"); ok {
		if subject, text, ok := strings.Cut(rest, "#"); ok && len(subject) == 3 {
			note.Subject, note.Text = subject, text
		}
	}
}

func docPeriod(b *builder) {
	if b.doc.Period == nil {
		b.doc.Period = new(invoice.Period)
	}
	b.period = b.doc.Period
}

func linePeriod(b *builder) {
	if b.line().Period == nil {
		b.line().Period = new(invoice.Period)
	}
	b.period = b.line().Period
}

func addDelivery(b *builder) {
	if b.doc.Delivery == nil {
		b.doc.Delivery = new(invoice.Delivery)
	}
}

func deliveryAddress(b *builder) {
	addDelivery(b)
	if b.doc.Delivery.Address == nil {
		b.doc.Delivery.Address = new(invoice.Address)
	}
	b.address = b.doc.Delivery.Address
}

func addPreceding(b *builder) { b.doc.Preceding = append(b.doc.Preceding, invoice.Reference{}) }

func (b *builder) preceding() *invoice.Reference { return &b.doc.Preceding[len(b.doc.Preceding)-1] }

func newReference(b *builder) { b.ref = reference{} }

// lineObject keeps a line's reference if it is BT-128, which has the type 130.
func lineObject(b *builder) {
	if b.ref.kind == "130" {
		b.line().Object = invoice.Identifier{ID: b.ref.attachment.ID, Scheme: b.ref.scheme}
	}
}

func payee(b *builder) {
	if b.doc.Payee == nil {
		b.doc.Payee = new(invoice.Party)
	}
	b.party = b.doc.Payee
}

func taxRepresentative(b *builder) {
	if b.doc.TaxRepresentative == nil {
		b.doc.TaxRepresentative = new(invoice.Party)
	}
	b.party = b.doc.TaxRepresentative
}

func newID(b *builder) { b.id = invoice.Identifier{} }

func newTax(b *builder) { b.tax = taxNumber{} }

func partyAddress(b *builder) {
	if b.party.Address == nil {
		b.party.Address = new(invoice.Address)
	}
	b.address = b.party.Address
}

func partyContact(b *builder) {
	if b.party.Contact == nil {
		b.party.Contact = new(invoice.Contact)
	}
}

func addPayment(b *builder) { b.doc.Payments = append(b.doc.Payments, invoice.Payment{}) }

func (b *builder) payment() *invoice.Payment { return &b.doc.Payments[len(b.doc.Payments)-1] }

func (b *builder) collected() *invoice.Collected { return &b.doc.ThirdParty[len(b.doc.ThirdParty)-1] }

func currencyOf(b *builder) any { return &b.currency }

func addTaxTotal(b *builder) { b.taxTotals = append(b.taxTotals, taxTotal{}) }

func (b *builder) taxTotal() *taxTotal { return &b.taxTotals[len(b.taxTotals)-1] }

func (b *builder) taxLine() *invoice.Tax { return &b.doc.Taxes[len(b.doc.Taxes)-1] }

func addLine(b *builder) {
	b.items -= lineItems - 1
	b.doc.Lines = append(b.doc.Lines, invoice.Line{})
	b.lines = append(b.lines[:0], &b.doc.Lines[len(b.doc.Lines)-1])
}

func addSubLine(b *builder) {
	b.items -= lineItems - 1
	above := b.line()
	above.Lines = append(above.Lines, invoice.Line{})
	b.lines = append(b.lines, &above.Lines[len(above.Lines)-1])
}

func endLine(b *builder) { b.lines = b.lines[:len(b.lines)-1] }

func addClass(b *builder) { b.line().Classes = append(b.line().Classes, invoice.Class{}) }

func (b *builder) class() *invoice.Class { return &b.line().Classes[len(b.line().Classes)-1] }

func addAttribute(b *builder) { b.line().Attributes = append(b.line().Attributes, invoice.Attribute{}) }

func (b *builder) attribute() *invoice.Attribute {
	return &b.line().Attributes[len(b.line().Attributes)-1]
}
