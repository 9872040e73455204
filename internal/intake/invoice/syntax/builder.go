package syntax

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"smartdrive/internal/intake/invoice"
	"smartdrive/internal/intake/invoice/xmlscan"
)

// builder is a document that is being read, and where in it.
type builder struct {
	doc    *invoice.Document
	limits Limits
	items  int    // that may still come
	kept   int    // bytes that may still come
	root   string // the name of the root element
	path   []*node
	counts []int32 // of the counters of the tree
	lineNo int     // of the file, where the reader is
	text   []byte  // of the current element

	// cursors: what the elements that are open stand for
	party     *invoice.Party
	address   *invoice.Address
	lines     []*invoice.Line
	allowance *invoice.Allowance
	period    *invoice.Period
	ref       reference
	tax       taxNumber
	id        invoice.Identifier
	date      string // the format of a date
	scheme    string // of a tax
	flag      string

	unsupported string // what the document has that no rule here can judge
	taxTotals   []taxTotal
	currencies  []sighting
	currency    string // of the current amount

	codes codes
}

// sighting is a currency that amounts were written in, and the first of them.
type sighting struct {
	currency string
	at       invoice.Breach
}

// reference is a document that is referred to, before it is known as what.
type reference struct {
	attachment invoice.Attachment
	scheme     string
	kind       string
	embedded   bool // it has an embedded file, even an empty one
}

// taxNumber is a number for tax, before it is known which.
type taxNumber struct{ id, scheme string }

// taxTotal is BT-110 or BT-111, whichever currency says.
type taxTotal struct {
	amount   invoice.Decimal
	currency string
}

var builders = sync.Pool{New: func() any { return &builder{codes: codes{}} }}

func newBuilder(limits Limits) *builder {
	b := builders.Get().(*builder)
	*b = builder{
		doc: new(invoice.Document), limits: limits, items: limits.Items, kept: limits.Kept,
		path: b.path[:0], counts: b.counts[:0], text: b.text[:0], lines: b.lines[:0], taxTotals: b.taxTotals[:0], currencies: b.currencies[:0], codes: b.codes,
	}
	return b
}

// release gives the builder back; the document is the caller's.
func (b *builder) release() {
	b.doc = nil
	clear(b.lines)
	if cap(b.text) <= 64<<10 {
		builders.Put(b)
	}
}

func (b *builder) append(text []byte) error {
	if len(b.text)+len(text) > b.limits.Text {
		return &Error{Kind: Limit, Text: fmt.Sprintf("a text is longer than %d bytes", b.limits.Text)}
	}
	b.text = append(b.text, text...)
	return nil
}

// line returns the innermost line that is open.
func (b *builder) line() *invoice.Line { return b.lines[len(b.lines)-1] }

// set puts a text into its place. Nothing is nothing; a second, other value for one place is
// remembered, because two programs may disagree about which one counts.
func (b *builder) set(to place, n *node, text []byte) error {
	text = bytes.Trim(text, " \t\r\n")
	if len(text) == 0 {
		return nil
	}
	switch p := to(b).(type) {
	case *string:
		value, err := b.keep(text)
		if err != nil {
			return err
		}
		once(b, n, p, value, *p == "", *p == value)
	case *invoice.Decimal:
		value, err := invoice.ParseDecimal(text)
		if err != nil {
			return badValue(text, err)
		}
		once(b, n, p, value, !p.Given(), p.Equal(value))
	case *invoice.Date:
		if b.date != "" && b.date != "102" {
			b.breach("SD-07", nil)
			return nil
		}
		value, err := parseDate(text)
		if err != nil {
			return badValue(text, err)
		}
		once(b, n, p, value, *p == 0, *p == value)
	case *bool:
		switch string(text) {
		case "true", "1":
			*p = true
		case "false", "0":
			*p = false
		default:
			return badValue(text, errors.New("neither true nor false"))
		}
	}
	return nil
}

// once sets a place that holds one value. A second, other one is kept where the row says how;
// else it is a contradiction in what counts, and a detail that is named and not kept in all others.
func once[T any](b *builder, n *node, p *T, value T, empty, same bool) {
	switch {
	case empty:
		*p = value
	case same:
	case n.row.also != nil:
		n.row.also(b, any(value))
	case n.row.detail:
		b.breach("SD-05", nil)
	default:
		b.repeated(n.path)
	}
}

// repeated remembers a contradiction, once.
func (b *builder) repeated(what string) {
	if !slices.Contains(b.doc.Repeated, what) {
		b.doc.Repeated = append(b.doc.Repeated, what)
	}
	b.breach("SD-01", nil)
}

func badValue(text []byte, err error) error {
	return &Error{Kind: BadValue, Text: fmt.Sprintf("%.60q is %v", text, err)}
}

var chineseDay = strings.NewReplacer("年", "-", "月", "-", "日", "")

