package rest_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/intake/bundle"
	"smartdrive/internal/intake/invoice"
	"smartdrive/internal/intake/invoice/invoicetest"
	"smartdrive/internal/usecase/upload/uploadtest"
)

// takeIn sends a bundle of documents and has it taken in; it returns the ids of the bundle and of
// one document.
func (u user) takeIn(t testing.TB, all ...*invoice.Document) (bundleID, document string) {
	t.Helper()
	return u.takeInMember(t, "a.ndjson", len(all), invoicetest.NDJSON(all...))
}

// takeInMember sends a bundle of one member.
func (u user) takeInMember(t testing.TB, name string, documents int, lines []byte) (bundleID, document string) {
	t.Helper()
	sum := sha256.Sum256(lines)
	m := bundle.Manifest{Schema: bundle.Schema, ID: bundle.NewID(), Source: "acme", CreatedAt: time.Unix(1_800_000_000, 0)}
	m.Members = append(m.Members, bundle.Member{Name: name, Size: int64(len(lines)), SHA256: hex.EncodeToString(sum[:]), Documents: documents})
	raw, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string][]byte{name: lines, "meta.json": raw} {
		u.send(t, "PUT", "/files"+bundle.Folder("acme", m.ID).String()+"/"+name+"?parents=true", body)
	}
	if err := u.intake.Reconcile(t.Context()); err != nil { // the site's tree tells nobody
		t.Fatal(err)
	}
	if err := u.intake.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	return u.get(t, "/bundles").items(t)[0]["id"].(string), u.get(t, "/documents").items(t)[0]["id"].(string)
}

// What is embedded in a document is sent as what it is, to its account and to nobody else.
func TestEmbeddedFilesAreSent(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u, bob := s.newUser(t, "ann", drive.GiB), s.newUser(t, "bob", drive.GiB)
	d := invoicetest.New(1)
	d.Attachments = []invoice.Attachment{{ID: "Timesheet", URL: "https://example.com/hours.pdf"}}
	for kind, want := range map[string]string{"application/pdf": "application/pdf", "text/csv": "text/csv"} {
		d.Number = kind
		const content = "%PDF-1.4"
		raw := strings.Replace(string(invoicetest.UBL(d)), "<cac:Attachment>",
			`<cac:Attachment><cbc:EmbeddedDocumentBinaryObject mimeCode="`+kind+`" filename="../账单.pdf">JVBERi0xLjQ=</cbc:EmbeddedDocumentBinaryObject>`, 1)
		_, id := u.takeInMember(t, "a.xml", 1, []byte(raw))
		sum := sha256.Sum256([]byte(content))
		at := "/documents/" + id + "/attachments/" + hex.EncodeToString(sum[:])
		r := s.do(t, request{method: "GET", path: "/api/v1" + at, token: u.token})
		if r.StatusCode != http.StatusOK || string(r.body) != content || r.Header.Get("Content-Type") != want || r.Header.Get("Content-Length") != "8" {
			t.Errorf("%s %q as %s", r.Status, r.body, r.Header.Get("Content-Type"))
		}
		for name, part := range map[string]string{"Content-Disposition": "attachment; filename=\"__.pdf\"", "Content-Security-Policy": "sandbox", "X-Content-Type-Options": "nosniff"} {
			if got := r.Header.Get(name); !strings.Contains(got, part) {
				t.Errorf("%s is %q", name, got)
			}
		}
		for token, path := range map[string]string{bob.token: at, u.token: at[:len(at)-1] + "x", "": at} {
			if r := s.do(t, request{method: "GET", path: "/api/v1" + path, token: token}); r.StatusCode != http.StatusNotFound && (token != "" || r.StatusCode != http.StatusUnauthorized) {
				t.Errorf("%s as somebody else: %s", path, r.Status)
			}
		}
	}
}

// What was taken in is shown to its account and to nobody else; a list as CSV gives no spreadsheet
// a formula; one as JSON lines has them all.
func TestDocumentsAreShown(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u := s.newUser(t, "ann", drive.GiB)
	ann, bob := u.token, s.newUser(t, "bob", drive.GiB).token
	d := invoicetest.New(1)
	d.Buyer.Name = "=1+1"
	u.takeIn(t, d, invoicetest.New(2), invoicetest.New(3))
	get := func(token, path string) response {
		return s.do(t, request{method: "GET", path: "/api/v1" + path, token: token})
	}
	if r := get(ann, "/documents?format=ndjson"); r.StatusCode != http.StatusOK || bytes.Count(r.body, []byte("\n")) != 3 {
		t.Errorf("%s %s", r.Status, r.body)
	}
	r := get(ann, "/documents?format=csv")
	rows, err := csv.NewReader(bytes.NewReader(r.body)).ReadAll()
	if err != nil || len(rows) != 4 {
		t.Fatalf("%d rows: %v", len(rows), err)
	}
	for _, row := range rows[1:] {
		for _, cell := range row {
			if strings.HasPrefix(cell, "=") {
				t.Errorf("a spreadsheet would compute %q", cell)
			}
		}
	}
	for _, path := range []string{"/documents", "/bundles", "/conflicts", "/sources", "/rejections"} {
		if r := get(bob, path); r.StatusCode != http.StatusOK || !strings.Contains(string(r.body), `"items":[]`) {
			t.Errorf("bob sees at %s: %s %s", path, r.Status, r.body)
		}
	}
	if r := get(bob, "/documents/"+rows[1][0]); r.StatusCode != http.StatusNotFound {
		t.Errorf("bob opens a document: %s", r.Status)
	}
	if r := get(ann, "/documents?min=x"); r.StatusCode != http.StatusBadRequest {
		t.Errorf("a limit that is no number: %s", r.Status)
	}
}
