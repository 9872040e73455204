package syntax

import (
	"slices"
	"strings"

	"example.org/smartdrive/internal/intake/invoice"
)

// Functions that rows call at the start and end of repeating or composite elements. Functions named
// add... append an element to a list of the model; methods named after the element return the last
// one of the list.

// join concatenates tables of rows.
func join(tables ...[]row) []row { return slices.Concat(tables...) }

// addNote appends an empty note, which note returns.
func addNote(b *builder) { b.doc.Notes = append(b.doc.Notes, invoice.Note{}) }

// note returns the note that was appended last; it panics without one.
func (b *builder) note() *invoice.Note { return &b.doc.Notes[len(b.doc.Notes)-1] }

// splitNote splits the subject code off a UBL note of the form #ADU#text.
func splitNote(b *builder) {
	note := b.note()
	if rest, ok := strings.CutPrefix(note.Text, "#"); ok {
		if subject, text, ok := strings.Cut(rest, "#"); ok && len(subject) == 3 {
			note.Subject, note.Text = subject, text
		}
	}
}

// docPeriod makes the document's period the current one.
func docPeriod(b *builder) {
	if b.doc.Period == nil {
		b.doc.Period = new(invoice.Period)
	}
	b.period = b.doc.Period
}

// linePeriod makes the line's period the current one.
func linePeriod(b *builder) {
	if b.line().Period == nil {
		b.line().Period = new(invoice.Period)
	}
	b.period = b.line().Period
}

// addDelivery creates the document's delivery, if there is none.
func addDelivery(b *builder) {
	if b.doc.Delivery == nil {
		b.doc.Delivery = new(invoice.Delivery)
	}
}

// deliveryAddress makes the delivery's address the current one.
func deliveryAddress(b *builder) {
	addDelivery(b)
	if b.doc.Delivery.Address == nil {
		b.doc.Delivery.Address = new(invoice.Address)
	}
	b.address = b.doc.Delivery.Address
}

// addPreceding appends a reference to a preceding invoice.
func addPreceding(b *builder) { b.doc.Preceding = append(b.doc.Preceding, invoice.Reference{}) }

// preceding returns the reference to an earlier invoice that was appended last; it panics without
// one.
func (b *builder) preceding() *invoice.Reference { return &b.doc.Preceding[len(b.doc.Preceding)-1] }

// newReference clears the current document reference.
func newReference(b *builder) { b.ref = reference{} }

// lineObject stores a line's reference of type 130 as its object (BT-128), and drops any other
// type.
func lineObject(b *builder) {
	if b.ref.kind == "130" {
		b.line().Object = invoice.Identifier{ID: b.ref.attachment.ID, Scheme: b.ref.scheme}
	}
}

// ciiLineObject calls lineObject and records breaches of the rules on the type of a reference.
func ciiLineObject(b *builder) {
	switch {
	case b.ref.attachment.ID == "":
		b.recordBreach("BR-52", nil)
	case b.ref.kind != "" && b.ref.kind != "130" && b.ref.kind != "50" && b.ref.kind != "916":
		b.recordBreach("CII-DT-018", nil)
	case b.ref.scheme != "" && b.ref.kind != "130":
		b.recordBreach("CII-DT-024", nil)
	}
	lineObject(b)
}

// payee makes the payee the current party.
func payee(b *builder) {
	if b.doc.Payee == nil {
		b.doc.Payee = new(invoice.Party)
	}
	b.party = b.doc.Payee
}

// taxRepresentative makes the tax representative the current party.
func taxRepresentative(b *builder) {
	if b.doc.TaxRepresentative == nil {
		b.doc.TaxRepresentative = new(invoice.Party)
	}
	b.party = b.doc.TaxRepresentative
}

// newID clears the current identifier.
func newID(b *builder) { b.id = invoice.Identifier{} }

// newTax clears the current tax number.
func newTax(b *builder) { b.tax = taxNumber{} }

// partyAddress makes the address of the current party the current one.
func partyAddress(b *builder) {
	if b.party.Address == nil {
		b.party.Address = new(invoice.Address)
	}
	b.address = b.party.Address
}

// partyContact creates the contact of the current party, if there is none.
func partyContact(b *builder) {
	if b.party.Contact == nil {
		b.party.Contact = new(invoice.Contact)
	}
}