// parseDate reads the dates of all syntaxes: xs:date with or without a zone, yyyymmdd, 2006年01月02日,
// and the day of a time.
func parseDate(text []byte) (invoice.Date, error) {
	day := chineseDay.Replace(string(text))
	if len(day) == len("20060102150405") && !strings.Contains(day, "-") {
		day = day[:8]
	}
	if len(day) > len("2006-01-02") && day[4] == '-' && strings.ContainsRune("T Zz+-", rune(day[10])) {
		day = day[:10]
	}
	return invoice.ParseDate(day)
}

// keep makes a text part of the model. Line ends are those of XML 1.0 §2.11.
func (b *builder) keep(text []byte) (string, error) {
	if b.kept -= len(text); b.kept < 0 {
		return "", &Error{Kind: Limit, Text: fmt.Sprintf("its texts are longer than %d bytes together", b.limits.Kept)}
	}
	value := b.codes.keep(text)
	if strings.Contains(value, "\r") {
		value = strings.ReplaceAll(strings.ReplaceAll(value, "\r\n", "\n"), "\r", "\n")
	}
	return value, nil
}

// codes are short texts that come again and again.
type codes map[string]string

// maxCodes is how many of them are remembered: more than there are in common invoices.
const maxCodes = 1 << 10

// keep returns the text as a string that may be shared.
func (c codes) keep(text []byte) string {
	if len(text) > 8 {
		return string(text)
	}
	if known, ok := c[string(text)]; ok {
		return known
	}
	value := string(text)
	if len(c) < maxCodes {
		c[value] = value
	}
	return value
}

// sawCurrency notes the currency that the attribute of an amount has named.
func (b *builder) sawCurrency() {
	known := slices.ContainsFunc(b.currencies, func(s sighting) bool { return s.currency == b.currency })
	if b.currency != "" && !known && len(b.currencies) < 16 {
		b.currencies = append(b.currencies, sighting{b.currency, invoice.Breach{Rule: "SD-02", Place: b.place(nil), Line: b.lineNo}})
	}
	b.currency = ""
}

// ublCurrency also asks for the currency, which an amount of UBL has to name.
func (b *builder) ublCurrency() {
	if b.currency == "" {
		b.breach("BR-CL-03", nil)
	}
	b.sawCurrency()
}

// finish settles what only the whole document can tell.
func (b *builder) finish() {
	d := b.doc
	own := 0 // totals in the invoice's currency
	for _, total := range b.taxTotals {
		at := &d.Totals.Tax
		if total.currency == d.Currency {
			own++
		} else if total.currency != "" {
			if at = &d.Totals.TaxInCurrency; total.currency != d.TaxCurrency {
				b.currency = total.currency
				b.sawCurrency()
				continue
			}
		}
		switch {
		case !at.Given():
			*at = total.amount
		case !at.Equal(total.amount):
			b.repeated("the total of VAT")
		}
	}
	for _, seen := range b.currencies {
		if seen.currency != d.Currency {
			d.OtherCurrencies = append(d.OtherCurrencies, seen.currency)
			b.record(seen.at)
		}
	}
	if own != 1 && (d.Written.Syntax == invoice.UBLSyntax || d.Totals.Gross.Cmp(d.Totals.Net) != 0) {
		b.breach("BR-CO-15", nil)
	}
	plain(d)
}

// plain drops what says nothing, so that documents that say the same are equal: optional totals of
// 0, prices for 1 unit.
func plain(d *invoice.Document) {
	for _, total := range []*invoice.Decimal{&d.Totals.Allowances, &d.Totals.Charges, &d.Totals.Prepaid, &d.Totals.Rounding} {
		if total.Sign() == 0 {
			*total = invoice.Decimal{}
		}
	}
	plainLines(d.Lines)
}

// plainGross makes the base of the gross price that of both prices, unless the net price has
// another.
func plainGross(line *invoice.Line) {
	if !line.BaseQuantity.Given() {
		line.BaseQuantity, line.BaseUnit = line.GrossBaseQuantity, cmp.Or(line.BaseUnit, line.GrossBaseUnit)
	}
	if line.BaseQuantity.Equal(line.GrossBaseQuantity) || !line.GrossBaseQuantity.Given() {
		line.BaseUnit = cmp.Or(line.BaseUnit, line.GrossBaseUnit)
		line.GrossBaseQuantity, line.GrossBaseUnit = invoice.Decimal{}, ""
	}
	if line.GrossBaseUnit == line.BaseUnit {
		line.GrossBaseUnit = ""
	}
}

func plainLines(lines []invoice.Line) {
	for i := range lines {
		line := &lines[i]
		plainGross(line)
		if line.BaseQuantity.Equal(invoice.NewDecimal(1, 0)) && (line.BaseUnit == "" || line.BaseUnit == line.Unit) {
			line.BaseQuantity, line.BaseUnit = invoice.Decimal{}, ""
		}
		plainLines(line.Lines)
	}
}

