package syntax

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"example.org/smartdrive/internal/intake/invoice"
	"example.org/smartdrive/internal/intake/invoice/xmlscan"
)

// builder holds the document being decoded, the position in the file, and the remaining limits.
type builder struct {
	doc    *invoice.Document
	limits Limits
	items  int     // remaining items; see Limits.Items
	kept   int     // remaining bytes of text; see Limits.Kept
	root   string  // name of the root element
	path   []*node // open elements, the root first
	counts []int32 // one per counter of the tree
	lineNo int     // current line of the file
	text   []byte  // text of the current element

	party     *invoice.Party // parts of the model that the open elements describe
	address   *invoice.Address
	lines     []*invoice.Line
	allowance *invoice.Allowance
	period    *invoice.Period
	ref       reference
	tax       taxNumber
	id        invoice.Identifier
	date      string // format code of the date being read
	scheme    string // tax scheme being read
	flag      string // scratch text of the current element

	unsupported string        // feature of the document that no rule can validate; empty: none
	taxTotals   []taxTotal    // totals of VAT (BT-110, BT-111), sorted out by finish
	currencies  []currencyUse // distinct currencies of amounts, at most 16
	currency    string        // currency of the current amount

	codes codes
}

// currencyUse is a currency of an amount, with the place of its first use.
type currencyUse struct {
	currency string
	at       invoice.Breach
}

// reference is a document reference whose meaning is not known yet.
type reference struct {
	attachment invoice.Attachment
	scheme     string
	kind       string
	embedded   bool // it has an embedded file, possibly an empty one
}

// taxNumber is a party's tax number, with the scheme that tells its kind.
type taxNumber struct{ id, scheme string }

// taxTotal is a total of VAT; its currency tells whether it is BT-110 or BT-111.
type taxTotal struct {
	amount   invoice.Decimal
	currency string
}

// builders pools builders.
var builders = sync.Pool{New: func() any { return &builder{codes: codes{}} }}

// newBuilder returns an empty builder. The caller must call release.
func newBuilder(limits Limits) *builder {
	b := builders.Get().(*builder)
	*b = builder{
		doc: new(invoice.Document), limits: limits, items: limits.Items, kept: limits.Kept,
		path: b.path[:0], counts: b.counts[:0], text: b.text[:0], lines: b.lines[:0], taxTotals: b.taxTotals[:0], currencies: b.currencies[:0], codes: b.codes,
	}
	return b
}

// release returns the builder to the pool. The document stays valid.
func (b *builder) release() {
	b.doc = nil
	clear(b.lines)
	if cap(b.text) <= 64<<10 {
		builders.Put(b)
	}
}

// append appends to the text of the current element. A text longer than Limits.Text gives an Error
// of kind Limit.
func (b *builder) append(text []byte) error {
	if len(b.text)+len(text) > b.limits.Text {
		return &Error{Kind: Limit, Text: fmt.Sprintf("a text is longer than %d bytes", b.limits.Text)}
	}
	b.text = append(b.text, text...)
	return nil
}

// line returns the innermost open line; it panics without one.
func (b *builder) line() *invoice.Line { return b.lines[len(b.lines)-1] }

// set stores a text at its place in the model. Empty text is ignored. A second, different value for
// a single place is recorded by once, because programs may disagree on which value counts. A text
// that is not a valid value gives an Error of kind BadValue.
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
			b.recordBreach("SD-07", nil)
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

// once stores a value in a place that holds only one. For a second, different value, once calls
// row.also if set; for a row with detail it records a warning; otherwise it records a
// contradiction.
func once[T any](b *builder, n *node, p *T, value T, empty, same bool) {
	switch {
	case empty:
		*p = value
	case same:
	case n.row.also != nil:
		n.row.also(b, any(value))
	case n.row.detail:
		b.recordBreach("SD-05", nil)
	default:
		b.repeated(n.path)
	}
}

// repeated adds a contradiction to Document.Repeated, without duplicates.
func (b *builder) repeated(what string) {
	if !slices.Contains(b.doc.Repeated, what) {
		b.doc.Repeated = append(b.doc.Repeated, what)
	}
	b.recordBreach("SD-01", nil)
}

// badValue returns an Error of kind BadValue that quotes the start of text and err.
func badValue(text []byte, err error) error {
	return &Error{Kind: BadValue, Text: fmt.Sprintf("%.60q is %v", text, err)}
}

// chineseDay rewrites 2006年01月02日 as 2006-01-02.
var chineseDay = strings.NewReplacer("年", "-", "月", "-", "日", "")

// parseDate parses the dates of all syntaxes: xs:date with or without a zone, yyyymmdd,
// yyyymmddhhmmss, 2006年01月02日, and the day of a timestamp. Other texts fail with the error of
// invoice.ParseDate.
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

// keep returns a text as a string for the model and charges it to the limit Kept. It normalizes
// line ends as XML 1.0 §2.11 requires. Above the limit it fails with an Error of kind Limit.
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

// codes interns short texts that repeat, such as codes.
type codes map[string]string

// maxCodes is the maximum number of interned texts: more than common invoices contain.
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

// sawCurrency records the currency of an amount that has just been read.
func (b *builder) sawCurrency() {
	known := slices.ContainsFunc(b.currencies, func(s currencyUse) bool { return s.currency == b.currency })
	if b.currency != "" && !known && len(b.currencies) < 16 {
		b.currencies = append(b.currencies, currencyUse{b.currency, invoice.Breach{Rule: "SD-02", Place: b.place(nil), Line: b.lineNo}})
	}
	b.currency = ""
}

