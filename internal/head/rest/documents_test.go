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

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/intake/bundle"
	"example.org/smartdrive/internal/intake/invoice"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// takeIn sends a bundle of documents, waits for its intake, and returns the ids of the bundle and
// of one document.
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

// Files embedded in a document are sent with their own media type, to the document's account only.
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

// Documents are visible to their account only. A CSV list contains no spreadsheet formula, and a
// JSON Lines list is complete.
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

// Rejections are listed, and sent as CSV with a line for each finding, in the language that was
// asked for.
func TestRejectionsAreTranslated(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", drive.GiB)
	d := invoicetest.New(1)
	d.Totals.Payable = d.Totals.Payable.Add(invoice.NewDecimal(1, 0))
	d.Number = "=1+1"
	u.takeIn(t, d, invoicetest.New(2))
	for _, c := range []struct{ query, header, want string }{
		{"", "", "The amount due (BT-115) is the total with VAT less what is paid (BT-113) plus rounding (BT-114)"},
		{"?lang=de", "zh", "Der fällige Betrag (BT-115) ist der Gesamtbetrag mit USt minus Vorauszahlung (BT-113) plus Rundung (BT-114)"},
		{"", "de-AT,de;q=0.9,en;q=0.5", "Der fällige Betrag (BT-115) ist der Gesamtbetrag mit USt minus Vorauszahlung (BT-113) plus Rundung (BT-114)"},
		{"", "zh-CN", "应付金额 (BT-115) 须等于含增值税总额减已付 (BT-113) 加舍入 (BT-114)"},
		{"", "fr", "The amount due (BT-115) is the total with VAT less what is paid (BT-113) plus rounding (BT-114)"},
	} {
		r := u.send(t, "GET", "/rejections"+c.query, nil, "Accept-Language", c.header).items(t)[0]
		f := r["findings"].([]any)[0].(map[string]any)
		if f["text"] != c.want || f["rule"] != "BR-CO-16" || len(f["terms"].([]any)) != 3 {
			t.Errorf("%q %q: %v", c.query, c.header, f)
		}
	}
	got := u.get(t, "/rejections?format=csv&lang=zh-CN")
	rows, err := csv.NewReader(bytes.NewReader(got.body)).ReadAll()
	if err != nil || len(rows) < 2 {
		t.Fatalf("%d rows: %v", len(rows), err)
	}
	row := map[string]string{}
	for i, name := range rows[0] {
		row[name] = rows[1][i]
	}
	if row["rule"] != "BR-CO-16" || !strings.HasPrefix(row["text"], "应付金额") || row["number"] != "'=1+1" || row["expected"] == "" || row["expected"] == row["found"] {
		t.Errorf("the first line is %v", row)
	}
}

// What was rejected is accepted with a reason, and many conflicts are settled at once.
func TestRejectedDocumentIsAcceptedAndConflictsSettled(t *testing.T) {
	t.Parallel()
	u := newStack(t, uploadtest.Options{}).newUser(t, "ann", drive.GiB)
	d, other := invoicetest.New(1), invoicetest.New(2)
	d.Buyer.Name = ""
	u.takeIn(t, d, other)
	r := u.get(t, "/rejections").items(t)[0]
	accept := "/bundles/" + r["bundle"].(string) + "/accept"
	u.post(t, accept, map[string]any{"place": r["place"]}).problem(t, drive.BadRequest, map[string]any{"field": "reason"})
	got := u.post(t, accept, map[string]any{"place": r["place"], "reason": "agreed by telephone"}).json(t, http.StatusOK)
	if got["outcome"] != "accepted" || got["decision"].(map[string]any)["reason"] != "agreed by telephone" {
		t.Errorf("accepted: %v", got)
	}
	history := u.get(t, "/documents/"+got["document"].(string)).json(t, http.StatusOK)["history"].([]any)
	if h := history[0].(map[string]any); h["what"] != "accepted-by-hand" || h["reason"] != "agreed by telephone" || h["by"] == nil {
		t.Errorf("its history: %v", history)
	}
	u.post(t, accept, map[string]any{"place": r["place"], "reason": "again"}).problem(t, drive.WrongState, nil)

	other.Buyer.Name = "somebody else"
	u.takeIn(t, other)
	u.post(t, "/conflicts/settle", map[string]any{"keep": "both"}).problem(t, drive.BadRequest, map[string]any{"field": "keep"})
	u.post(t, "/conflicts/settle", map[string]any{"keep": "new", "conflicts": []string{}}).problem(t, drive.BadRequest, map[string]any{"field": "conflicts"})
	if got := u.post(t, "/conflicts/settle", map[string]any{"keep": "new", "source": "acme"}).json(t, http.StatusOK); got["settled"] != 1.0 || got["left"] != 0.0 {
		t.Errorf("settled: %v", got)
	}
	if open := u.get(t, "/conflicts").items(t); len(open) != 0 {
		t.Errorf("%d are open", len(open))
	}
}

// Files in /intake that belong to no bundle are listed unless a rule of their source processes
// them.
func TestStraysAreListed(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u := s.newUser(t, "ann", drive.GiB)
	u.send(t, "PUT", "/files/intake/acme/a.xml?parents=true", []byte("<a/>"))
	all := u.get(t, "/strays").items(t)
	if len(all) != 1 || all[0]["path"] != "/intake/acme/a.xml" || all[0]["reason"] != "loose-file" {
		t.Fatalf("%v", all)
	}
	u.send(t, "PUT", "/sources/acme", map[string]any{"rules": map[string]any{"plain": true}})
	if all := u.get(t, "/strays").items(t); len(all) != 0 {
		t.Errorf("%v", all)
	}
}

func TestTotalsAreSent(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{})
	u := s.newUser(t, "ann", drive.GiB)
	d := invoicetest.New(1)
	d.Seller.Name = "=cmd()"
	u.takeIn(t, d)
	for _, by := range []string{"currency", "seller", "month", "vat"} {
		all := u.get(t, "/documents/totals?by="+by).items(t)
		if len(all) == 0 || all[0]["currency"] != d.Currency || by == "seller" && all[0]["gross"] != d.Totals.Gross.String() {
			t.Errorf("by %s: %v", by, all)
		}
	}
	if all := u.get(t, "/documents/totals?month=2020-01").items(t); len(all) != 0 {
		t.Errorf("of a month without documents: %v", all)
	}
	reply := u.get(t, "/documents/totals?by=seller&format=csv")
	lines, err := csv.NewReader(bytes.NewReader(reply.body)).ReadAll()
	if err != nil || len(lines) != 2 || lines[1][1] != "'=cmd()" || lines[1][7] != d.Totals.Gross.String() {
		t.Errorf("%v, error %v", lines, err)
	}
}