// addReference puts a document reference where its type says. Objects are BT-18, tenders BT-17.
func (b *builder) addReference(tender *string) {
	ref := &b.ref
	b.checkReference()
	switch ref.kind {
	case "130":
		b.doc.Object = invoice.Identifier{ID: ref.attachment.ID, Scheme: ref.scheme}
	case "50":
		*tender = ref.attachment.ID
	default:
		b.doc.Attachments = append(b.doc.Attachments, ref.attachment)
	}
}

// checkReference holds a document reference against the rules on its type.
func (b *builder) checkReference() {
	ref, ubl := &b.ref, b.doc.Written.Syntax == invoice.UBLSyntax
	project := ref.kind == "50" && (!ubl || b.doc.Written.CreditNote)
	switch {
	case ubl && ref.kind != "130" && !project && (ref.kind != "" || ref.scheme != ""):
		b.breach("UBL-SR-43", nil)
	case !ubl && ref.kind != "" && ref.kind != "130" && ref.kind != "50" && ref.kind != "916":
		b.breach("CII-DT-018", nil)
	}
	if !ubl && ref.kind != "916" && (ref.attachment.Text != "" || ref.attachment.URL != "" || ref.embedded) {
		b.breach("CII-DT-021", nil)
	}
	if !ubl && ref.kind != "130" && ref.scheme != "" {
		b.breach("CII-DT-024", nil)
	}
	if ref.kind == "130" && b.doc.Object.ID != "" && ubl {
		b.breach("UBL-SR-04", nil)
	}
	if ref.attachment.ID == "" && (ref.kind == "130" || ref.kind == "50") {
		b.breach("BR-52", nil)
	}
	if ref.embedded && ubl {
		if ref.attachment.Type == "" {
			b.breach("UBL-DT-06", nil)
		}
		if ref.attachment.Name == "" {
			b.breach("UBL-DT-07", nil)
		}
	}
}

// endTax puts a tax number where its scheme says. Twice is the rule that one more breaks, if there
// is one.
func (b *builder) endTax(at *string, twice string) {
	switch {
	case *at == "":
		*at = b.tax.id
	case twice != "":
		b.breach(twice, nil)
	case *at != b.tax.id && b.tax.id != "":
		b.repeated("a party's number for tax")
	}
}

// endTaxUBL takes every scheme but VAT for that of BT-32.
func endTaxUBL(b *builder) {
	vat := strings.EqualFold(b.tax.scheme, "VAT")
	if b.tax.scheme == "" || b.tax.id == "" {
		b.breach("UBL-SR-53", nil)
	}
	switch {
	case vat && b.party == &b.doc.Seller:
		b.endTax(&b.party.VATID, "UBL-SR-12")
	case vat && b.party == &b.doc.Buyer:
		b.endTax(&b.party.VATID, "UBL-SR-18")
	case vat:
		b.endTax(&b.party.VATID, "")
	case b.party == &b.doc.Seller:
		b.endTax(&b.party.TaxID, "UBL-SR-13")
	default:
		b.endTax(&b.party.TaxID, "")
	}
}

// endTaxCII takes VA for VAT and FC for the local number; another scheme, or none, says nothing.
func endTaxCII(b *builder) {
	switch b.tax.scheme {
	case "VA":
		b.endTax(&b.party.VATID, "")
	case "FC":
		b.endTax(&b.party.TaxID, "")
	default:
		b.breach("SD-06", nil)
	}
}

// endPartyID adds an identifier to the party that is open.
func (b *builder) endPartyID() {
	switch sepa := b.id.Scheme == "SEPA"; {
	case sepa && b.party != &b.doc.Seller && b.party != b.doc.Payee:
		b.breach("BR-CL-10", nil)
	case b.id.ID == "":
	case sepa:
		if b.doc.Creditor != "" && b.doc.Written.Syntax == invoice.UBLSyntax {
			b.breach("UBL-SR-29", nil)
		}
		b.doc.Creditor = b.id.ID
	case b.party == b.doc.Payee && len(b.party.IDs) > 0 && b.doc.Written.Syntax == invoice.UBLSyntax:
		b.breach("UBL-SR-20", nil)
	default:
		b.party.IDs = append(b.party.IDs, b.id)
	}
}

// addAllowance begins an allowance or charge in a list.
func (b *builder) addAllowance(to *[]invoice.Allowance) {
	*to = append(*to, invoice.Allowance{})
	b.allowance = &(*to)[len(*to)-1]
}

// scanned turns the scanner's errors into those of this package.
func scanned(err error) error {
	var bad *xmlscan.Error
	if !errors.As(err, &bad) {
		return err
	}
	kind := map[xmlscan.Kind]Kind{
		xmlscan.Malformed: Malformed, xmlscan.Refused: Refused, xmlscan.Limit: Limit, xmlscan.Charset: Unsupported,
	}[bad.Kind]
	return &Error{Kind: kind, Line: bad.Line, Text: bad.Text}
}