// ublCurrency records the currency of a UBL amount, and a breach of BR-CL-03 if there is none.
func (b *builder) ublCurrency() {
	if b.currency == "" {
		b.recordBreach("BR-CL-03", nil)
	}
	b.sawCurrency()
}

// finish completes the document with everything that depends on the whole file: totals of VAT,
// currencies, and the normal form.
func (b *builder) finish() {
	d := b.doc
	own := 0 // number of totals in the invoice's currency
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
		b.recordBreach("BR-CO-15", nil)
	}
	plain(d)
}

// plain normalizes a document so that equal contents give equal models: it drops optional totals of
// 0 and base quantities of 1.
func plain(d *invoice.Document) {
	for _, total := range []*invoice.Decimal{&d.Totals.Allowances, &d.Totals.Charges, &d.Totals.Prepaid, &d.Totals.Rounding} {
		if total.Sign() == 0 {
			*total = invoice.Decimal{}
		}
	}
	plainLines(d.Lines)
}

// plainGross makes the base quantity of the gross price the common base of both prices, unless the
// net price has another one.
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

// plainLines normalizes lines and their sublines in place.
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

// addReference adds the document reference to the part of the model that its type selects: 130 is
// the invoiced object (BT-18), 50 the tender or project, any other an attachment.
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

// checkReference records breaches of the rules on the type of a document reference.
func (b *builder) checkReference() {
	ref, ubl := &b.ref, b.doc.Written.Syntax == invoice.UBLSyntax
	project := ref.kind == "50" && (!ubl || b.doc.Written.CreditNote)
	switch {
	case ubl && ref.kind != "130" && !project && (ref.kind != "" || ref.scheme != ""):
		b.recordBreach("UBL-SR-43", nil)
	case !ubl && ref.kind != "" && ref.kind != "130" && ref.kind != "50" && ref.kind != "916":
		b.recordBreach("CII-DT-018", nil)
	}
	if !ubl && ref.kind != "916" && (ref.attachment.Text != "" || ref.attachment.URL != "" || ref.embedded) {
		b.recordBreach("CII-DT-021", nil)
	}
	if !ubl && ref.kind != "130" && ref.scheme != "" {
		b.recordBreach("CII-DT-024", nil)
	}
	if ref.kind == "130" && b.doc.Object.ID != "" && ubl {
		b.recordBreach("UBL-SR-04", nil)
	}
	if ref.attachment.ID == "" && (ref.kind == "130" || ref.kind == "50") {
		b.recordBreach("BR-52", nil)
	}
	if ref.embedded && ubl {
		if ref.attachment.Type == "" {
			b.recordBreach("UBL-DT-06", nil)
		}
		if ref.attachment.Name == "" {
			b.recordBreach("UBL-DT-07", nil)
		}
	}
}

// endTax stores a tax number at its place. If the place already has one, it records a breach of the
// rule twice; without such a rule, a contradiction.
func (b *builder) endTax(at *string, twice string) {
	switch {
	case *at == "":
		*at = b.tax.id
	case twice != "":
		b.recordBreach(twice, nil)
	case *at != b.tax.id && b.tax.id != "":
		b.repeated("a party's number for tax")
	}
}

// endTaxUBL stores a UBL tax number: scheme VAT is the VAT id, any other scheme the local tax
// number (BT-32).
func endTaxUBL(b *builder) {
	vat := strings.EqualFold(b.tax.scheme, "VAT")
	if b.tax.scheme == "" || b.tax.id == "" {
		b.recordBreach("UBL-SR-53", nil)
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

// endTaxCII stores a CII tax number: scheme VA is the VAT id, FC the local tax number. Any other
// scheme gives the warning SD-06.
func endTaxCII(b *builder) {
	switch b.tax.scheme {
	case "VA":
		b.endTax(&b.party.VATID, "")
	case "FC":
		b.endTax(&b.party.TaxID, "")
	default:
		b.recordBreach("SD-06", nil)
	}
}

// endPartyID adds an identifier to the open party. An identifier of scheme SEPA becomes the
// creditor's.
func (b *builder) endPartyID() {
	switch sepa := b.id.Scheme == "SEPA"; {
	case sepa && b.party != &b.doc.Seller && b.party != b.doc.Payee:
		b.recordBreach("BR-CL-10", nil)
	case b.id.ID == "":
	case sepa:
		if b.doc.Creditor != "" && b.doc.Written.Syntax == invoice.UBLSyntax {
			b.recordBreach("UBL-SR-29", nil)
		}
		b.doc.Creditor = b.id.ID
	case b.party == b.doc.Payee && len(b.party.IDs) > 0 && b.doc.Written.Syntax == invoice.UBLSyntax:
		b.recordBreach("UBL-SR-20", nil)
	default:
		b.party.IDs = append(b.party.IDs, b.id)
	}
}

// addAllowance appends an allowance or charge to a list and makes it the current one.
func (b *builder) addAllowance(to *[]invoice.Allowance) {
	*to = append(*to, invoice.Allowance{})
	b.allowance = &(*to)[len(*to)-1]
}

// scanned converts an error of the XML scanner into an Error of this package. It returns other
// errors unchanged.
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
