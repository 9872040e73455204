package ingest

import (
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/intake/invoice"
	"smartdrive/internal/intake/invoice/rule"
	"smartdrive/internal/intake/invoice/syntax"
)

// item is what a bundle declares, on its way into a record.
type item struct {
	member, index int64
	outcome       Outcome
	reason        string
	counts        int64
	number        string
	findings      string
	document      drive.DocumentID
	doc           *document // nil: it is rejected
	surplus       bool
}

// document is a row of documents, as it is made of a model.
type document struct {
	key, hash            string
	typ, number, dated   string
	sellerID, sellerName string
	buyerID, buyerName   string
	currency             string
	total, payable       string
	totalE4              int64
	search               string
	body                 []byte
	file, pdf            drive.NodeID
}

// The longest texts of a row, in bytes. What people read is cut; what identifies is not.
const (
	maxID     = 255
	maxText   = 500
	maxSearch = 1000
)

// DocumentFinding is a rule that a document breaks.
type DocumentFinding struct {
	Rule     string `json:"rule"`
	Severity string `json:"severity" enum:"fatal,warning"`
	Text     string `json:"text" doc:"what must hold, and where it does not"`
	Place    string `json:"place,omitempty" doc:"where in the file, as a path of XPath"`
	Line     int    `json:"line,omitempty" doc:"of the file, from 1"`
	Expected string `json:"expected,omitempty" doc:"the number that follows from the others"`
	Found    string `json:"found,omitempty" doc:"the number that is there"`

	Terms []string `json:"terms,omitempty" doc:"the business terms of EN 16931 that it is about"` // read from Text
}

// In says the finding in another language.
func (f DocumentFinding) In(l rule.Language) DocumentFinding {
	if kind, ok := syntax.KindNamed(f.Rule); ok {
		f.Text = l.Unread(kind.String(), f.Text)
	} else {
		f.Text = l.In(f.Text)
	}
	return f
}

// maxFindings is how many findings of a document are kept, and maxFindingsBytes how long they are
// together: the column is a TEXT of MySQL.
const (
	maxFindings      = rule.MaxFindings
	maxFindingsBytes = 60_000
)

// encodeFindings keeps as many findings as there is room for. When there are more, the last one
// says how many.
func encodeFindings(all []DocumentFinding) string {
	for keep := min(len(all), maxFindings); keep > 0; keep -= 1 + keep/4 {
		some := make([]DocumentFinding, keep, keep+1)
		copy(some, all)
		for i := range some {
			some[i].Text, some[i].Place = clip(some[i].Text, maxText), clip(some[i].Place, maxID)
		}
		if more := len(all) - keep; more > 0 {
			some = append(some, DocumentFinding{Rule: "more", Severity: rule.Warning.String(), Text: fmt.Sprintf("and %d more findings", more)})
		}
		raw, err := json.Marshal(some)
		if err == nil && len(raw) <= maxFindingsBytes { // texts and numbers have no errors
			return string(raw)
		}
	}
	return ""
}

// judge decides about a document as far as that is possible without the others.
func (r *run) judge(one *item, doc *invoice.Document, m member) error {
	one.number = clip(doc.Number, maxID)
	found := rule.ValidateAs(doc, r.rules.Profile)
	var findings []DocumentFinding
	for _, f := range found {
		findings = append(findings, DocumentFinding{Rule: f.Rule, Severity: f.Severity.String(), Text: f.Text, Place: f.Place, Line: f.Line, Expected: f.Expected, Found: f.Found})
	}
	one.findings = encodeFindings(findings)
	one.outcome = Reject
	switch filtered := r.rules.refuses(doc); {
	case !rule.Valid(found):
		one.reason = reasonInvalid
		return nil
	case !doc.Key().Complete() || len(doc.Number) > maxID:
		one.reason = reasonNoKey
		return nil
	case filtered != "":
		one.reason = reasonFiltered + filtered
		return nil
	}
	return r.accepts(one, doc, m)
}

