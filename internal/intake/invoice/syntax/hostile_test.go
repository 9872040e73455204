package syntax

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/intake/invoice"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
)

// decodeAll returns the documents and errors of a file.
func decodeAll(format Format, from io.Reader, limits Limits) (docs []*invoice.Document, errs []error) {
	for d, err := range Decode(format, from, limits) {
		if err != nil {
			errs = append(errs, err)
		} else {
			docs = append(docs, d)
		}
	}
	return docs, errs
}

// ubl, cii and ndjson return an invoice in that format in which one text is replaced by another
// everywhere.
func ubl(old, text string) string {
	return strings.ReplaceAll(string(invoicetest.UBL(invoicetest.Full(1))), old, text)
}

func cii(old, text string) string {
	return strings.ReplaceAll(string(invoicetest.CII(invoicetest.Full(1))), old, text)
}

func ndjson(old, text string) string {
	return strings.ReplaceAll(string(invoicetest.NDJSON(invoicetest.Full(1))), old, text)
}

func TestDocumentsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	small := Limits{Bytes: 64 << 10, Kept: 16 << 10, Text: 2 << 10, Depth: 16, Attributes: 16, Items: 200}
	bomb := `<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>` + "\n<Invoice "
	for name, c := range map[string]struct {
		format Format
		in     string
		want   Kind
		line   int
		text   string
	}{
		"truncated":             {UBL, ubl("</Invoice>", ""), Malformed, 3, "ends too early"},
		"two roots":             {UBL, ubl("</Invoice>", "</Invoice><a/>"), Malformed, 2, "second root"},
		"entities":              {UBL, ubl("<Invoice ", bomb), Refused, 2, "DOCTYPE"},
		"an entity":             {CII, cii("<ram:BuyerReference>", "<ram:BuyerReference>&file;"), Refused, 2, "entity"},
		"deep":                  {UBL, ubl("<cbc:ProfileID>", strings.Repeat("<cac:Deep>", 100)), Limit, 2, "nested"},
		"an element in a value": {UBL, ubl("</cbc:ID><cbc:IssueDate>", "<x>99</x></cbc:ID><cbc:IssueDate>"), Malformed, 2, "within the value"},
		"attributes":            {CII, cii("<ram:BuyerReference>", "<ram:BuyerReference"+many(` a%d=""`, 100)+">"), Limit, 2, "attributes"},
		"a long text":           {UBL, ubl("14 days", strings.Repeat("14 days", 1000)), Limit, 2, "longer"},
		"long texts":            {UBL, ubl("<cbc:Note>", strings.Repeat("<cbc:Note>"+strings.Repeat("a", 1500)+"</cbc:Note>", 20)+"<cbc:Note>"), Limit, 2, "together"},
		"many lines":            {CII, cii("<rsm:SupplyChainTradeTransaction>", "<rsm:SupplyChainTradeTransaction>"+many("<ram:IncludedSupplyChainTradeLineItem/>", 300)), Limit, 2, "too many"},
		"a long document":       {UBL, ubl("<cbc:ID>", "<!--"+strings.Repeat(" ", 70<<10)+"--><cbc:ID>"), Limit, 2, "longer"},
		"no number":             {UBL, ubl("<cbc:PriceAmount currencyID=\"EUR\">", "<cbc:PriceAmount currencyID=\"EUR\">1,0"), BadValue, 2, "cbc:PriceAmount: "},
		"no date":               {UBL, ubl("<cbc:IssueDate>2026", "<cbc:IssueDate>9999-99-99"), BadValue, 2, "cbc:IssueDate: "},
		"neither":               {UBL, ubl("<cbc:ChargeIndicator>true", "<cbc:ChargeIndicator>yes"), BadValue, 2, "neither true nor false"},
		"no base64":             {UBL, ubl("<cac:Attachment>", "<cac:Attachment><cbc:EmbeddedDocumentBinaryObject>!!!!</cbc:EmbeddedDocumentBinaryObject>"), BadValue, 2, "base64"},
		"half a base64":         {UBL, ubl("<cac:Attachment>", "<cac:Attachment><cbc:EmbeddedDocumentBinaryObject>AAA</cbc:EmbeddedDocumentBinaryObject>"), BadValue, 2, "base64"},
		"a charset":             {UBL, ubl(`encoding="UTF-8"`, `encoding="EBCDIC"`), Unsupported, 1, "EBCDIC"},
		"another namespace":     {UBL, ubl("schema:xsd:Invoice-2", "schema:xsd:Invoice-3"), Unsupported, 0, "root element"},
		"another root":          {UBL, cii("", ""), Unsupported, 0, "root element"},
		"another profile":       {UBL, ubl(invoice.ProfileCore, "urn:factur-x.eu:1p0:minimum"), Unsupported, 0, "profile"},
		"an extension":          {CII, cii("#compliant#", "#conformant#"), Unsupported, 0, "profile"},
		"another year":          {UBL, ubl("en16931:2017", "en16931:2027"), Unsupported, 0, "profile"},
		"lines in lines": {
			CII, cii("<ram:LineID>", "<ram:ParentLineID>1</ram:ParentLineID><ram:LineID>"), Unsupported, 0, "lines within lines",
		},
		"an archive": {Unknown, "PK\x03\x04", Unsupported, 0, "not supported"},

		"a member that is unknown": {NDJSON, ndjson(`"number"`, `"nummer"`), Malformed, 1, "nummer"},
		"a member twice":           {NDJSON, ndjson(`"number":`, `"number":"1","number":`), Malformed, 1, "twice"},
		"capitals":                 {NDJSON, ndjson(`"number"`, `"Number"`), Malformed, 1, "Number"},
		"two documents in a line":  {NDJSON, ndjson("\n", "{}"), Malformed, 1, "behind"},
		"not ended":                {NDJSON, ndjson("}\n", ""), Malformed, 1, ""},
		"a float":                  {NDJSON, ndjson(`"price":"`, `"price":"1e`), BadValue, 1, "price: "},
		"nested":                   {NDJSON, strings.Repeat(`{"lines":[`, 30), Limit, 1, "nested"},
		"a long line":              {NDJSON, `{"number":"` + strings.Repeat("1", 17<<10), Limit, 1, "longer"},
		"a longer line":            {NDJSON, `{"number":"` + strings.Repeat("1", 200<<10), Limit, 1, "longer"},
		"items":                    {NDJSON, `{"lines":[` + strings.Repeat("{},", 300), Limit, 1, "too many"},
		"half a pair":              {NDJSON, `{"number":"\ud800"}`, Malformed, 1, "surrogate"},
		"a NUL":                    {NDJSON, `{"number":"\u0000"}`, Malformed, 1, "control"},
		"not UTF-8":                {NDJSON, "{\"number\":\"\xff\"}", Malformed, 1, "UTF-8"},
	} {
		docs, errs := decodeAll(c.format, strings.NewReader(c.in), small)
		var bad *Error
		if len(docs) != 0 || len(errs) != 1 || !errors.As(errs[0], &bad) {
			t.Errorf("%s: %d documents, errors %v", name, len(docs), errs)
			continue
		}
		if bad.Kind != c.want || bad.Line != c.line || !strings.Contains(bad.Text, c.text) || errors.Is(bad, ErrUnsupported) != (c.want == Unsupported) {
			t.Errorf("%s: %v, want %v in line %d with %q", name, bad, c.want, c.line, c.text)
		}
	}
}

