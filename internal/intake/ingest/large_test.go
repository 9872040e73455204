package ingest

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/intake/invoice/envelope"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
)

// TestAPageOfLargeConflictsIsShort checks that a page of conflicts ends at its limit of bytes, and
// that the next page continues.
func TestAPageOfLargeConflictsIsShort(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	for total := range int64(2) {
		w.send(t, newParcel("acme").lines("a.ndjson", doc("A", total+1), doc("B", total+1), doc("C", total+1)))
		w.finish(t, in)
	}
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE document_conflicts SET body = ?", make([]byte, maxPacked*3/4))
		return err
	})
	var after drive.ConflictID
	for _, want := range []struct {
		n    int
		more bool
	}{{2, true}, {1, false}} {
		page, more, err := in.Disputes(t.Context(), w.who, drive.DocumentID{}, after, 10)
		if err != nil || len(page) != want.n || more != want.more {
			t.Fatalf("a page of %d, more: %t, %v; want %d, %t", len(page), more, err, want.n, want.more)
		}
		after = page[len(page)-1].ID
	}
}

// TestOneLargeMemberAtATime checks that a worker has the place for large members while it decodes a
// member that is large, or whose document is once it is unpacked, and that it waits for the place.
func TestOneLargeMemberAtATime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	large := bytes.Replace(invoicetest.UBL(doc("L", 1)), []byte("<cbc:ID>"), append(bytes.Repeat([]byte(" "), envelope.LargeDocument), "<cbc:ID>"...), 1)
	bundle := w.send(t, newParcel("acme").add("plain.xml", 1, large).add("packed.zip", 1, zipped(t, large)).
		add("small.zip", 1, zipped(t, invoicetest.UBL(doc("S", 1)))))
	w.finish(t, in)
	rows, err := w.db.Query(t.Context(), "SELECT "+memberColumns+" FROM bundle_members WHERE bundle_id = ? ORDER BY n", bundle.ID)
	members, err := sqldb.Scan(rows, err, scanMember)
	if err != nil {
		t.Fatal(err)
	}
	var held []int
	for _, m := range members {
		documents, end, err := in.workers.open(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range documents {
			if err != nil {
				t.Errorf("%s: %v", m.Name, err)
			}
			held = append(held, len(in.workers.large))
		}
		end()
		if len(in.workers.large) != 0 {
			t.Fatalf("%s does not give its place back", m.Name)
		}
	}
	if diff := cmp.Diff([]int{1, 1, 0}, held); diff != "" {
		t.Error(diff)
	}
	in.workers.large <- struct{}{}
	given, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := in.workers.open(given, members[0]); !errors.Is(err, context.Canceled) {
		t.Errorf("a second one beside it: %v", err)
	}
}

// zipped returns an archive with one XML file.
func zipped(t *testing.T, raw []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	f, err := z.Create("a.xml")
	if err == nil {
		_, err = f.Write(raw)
	}
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
