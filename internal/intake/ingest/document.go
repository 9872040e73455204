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

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/intake/invoice"
	"example.org/smartdrive/internal/intake/invoice/rule"
	"example.org/smartdrive/internal/intake/invoice/syntax"
)

// item is the outcome of one document of a bundle, or of several ones together, to be stored as a
// record.
type item struct {
	member, index int64
	outcome       Outcome
	reason        string // a code, for rejected documents and some duplicates
	counts        int64  // number of documents that the item stands for
	number        string
	findings      string           // DocumentFindings as JSON; empty: none
	document      drive.DocumentID // the stored document; zero: none
	doc           *document        // the row to insert; nil: the document is rejected
	surplus       bool             // found beyond the declared number of documents
}

// document is a row of the table documents, computed from a model.
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

// Maximum lengths of texts in a row, in bytes. Names are cut to fit; a document with a longer
// number is rejected.
const (
	maxID     = 255
	maxText   = 500
	maxSearch = 1000
)

// DocumentFinding reports a rule that a document breaks.
type DocumentFinding struct {
	Rule     string `json:"rule"`
	Severity string `json:"severity" enum:"fatal,warning"`
	Text     string `json:"text" doc:"the violated rule as text"`
	Place    string `json:"place,omitempty" doc:"place in the file, as an XPath"`
	Line     int    `json:"line,omitempty" doc:"line of the file, from 1"`
	Expected string `json:"expected,omitempty" doc:"expected value, computed from the other values"`
	Found    string `json:"found,omitempty" doc:"value in the document"`

	Terms []string `json:"terms,omitempty" doc:"affected business terms of EN 16931"` // extracted from Text
}

// In returns the finding with its text translated to language l.
func (f DocumentFinding) In(l rule.Language) DocumentFinding {
	if kind, ok := syntax.KindNamed(f.Rule); ok {
		f.Text = l.Unread(kind.String(), f.Text)
	} else {
		f.Text = l.In(f.Text)
	}
	return f
}

// maxFindings is the maximum number of findings stored per document, and maxFindingsBytes the
// maximum length of their JSON: the column is a TEXT of MySQL.
const (
	maxFindings      = rule.MaxFindings
	maxFindingsBytes = 60_000
)

// encodeFindings returns findings as JSON, at most maxFindings and maxFindingsBytes. If it drops
// some, it appends a finding with their number. Without findings it returns "".
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
		if err == nil && len(raw) <= maxFindingsBytes { // the types of the fields cannot fail to marshal
			return string(raw)
		}
	}
	return ""
}

// validate validates a document and sets its outcome to Accept or Reject, without comparing it with
// stored documents. It changes one in place. A document that breaks rules is no error; it fails
// only if the accepted one cannot be encoded.
func (r *run) validate(one *item, doc *invoice.Document, m member) error {
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

// accepts sets the outcome of an item to Accept, gives it a new id, and computes the row to insert.
// It does not compare it with stored documents; settleKeys does. It fails if the model cannot be
// encoded.
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

// newDocument computes the row of a document of a source, without the ids of its files. It fails if
// the model cannot be encoded.
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

// ofLetters drops all characters of a code beyond ASCII and cuts it to most bytes, so that it fits
// an ASCII column. Codes of a code list stay unchanged; the model keeps the original text.
func ofLetters(s string, most int) string {
	return clip(strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII {
			return -1
		}
		return r
	}, s), most)
}

// fold returns s folded for case-insensitive search, by the rule for names.
func fold(s string) string { return drive.Name(s).Fold() }

// keyOf returns the document key: the SHA-256, in hex, of source, seller, number and date, each
// preceded by its length.
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

// tenThousandths returns d in units of 1/10,000. Further decimals are cut off, values out of range
// become the smallest or largest int64, and a missing number becomes 0. The result is for filters,
// not for sums.
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

// pack returns the model as stored: deflated JSON. HTML characters are not escaped, because
// escaping could make a text six times as long. It fails if the model cannot be encoded.
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

// deflaters pools compressors, because each holds a megabyte of tables.
var deflaters = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, flate.BestSpeed)
	if err != nil {
		panic(err) // cannot happen: the level is valid
	}
	return w
}}

// unpackedMost is the maximum length in bytes of a model's JSON. Decoding limits models far below
// it.
const unpackedMost = 256 << 20

// Inflate returns a reader of the JSON of a packed model (see pack), which ends after 256 MiB
// without an error. Reading fails if packed is damaged.
func Inflate(packed []byte) io.Reader {
	return io.LimitReader(flate.NewReader(bytes.NewReader(packed)), unpackedMost)
}

// unpack returns the JSON of a packed model. It fails if body is damaged.
func unpack(body []byte) (json.RawMessage, error) {
	raw, err := io.ReadAll(Inflate(body))
	if err != nil {
		return nil, fmt.Errorf("unpack a document: %w", err)
	}
	return raw, nil
}

// unpackDocument decodes a packed model. It fails if body is damaged.
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
