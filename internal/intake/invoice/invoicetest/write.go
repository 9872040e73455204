package invoicetest

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"strings"

	"example.org/smartdrive/internal/intake/invoice"
)

// NDJSON encodes documents in the own model, one per line.
func NDJSON(docs ...*invoice.Document) []byte {
	var b bytes.Buffer
	for _, d := range docs {
		line, err := json.Marshal(d)
		if err != nil {
			panic(err) // cannot happen: JSON can express all values of the model
		}
		b.Write(append(line, '\n'))
	}
	return b.Bytes()
}

// writer writes XML elements and leaves out empty ones.
type writer struct{ bytes.Buffer }

// text writes an element with a text. The attributes alternate between name and value.
func (w *writer) text(name, value string, attrs ...string) {
	if value == "" {
		return
	}
	w.open(name, attrs...)
	w.escape(value)
	w.WriteString("</" + name + ">")
}

// group writes an element unless inside writes nothing.
func (w *writer) group(name string, inside func()) {
	from := w.Len()
	w.open(name)
	begin := w.Len()
	if inside(); w.Len() == begin {
		w.Truncate(from)
		return
	}
	w.WriteString("</" + name + ">")
}

// always writes an element even if it is empty.
func (w *writer) always(name string, inside func()) {
	w.open(name)
	inside()
	w.WriteString("</" + name + ">")
}

// in writes a text within nested elements, given their path such as
// cac:Country/cbc:IdentificationCode.
func (w *writer) in(path, value string, attrs ...string) {
	outer, rest, found := strings.Cut(path, "/")
	if !found {
		w.text(path, value, attrs...)
		return
	}
	w.group(outer, func() { w.in(rest, value, attrs...) })
}

// open writes a start tag without empty attributes.
func (w *writer) open(name string, attrs ...string) {
	w.WriteString("<" + name)
	for i := 0; i+1 < len(attrs); i += 2 {
		if attrs[i+1] != "" {
			w.WriteString(" " + attrs[i] + `="`)
			w.escape(attrs[i+1])
			w.WriteString(`"`)
		}
	}
	w.WriteString(">")
}

// escape appends text escaped for XML.
func (w *writer) escape(text string) {
	if err := xml.EscapeText(&w.Buffer, []byte(text)); err != nil {
		panic(err) // cannot happen: a Buffer accepts everything
	}
}

// indicator returns the text of a ChargeIndicator.
func indicator(charge bool) string {
	if charge {
		return "true"
	}
	return "false"
}

// Fapiao encodes a document of Chinese as XML of the tax administration.
func Fapiao(d *invoice.Document) []byte {
	w := new(writer)
	code, name, _ := strings.Cut(d.Variant, " ")
	w.always("EInvoice", func() {
		w.in("Header/EIid", d.Number)
		w.group("Header", func() {
			w.group("InherentLabel", func() {
				w.group("EInvoiceType", func() { w.text("LabelCode", code); w.text("LabelName", name) })
			})
		})
		w.group("EInvoiceData", func() {
			w.taxpayer("Seller", &d.Seller)
			w.taxpayer("Buyer", &d.Buyer)
			w.group("BasicInformation", func() {
				w.text("TotalAmWithoutTax", d.Totals.Net.String())
				w.text("TotalTaxAm", d.Totals.Tax.String())
				w.text("TotalTax-includedAmount", d.Totals.Gross.String())
				w.text("RequestTime", d.Date.String()+" 09:30:00")
			})
			for i := range d.Lines {
				w.issued(&d.Lines[i], i)
			}
			for _, note := range d.Notes {
				w.in("AdditionalInformation/Remark", note.Text)
			}
		})
		w.group("TaxSupervisionInfo", func() {
			w.text("InvoiceNumber", d.Number)
			w.text("IssueTime", d.Date.String())
			w.text("TaxBureauName", "示例税务局")
		})
	})
	return w.Bytes()
}

// taxpayer writes a party of a Chinese invoice; role is the prefix of its elements.
func (w *writer) taxpayer(role string, p *invoice.Party) {
	w.group(role+"Information", func() { w.text(role+"IdNum", p.TaxID); w.text(role+"Name", p.Name) })
}

// issued writes a line; lines alternate between the two notations of rates, 6% and 0.06.
func (w *writer) issued(line *invoice.Line, i int) {
	rate := line.Rate.String() + "%"
	if i%2 == 1 {
		rate = line.Rate.Percent(invoice.NewDecimal(1, 0)).String()
	}
	w.group("IssuItemInformation", func() {
		w.text("ItemName", line.Name)
		w.text("SpecMod", line.Description)
		w.text("MeaUnits", line.Unit)
		w.text("Quantity", line.Quantity.String())
		w.text("UnPrice", line.Price.String())
		w.text("Amount", line.Net.String())
		w.text("TaxRate", rate)
		w.text("ComTaxAm", line.Tax.String())
	})
}
