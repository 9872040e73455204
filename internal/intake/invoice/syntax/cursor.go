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

// ciiLineObject also holds the reference against the rules on its type.
func ciiLineObject(b *builder) {
	switch {
	case b.ref.attachment.ID == "":
		b.breach("BR-52", nil)
	case b.ref.kind != "" && b.ref.kind != "130" && b.ref.kind != "50" && b.ref.kind != "916":
		b.breach("CII-DT-018", nil)
	case b.ref.scheme != "" && b.ref.kind != "130":
		b.breach("CII-DT-024", nil)
	}
	lineObject(b)
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

// breaks says which rule a second, other value breaks.
func breaks(rule string) func(*builder, any) {
	return func(b *builder, _ any) { b.breach(rule, nil) }
}

// maxJoined is how many bytes the values of one place have together when all are kept.
const maxJoined = 8 << 10

// joined keeps all values of a place, one in a line.
func joined(of func(*builder) *string) func(*builder, any) {
	return func(b *builder, value any) {
		p := of(b)
		if len(*p)+len(value.(string)) > maxJoined {
			b.breach("SD-05", nil)
			return
		}
		*p += "\n" + value.(string)
	}
}

// sameMeans breaks a rule if this means of payment is not that of the first instruction.
func sameMeans(rule string) func(*builder) {
	return func(b *builder) {
		if b.doc.Payments[0].Code != b.payment().Code {
			b.breach(rule, nil)
		}
		last := len(b.doc.Payments) - 1
		if rule == "UBL-SR-47" && b.payment().Text != "" &&
			slices.ContainsFunc(b.doc.Payments[:last], func(p invoice.Payment) bool { return p.Text != "" }) {
			b.breach("UBL-SR-46", nil)
		}
	}
}

func sameInformation(b *builder) {
	i := slices.IndexFunc(b.doc.Payments, func(p invoice.Payment) bool { return p.Text != "" })
	if i >= 0 && b.doc.Payments[i].Text != b.payment().Text {
		b.breach("CII-SR-468", nil)
	}
}

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