// accepts makes the row of a document that nothing speaks against, as far as that is known without
// the others.
func (r *run) accepts(one *item, doc *invoice.Document, m member) error {
	d, err := newDocument(r.b.Source, doc)
	if err != nil {
		return err
	}
	var named []string
	for _, a := range doc.Attachments {
		named = append(named, a.Name)
	}
	d.file, d.pdf = m.Node, r.pdfOf(m, doc.Number, named)
	one.doc, one.outcome, one.document = d, Accept, drive.NewID[drive.DocumentID]()
	return nil
}

func newDocument(source string, doc *invoice.Document) (*document, error) {
	body, err := pack(doc)
	if err != nil {
		return nil, err
	}
	sum := doc.Hash()
	d := &document{
		key: keyOf(source, doc.Key()), hash: hex.EncodeToString(sum[:]), typ: clip(doc.Type, 16), number: doc.Number, dated: doc.Date.String(),
		sellerID: clip(doc.Seller.ID(), maxID), sellerName: clip(doc.Seller.Name, maxText),
		buyerID: clip(doc.Buyer.ID(), maxID), buyerName: clip(doc.Buyer.Name, maxText), currency: ofLetters(doc.Currency, 16),
		total: doc.Totals.Gross.String(), payable: doc.Totals.Payable.String(), totalE4: tenThousandths(doc.Totals.Gross), body: body,
	}
	d.search = clip(fold(strings.Join([]string{d.number, d.sellerName, d.sellerID, d.buyerName, d.buyerID}, " ")), maxSearch)
	return d, nil
}

// ofLetters is what a column of ASCII takes of a code: one of a list is kept, and of what somebody
// accepted that is none at least that much. The model has it as it is.
func ofLetters(s string, most int) string {
	return clip(strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII {
			return -1
		}
		return r
	}, s), most)
}

func fold(s string) string { return drive.Name(s).Fold() }

// keyOf is the SHA-256 of source, seller, number and date, each behind its length.
func keyOf(source string, k invoice.Key) string {
	sum := sha256.New()
	for _, part := range []string{source, k.Seller, k.Number, k.Date.String()} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		sum.Write(size[:])
		sum.Write([]byte(part))
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// tenThousandths is the number in units of 1/10,000, further decimals cut off, and as large as
// fits: to filter by, not to add up.
func tenThousandths(d invoice.Decimal) int64 {
	whole, part, _ := strings.Cut(d.String(), ".")
	if whole == "" {
		return 0
	}
	n, err := strconv.ParseInt(whole+(part + "0000")[:4], 10, 64)
	switch {
	case err == nil:
		return n
	case d.Sign() < 0:
		return math.MinInt64
	default:
		return math.MaxInt64
	}
}

// pack is the model as it is kept: JSON, deflated. Characters of HTML stay as they are: escaped, a
// text of nothing else would take six times its memory.
func pack(doc *invoice.Document) ([]byte, error) {
	var b bytes.Buffer
	w := deflaters.Get().(*flate.Writer)
	defer deflaters.Put(w)
	w.Reset(&b)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(doc); err != nil {
		return nil, fmt.Errorf("encode document %q: %w", clip(doc.Number, maxID), err)
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// deflaters are kept: each has a megabyte of tables.
var deflaters = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, flate.BestSpeed)
	if err != nil {
		panic(err) // the level is one that there is
	}
	return w
}}

// unpackedMost is the longest model: its text is bounded when it is read.
const unpackedMost = 256 << 20

// Inflate is the JSON of a model that was packed.
func Inflate(packed []byte) io.Reader {
	return io.LimitReader(flate.NewReader(bytes.NewReader(packed)), unpackedMost)
}

func unpack(body []byte) (json.RawMessage, error) {
	raw, err := io.ReadAll(Inflate(body))
	if err != nil {
		return nil, fmt.Errorf("unpack a document: %w", err)
	}
	return raw, nil
}

func unpackDocument(body []byte) (*invoice.Document, error) {
	raw, err := unpack(body)
	if err != nil {
		return nil, err
	}
	doc := new(invoice.Document)
	if err := json.Unmarshal(raw, doc); err != nil {
		return nil, fmt.Errorf("decode a document: %w", err)
	}
	return doc, nil
}
