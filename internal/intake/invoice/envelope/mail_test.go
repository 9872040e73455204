package envelope

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"example.org/smartdrive/internal/intake/invoice/invoicetest"
	"example.org/smartdrive/internal/intake/invoice/syntax"
)

// letter returns an e-mail with a text and attachments; files alternates between name and content.
func letter(files ...string) string {
	var b strings.Builder
	b.WriteString("Received: by mail.example; Mon, 5 Oct 2026 12:00:00 +0000\r\nFrom: a@example.com\r\nSubject: =?utf-8?q?Rechnung?=\r\nMIME-Version: 1.0\r\n" +
		"Content-Type: multipart/mixed; boundary=\"b\"\r\n\r\nan old reader sees this\r\n--b\r\nContent-Type: text/plain\r\n\r\nSee the invoice.\r\n")
	for i := 0; i+1 < len(files); i += 2 {
		fmt.Fprintf(&b, "--b\r\nContent-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\nContent-Disposition: attachment; filename=%q\r\n\r\n", files[i])
		for text := base64.StdEncoding.EncodeToString([]byte(files[i+1])); text != ""; text = text[min(76, len(text)):] {
			b.WriteString(text[:min(76, len(text))] + "\r\n")
		}
	}
	b.WriteString("--b--\r\n")
	return b.String()
}

// forwarded returns an e-mail that contains a message.
func forwarded(message string) string {
	return "Subject: Fwd\r\nContent-Type: multipart/mixed; boundary=f\r\n\r\n--f\r\nContent-Type: message/rfc822\r\n\r\n" + message + "\r\n--f--\r\n"
}

func TestInvoicesOfMailsAreFound(t *testing.T) {
	t.Parallel()
	ubl, cii := string(invoicetest.UBL(invoicetest.New(1))), string(invoicetest.CII(invoicetest.New(2)))
	fapiao := string(invoicetest.Fapiao(invoicetest.Chinese(2)))
	hybrid := string(invoicetest.PDF{}.Embed("factur-x.xml", []byte(cii)))
	for name, c := range map[string]struct {
		in   string
		want int
	}{
		"XML":                       {letter("r.xml", ubl), 1},
		"two, and a picture":        {letter("r.xml", ubl, "logo.png", "\x89PNG", "s.xml", cii), 2},
		"XML and its PDF":           {letter("r.pdf", hybrid, "r.xml", cii), 1},
		"PDF":                       {letter("r.pdf", hybrid), 1},
		"OFD":                       {letter("r.ofd", string(archive(t, "OFD.xml", "<ofd/>", "a.xml", fapiao))), 1},
		"forwarded":                 {forwarded(letter("r.xml", ubl)), 1},
		"another XML":               {letter("a.xml", "<a/>", "r.xml", ubl), 1},
		"the mail itself is one":    {"From: a\r\nContent-Type: application/xml\r\n\r\n" + ubl, 1},
		"nothing but a text":        {letter(), 0},
		"a PDF without an invoice":  {letter("r.pdf", string(invoicetest.PDF{}.Embed("a.txt", []byte("a")))), 0},
		"quoted-printable":          {"From: a\nContent-Transfer-Encoding: quoted-printable\n\n" + strings.ReplaceAll(strings.ReplaceAll(ubl, "=", "=3D"), ">", ">=\n"), 1},
		"a picture that is damaged": {strings.Replace(letter("logo.png", "\x89PNG", "r.xml", ubl), "iVBORw==", "!!!!", 1), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			docs, errs := decodeAll([]byte(c.in))
			if len(docs) != c.want || c.want > 0 && len(errs) > 0 {
				t.Fatalf("%d documents, %v; want %d", len(docs), errs, c.want)
			}
			if c.want == 0 {
				bad, ok := errors.AsType[*syntax.Error](errs[0])
				if len(errs) != 1 || !ok || bad.Kind != syntax.Unsupported {
					t.Errorf("%v", errs)
				}
			}
			if n, err := Count(Mail, strings.NewReader(c.in), int64(len(c.in))); n != c.want || err != nil {
				t.Errorf("%d are counted, error %v; want %d", n, err, c.want)
			}
		})
	}
}

// nested returns a message within a message, depth levels deep.
func nested(depth int) string {
	m := "From: a\r\n\r\nend"
	for range depth {
		m = "Content-Type: message/rfc822\r\n\r\n" + m
	}
	return m
}

