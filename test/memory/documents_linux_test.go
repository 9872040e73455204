package memory

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"

	"example.org/smartdrive/internal/intake/bundle"
	"example.org/smartdrive/internal/intake/invoice"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/test/system/rig"
)

// send puts a bundle of files into the drive of a user, and returns the id that it was given here.
func (s *stage) send(u rig.User, files map[string][]byte, documents int) string {
	s.Helper()
	m := bundle.Manifest{Schema: bundle.Schema, ID: bundle.NewID(), Source: "acme", CreatedAt: time.Now()}
	for name, raw := range files {
		sum := sha256.Sum256(raw)
		m.Members = append(m.Members, bundle.Member{Name: name, Size: int64(len(raw)), SHA256: hex.EncodeToString(sum[:]), Documents: documents})
	}
	raw, err := m.Encode()
	if err != nil {
		s.Fatal(err)
	}
	put := func(name string, raw []byte) {
		s.insist(u, "PUT", "/files"+bundle.Folder(m.Source, m.ID).String()+"/"+name+"?parents=true", raw).Is(s, http.StatusCreated)
	}
	for name, raw := range files {
		put(name, raw)
	}
	put(string(bundle.MetaName), raw)
	return m.ID
}

// taken waits until a bundle has ended, and returns how many of its documents were accepted.
func (s *stage) taken(u rig.User, id string) (accepted float64) {
	s.Helper()
	s.until("a bundle is taken in", func() error {
		for _, b := range s.insist(u, "GET", "/bundles?limit=100", nil).Items(s) {
			if b["sender_id"] == id && (b["state"] == "done" || b["state"] == "rejected") {
				accepted = b["accepted"].(float64)
				return nil
			}
		}
		return fmt.Errorf("it has no end")
	})
	return accepted
}

// wordy is a valid document with the longest text that one may have: 8 MiB of notes.
func wordy(seed uint64, bytes int) *invoice.Document {
	d := invoicetest.New(seed)
	d.Number = fmt.Sprintf("W-%d", seed)
	const note = 60_000
	for left := bytes; left > 0; left -= note {
		d.Notes = append(d.Notes, invoice.Note{Text: strings.Repeat("<", min(note, left))})
	}
	return d
}

// split is a document with as many lines as one may have.
func split(seed uint64, lines int) *invoice.Document {
	d := invoicetest.New(seed)
	for len(d.Lines) < lines {
		d.Lines = append(d.Lines, d.Lines[0])
	}
	return d
}

// xml is an invoice with an embedded file of some bytes.
func xml(seed uint64, size int) []byte {
	const mark = "<cac:AccountingSupplierParty>"
	before, after, _ := bytes.Cut(invoicetest.UBL(invoicetest.New(seed)), []byte(mark))
	var b bytes.Buffer
	b.Grow(size + len(before) + len(after) + 1000)
	b.Write(before)
	b.WriteString(`<cac:AdditionalDocumentReference><cbc:ID>a</cbc:ID><cac:Attachment><cbc:EmbeddedDocumentBinaryObject mimeCode="application/pdf" filename="a.pdf">`)
	for range size / 1024 {
		b.WriteString(strings.Repeat("QUJD", 256))
	}
	b.WriteString(`</cbc:EmbeddedDocumentBinaryObject></cac:Attachment></cac:AdditionalDocumentReference>`)
	b.WriteString(mark)
	b.Write(after)
	return b.Bytes()
}

// text returns the size of a document's text in bytes. A model keeps at most 8 MiB, and JSON may
// need six bytes for each.
func text() int { return depth.Pick(10_000, 2*mib, 7*mib) }

// bundles lets both workers process bundles at the same time.
func bundles(s *stage) plan {
	const users = 3
	files := map[string][]byte{
		"lines.ndjson": invoicetest.NDJSON(split(1, depth.Pick(100, 2_000, 10_000))),
		"words.xml":    invoicetest.UBL(wordy(3, text())),
		"lines.xml":    invoicetest.UBL(split(5, depth.Pick(100, 4_000, 19_900))),
		"large.xml":    xml(6, depth.Pick(1, 16, 240)*mib),
	}
	for n := range users {
		s.user("sender", n)
	}
	return plan{run: func() {
		each(users, func(n int) {
			u := s.user("sender", n)
			s.taken(u, s.send(u, files, 1))
		})
	}, end: nothing}
}

// documents are looked at by as many requests as two users may make.
func documents(s *stage) plan {
	const users = 2
	var ids [users][]string
	for n := range users {
		u := s.user("reader", n)
		id := s.send(u, map[string][]byte{"a.xml": invoicetest.UBL(wordy(10, text())), "b.xml": invoicetest.UBL(wordy(11, text()))}, 1)
		if got := s.taken(u, id); got != 2 {
			s.Fatalf("%v documents are accepted: %s", got, u.Get(s, "/bundles?limit=10").Bytes)
		}
		for _, d := range u.Get(s, "/documents").Items(s) {
			ids[n] = append(ids[n], d["id"].(string))
		}
	}
	return plan{run: func() {
		each(users*depth.Pick(1, inFlight/2, inFlight), func(i int) {
			n := i % users
			s.ask(s.user("reader", n), "GET", "/documents/"+ids[n][i%len(ids[n])], nil)
		})
	}, end: nothing}
}