// many returns n copies of a text, with %d replaced by the number of the copy.
func many(format string, n int) string {
	var b strings.Builder
	for i := range n {
		if strings.Contains(format, "%d") {
			fmt.Fprintf(&b, format, i)
		} else {
			b.WriteString(format)
		}
	}
	return b.String()
}

// TestLinesAreLimited decodes a document at the limit of lines, and one beyond it, in each format.
func TestLinesAreLimited(t *testing.T) {
	t.Parallel()
	limits := Limits{Items: 20 * lineItems}
	for format, line := range map[Format]string{
		UBL: "<cac:CreditNoteLine/>", CII: "<ram:IncludedSupplyChainTradeLineItem/>", Fapiao: "<IssuItemInformation/>", NDJSON: ",{}",
	} {
		of := map[Format]string{
			UBL:    `<CreditNote xmlns="` + ublSpaces[1] + `" xmlns:cac="` + ublSpaces[2] + `">%s</CreditNote>`,
			CII:    `<r:CrossIndustryInvoice xmlns:r="` + ciiSpaces[0] + `" xmlns:ram="` + ciiSpaces[1] + `"><r:SupplyChainTradeTransaction>%s</r:SupplyChainTradeTransaction></r:CrossIndustryInvoice>`,
			Fapiao: "<EInvoice><EInvoiceData>%s</EInvoiceData></EInvoice>", NDJSON: `{"lines":[%s]}`,
		}[format]
		for n, want := range map[int]int{20: 0, 21: 1} {
			docs, errs := decodeAll(format, strings.NewReader(fmt.Sprintf(of, strings.TrimPrefix(strings.Repeat(line, n), ","))), limits)
			if len(errs) != want || len(docs) != 1-want {
				t.Errorf("%s, %d lines: %d documents, errors %v", format, n, len(docs), errs)
			}
		}
	}
}