func TestHostileMails(t *testing.T) {
	t.Parallel()
	const entities = `<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]><Invoice xmlns="urn:oasis:names:specification:ubl:schema:xsd:Invoice-2">&b;</Invoice>`
	many := "Content-Type: multipart/mixed; boundary=b\r\n\r\n" + strings.Repeat("--b\r\n\r\nx\r\n", maxMailParts+1) + "--b--"
	bomb := letter("r.pdf", "%PDF-1.7"+strings.Repeat("\x00", maxMailFile))
	for name, c := range map[string]struct {
		in   string
		want syntax.Kind
	}{
		"a message in a message, without end": {nested(100), syntax.Limit},
		"parts":                               {many, syntax.Limit},
		"a header":                            {"From: " + strings.Repeat("a", 2*maxMailHeader), syntax.Limit},
		"lines of a header":                   {strings.Repeat("From: a\r\n", maxMailHeader), syntax.Malformed},
		"a large PDF":                         {bomb, syntax.Limit},
		"a header that is none":               {"From: a\r\nnonsense\r\n\r\n", syntax.Malformed},
		"broken off":                          {"Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\nx", syntax.Malformed},
		"entities":                            {letter("r.xml", entities), syntax.Unsupported},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			docs, errs := decodeAll([]byte(c.in))
			if len(docs) != 0 || len(errs) != 1 {
				t.Fatalf("%d documents, %v", len(docs), errs)
			}
			if bad, ok := errors.AsType[*syntax.Error](errs[0]); !ok || bad.Kind != c.want {
				t.Errorf("%v, want %s", errs[0], c.want)
			}
		})
	}
}

// TestFilesOfInvoicesInMailsAreExtracted extracts the files embedded in an invoice that is attached
// to an e-mail.
func TestFilesOfInvoicesInMailsAreExtracted(t *testing.T) {
	t.Parallel()
	full := invoicetest.New(7)
	raw := string(invoicetest.UBL(full))
	file := "%PDF-1.7 the picture"
	raw = strings.Replace(raw, "<cac:AccountingSupplierParty>", `<cac:AdditionalDocumentReference><cbc:ID>1</cbc:ID><cac:Attachment>`+
		`<cbc:EmbeddedDocumentBinaryObject mimeCode="application/pdf" filename="r.pdf">`+base64.StdEncoding.EncodeToString([]byte(file))+
		`</cbc:EmbeddedDocumentBinaryObject></cac:Attachment></cac:AdditionalDocumentReference><cac:AccountingSupplierParty>`, 1)
	in := letter("other.xml", string(invoicetest.CII(invoicetest.New(1))), "r.xml", raw)
	docs, errs := decodeAll([]byte(in))
	if len(errs) > 0 || len(docs) != 2 || len(docs[1].Attachments) == 0 {
		t.Fatalf("%v, error %v", docs, errs)
	}
	sum := docs[1].Attachments[len(docs[1].Attachments)-1].SHA256
	var got bytes.Buffer
	if err := Extract(strings.NewReader(in), int64(len(in)), sum, &got); err != nil || got.String() != file {
		t.Errorf("%q, error %v", got.String(), err)
	}
	if err := Extract(strings.NewReader(in), int64(len(in)), strings.Repeat("0", 64), &got); !errors.Is(err, ErrNoFile) {
		t.Errorf("another one: %v", err)
	}
}

// FuzzMail checks that decoding any e-mail terminates, and that Count agrees with Decode.
func FuzzMail(f *testing.F) {
	ubl := string(invoicetest.UBL(invoicetest.New(1)))
	for _, seed := range []string{letter("r.xml", ubl), letter("r.pdf", string(invoicetest.PDF{}.Embed("factur-x.xml", invoicetest.CII(invoicetest.New(2))))), forwarded(letter("r.xml", ubl)), nested(3)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		found := 0
		for _, err := range Decode(Mail, bytes.NewReader(in), int64(len(in)), Limits{Limits: syntax.Limits{Bytes: 1 << 20, Kept: 1 << 18, Items: 1000}}) {
			if found++; err != nil {
				if bad, ok := errors.AsType[*syntax.Error](err); !ok || bad.Text == "" {
					t.Fatalf("no error of a document: %v", err)
				}
			}
		}
		n, err := Count(Mail, bytes.NewReader(in), int64(len(in)))
		if err != nil || n != found && (n != 0 || found != 1) {
			t.Fatalf("%d are counted, error %v; %d are read", n, err, found)
		}
	})
}
