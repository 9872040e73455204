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
	lines := invoicetest.NDJSON(all...)
	sum := sha256.Sum256(lines)
	m := bundle.Manifest{Schema: bundle.Schema, ID: bundle.NewID(), Source: "acme", CreatedAt: time.Unix(1_800_000_000, 0)}
	m.Members = append(m.Members, bundle.Member{Name: "a.ndjson", Size: int64(len(lines)), SHA256: hex.EncodeToString(sum[:]), Documents: len(all)})
	raw, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string][]byte{"a.ndjson": lines, "meta.json": raw} {
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