func TestBadLineDoesNotStopOthers(t *testing.T) {
	t.Parallel()
	a, b := invoicetest.New(1), invoicetest.New(2)
	in := string(invoicetest.NDJSON(a)) + "\r\n{\"number\":\n[]\n" + strings.Repeat("x", 100<<10) + "\n" + strings.TrimSuffix(string(invoicetest.NDJSON(b)), "\n")
	docs, errs := decodeAll(NDJSON, strings.NewReader(in), Limits{Kept: 64 << 10})
	if diff := cmp.Diff([]*invoice.Document{a, b}, docs); diff != "" {
		t.Error(diff)
	}
	var got []string
	for _, err := range errs {
		if bad, ok := errors.AsType[*Error](err); ok {
			got = append(got, fmt.Sprintf("%s %d", bad.Kind, bad.Line))
		}
	}
	if diff := cmp.Diff([]string{"malformed 3", "malformed 4", "limit 5"}, got); diff != "" {
		t.Errorf("%s\n%v", diff, errs)
	}
}

// TestErrorsOfTheReaderStayThemselves checks that an error of the reader is not reported as an
// error of the document.
func TestErrorsOfTheReaderStayThemselves(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is gone")
	for format, text := range map[Format][]byte{
		UBL: invoicetest.UBL(invoicetest.New(1)), CII: invoicetest.CII(invoicetest.New(1)),
		Fapiao: invoicetest.Fapiao(invoicetest.Chinese(1)), NDJSON: invoicetest.NDJSON(invoicetest.New(1)),
	} {
		for n := 0; n < len(text)-1; n += 97 {
			docs, errs := decodeAll(format, io.MultiReader(bytes.NewReader(text[:n]), iotest.ErrReader(broken)), Limits{})
			if len(docs) != 0 || len(errs) != 1 || !errors.Is(errs[0], broken) {
				t.Fatalf("%s after %d bytes: %d documents, errors %v", format, n, len(docs), errs)
			}
		}
	}
}

// TestContradictionsAreRemembered checks that a second, different value is recorded, because
// programs may disagree on which value counts.
func TestContradictionsAreRemembered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want string }{
		"a second number": {ubl("<cbc:IssueDate>", "<cbc:ID>another</cbc:ID><cbc:IssueDate>"), "cbc:ID"},
		"a second total":  {cii("<ram:DuePayableAmount>", "<ram:DuePayableAmount>1</ram:DuePayableAmount><ram:DuePayableAmount>"), "ram:DuePayableAmount"},
		"a second VAT id": {
			cii("<ram:SpecifiedTaxRegistration>", `<ram:SpecifiedTaxRegistration><ram:ID schemeID="VA">DE1</ram:ID></ram:SpecifiedTaxRegistration><ram:SpecifiedTaxRegistration>`),
			"number for tax",
		},
		"a second VAT total": {
			ubl("<cac:LegalMonetaryTotal>", `<cac:TaxTotal><cbc:TaxAmount currencyID="EUR">1</cbc:TaxAmount></cac:TaxTotal><cac:LegalMonetaryTotal>`),
			"the total of VAT",
		},
	} {
		d := mustDecode(t, []byte(c.in))
		if len(d.Repeated) == 0 || !strings.Contains(d.Repeated[0], c.want) {
			t.Errorf("%s: %q", name, d.Repeated)
		}
	}
	same := mustDecode(t, []byte(strings.Replace(ubl("", ""), "<cbc:IssueDate>", "<cbc:ID> R-00000001</cbc:ID><cbc:IssueDate>", 1)))
	if len(same.Repeated) != 0 {
		t.Errorf("the same value twice: %q", same.Repeated)
	}
}

func TestAmountsInOtherCurrenciesAreNamed(t *testing.T) {
	t.Parallel()
	for want, in := range map[string]string{
		"USD": strings.Replace(ubl("", ""), `<cbc:PayableAmount currencyID="EUR">`, `<cbc:PayableAmount currencyID="USD">`, 1),
		"GBP": ubl(`<cbc:TaxAmount currencyID="USD">`, `<cbc:TaxAmount currencyID="GBP">`), // neither BT-5 nor BT-6
		"CHF": cii(`<ram:DuePayableAmount>`, `<ram:DuePayableAmount currencyID="CHF">`),
	} {
		if diff := cmp.Diff([]string{want}, mustDecode(t, []byte(in)).OtherCurrencies); diff != "" {
			t.Error(diff)
		}
	}
}