// addPayment appends an empty means of payment, which payment returns.
func addPayment(b *builder) { b.doc.Payments = append(b.doc.Payments, invoice.Payment{}) }

// payment returns the payment that was appended last; it panics without one.
func (b *builder) payment() *invoice.Payment { return &b.doc.Payments[len(b.doc.Payments)-1] }

// recordsBreach returns a row.also function that records a breach of a rule.
func recordsBreach(rule string) func(*builder, any) {
	return func(b *builder, _ any) { b.recordBreach(rule, nil) }
}

// maxJoined is the maximum length in bytes of values that joined combines.
const maxJoined = 8 << 10

// joined returns a row.also function that appends further values to the first, one per line. Values
// beyond maxJoined are dropped with the warning SD-05.
func joined(of func(*builder) *string) func(*builder, any) {
	return func(b *builder, value any) {
		p := of(b)
		if len(*p)+len(value.(string)) > maxJoined {
			b.recordBreach("SD-05", nil)
			return
		}
		*p += "\n" + value.(string)
	}
}

// sameMeans returns a function for the end of a means of payment (row.end). It records a breach of
// the rule if the code differs from that of the first means. For UBL-SR-47 it also records a breach
// of UBL-SR-46 if this and an earlier means both have a text.
func sameMeans(rule string) func(*builder) {
	return func(b *builder) {
		if b.doc.Payments[0].Code != b.payment().Code {
			b.recordBreach(rule, nil)
		}
		last := len(b.doc.Payments) - 1
		if rule == "UBL-SR-47" && b.payment().Text != "" &&
			slices.ContainsFunc(b.doc.Payments[:last], func(p invoice.Payment) bool { return p.Text != "" }) {
			b.recordBreach("UBL-SR-46", nil)
		}
	}
}

// sameInformation records a breach of CII-SR-468 if the text of this means of payment differs from
// the first one's.
func sameInformation(b *builder) {
	i := slices.IndexFunc(b.doc.Payments, func(p invoice.Payment) bool { return p.Text != "" })
	if i >= 0 && b.doc.Payments[i].Text != b.payment().Text {
		b.recordBreach("CII-SR-468", nil)
	}
}

// collected returns the third-party amount that was appended last; it panics without one.
func (b *builder) collected() *invoice.Collected { return &b.doc.ThirdParty[len(b.doc.ThirdParty)-1] }

// currencyOf returns the place of the current amount's currency.
func currencyOf(b *builder) any { return &b.currency }

// addTaxTotal appends a total of VAT.
func addTaxTotal(b *builder) { b.taxTotals = append(b.taxTotals, taxTotal{}) }

// taxTotal returns the tax total that was appended last; it panics without one.
func (b *builder) taxTotal() *taxTotal { return &b.taxTotals[len(b.taxTotals)-1] }

// taxLine returns the tax breakdown that was appended last; it panics without one.
func (b *builder) taxLine() *invoice.Tax { return &b.doc.Taxes[len(b.doc.Taxes)-1] }

// addLine appends a top-level line and opens it.
func addLine(b *builder) {
	b.items -= lineItems - 1
	b.doc.Lines = append(b.doc.Lines, invoice.Line{})
	b.lines = append(b.lines[:0], &b.doc.Lines[len(b.doc.Lines)-1])
}

// addSubLine appends a line to the innermost open line, and opens it.
func addSubLine(b *builder) {
	b.items -= lineItems - 1
	above := b.line()
	above.Lines = append(above.Lines, invoice.Line{})
	b.lines = append(b.lines, &above.Lines[len(above.Lines)-1])
}

// endLine closes the innermost open line.
func endLine(b *builder) { b.lines = b.lines[:len(b.lines)-1] }

// addClass appends a classification to the line.
func addClass(b *builder) { b.line().Classes = append(b.line().Classes, invoice.Class{}) }

// class returns the current line's classification that was appended last; it panics without one.
func (b *builder) class() *invoice.Class { return &b.line().Classes[len(b.line().Classes)-1] }

// addAttribute appends an item attribute to the line.
func addAttribute(b *builder) { b.line().Attributes = append(b.line().Attributes, invoice.Attribute{}) }

// attribute returns the current line's attribute that was appended last; it panics without one.
func (b *builder) attribute() *invoice.Attribute {
	return &b.line().Attributes[len(b.line().Attributes)-1]
}