func TestDatesInAllSpellings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"2026-10-01": "2026-10-01", "20261001": "2026-10-01", "2026-10-01 09:30:00": "2026-10-01", "2026-10-01T09:30:00+08:00": "2026-10-01",
		"2026-10-01Z": "2026-10-01", "2026-10-01+02:00": "2026-10-01", "2026年10月01日": "2026-10-01", "20261001093000": "2026-10-01",
		"2026-10-011": "", "01.10.2026": "", "2026-02-30": "", "202610010930": "",
	} {
		got, err := parseDate([]byte(text))
		if got.String() != want || (err == nil) != (want != "") {
			t.Errorf("%s is %s, error %v", text, got, err)
		}
	}
}

func TestMoreSpecificIdentifierIsUsed(t *testing.T) {
	t.Parallel()
	d := mustDecode(t, []byte(cii("</ram:IBANID>", "</ram:IBANID><ram:ProprietaryID>1</ram:ProprietaryID>")))
	if d.Payments[0].Account != "DE00000000000000000000" || len(d.Repeated) > 0 {
		t.Errorf("account %q, repeated %q", d.Payments[0].Account, d.Repeated)
	}
	d = mustDecode(t, []byte(cii("<ram:ShipToTradeParty>", "<ram:ShipToTradeParty><ram:ID>68</ram:ID>")))
	if d.Delivery.Location.ID != "0000000000000" || d.Delivery.Location.Scheme != "0088" || len(d.Repeated) > 0 {
		t.Errorf("place %v, repeated %q", d.Delivery.Location, d.Repeated)
	}
}

func TestEmbeddedFilesAreHashedAndNotKept(t *testing.T) {
	t.Parallel()
	const object = `<cbc:EmbeddedDocumentBinaryObject mimeCode="application/pdf" filename="a.pdf">JVBE
		Ri0xLjQ=</cbc:EmbeddedDocumentBinaryObject>`
	d := mustDecode(t, []byte(ubl("<cac:Attachment>", "<cac:Attachment>"+object)))
	sum := sha256.Sum256([]byte("%PDF-1.4"))
	want := invoice.Attachment{
		ID: "Timesheet", Text: "Hours", URL: "https://example.com/hours.pdf", Name: "a.pdf", Type: "application/pdf", Size: 8,
		SHA256: hex.EncodeToString(sum[:]),
	}
	if diff := cmp.Diff(want, d.Attachments[0]); diff != "" {
		t.Error(diff)
	}
}

// TestUnreadNamesWhatItIs checks the explanations for unsupported formats that people mistake for
// invoices.
func TestUnreadNamesWhatItIs(t *testing.T) {
	t.Parallel()
	for head, want := range map[string]string{
		`<rsm:CrossIndustryDocument xmlns:rsm="urn:ferd:CrossIndustryDocument:invoice:1p0">`: "unsupported: this is ZUGFeRD 1, which was replaced in 2019",
		`<rsm:CrossIndustryOrder xmlns:rsm="urn:un">`:                                        "unsupported: this is an order (Order-X)",
		`<html>`: "unsupported: the format of this file is not supported",
	} {
		if got := Unread([]byte(head)).Error(); Sniff([]byte(head)) != Unknown || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s", head, got)
		}
	}
}

func TestSniff(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]Format{
		"": Unknown, "PK\x03\x04": Unknown, "%PDF-1.7": Unknown, "<html/>": Unknown, "<Invoice/>": Unknown, `{"number":"1"}`: NDJSON, " \n{": NDJSON,
		"{ }": NDJSON, "{number: 1}\n": NDJSON, "{\xd6\xd0": NDJSON, `{\rtf1\ansi x}`: Unknown, "{\x91\x02q": Unknown, "{\x00": Unknown,
		"<EInvoice>": Fapiao, "[1]": Unknown, `<!DOCTYPE a><EInvoice/>`: Unknown,
		"<!-- " + strings.Repeat("licence ", 1000) + " --><x:CreditNote xmlns:x='" + ublSpaces[1] + "' a='b": Unknown,
		"<!-- " + strings.Repeat("licence ", 1000) + " --><x:CreditNote xmlns:x='" + ublSpaces[1] + "'><x":   UBL,
	} {
		if got := Sniff([]byte(in)); got != want {
			t.Errorf("%.40q is %s, want %s", in, got, want)
		}
	}
}
