package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/engine/stream/outbox"
)

// told returns type and number of the published document events, sorted, and checks that each names
// an existing document.
func (w *world) told(t *testing.T) (all []string) {
	t.Helper()
	rows, err := w.db.Query(t.Context(), "SELECT event FROM outbox WHERE topic = 'smartdrive.documents' ORDER BY id")
	events, err := sqldb.Scan(rows, err, func(text *string, scan func(...any) error) error { return scan(text) })
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range events {
		r, err := stream.Decode(stream.TopicDocuments, drive.AccountID{}, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if r.Type == stream.DocumentRejected {
			var data refused
			if err := json.Unmarshal(r.Data, &data); err != nil || r.Subject != data.Bundle.String() {
				t.Errorf("%s tells of %s, %v", r.Subject, r.Data, err)
			}
			all = append(all, fmt.Sprintf("%s %s %s %s %d", r.Type, data.Number, data.Place, data.Reason, data.Count))
			continue
		}
		var data documentPayload
		if err := json.Unmarshal(r.Data, &data); err != nil {
			t.Fatal(err)
		}
		if n := w.count(t, "SELECT COUNT(*) FROM documents WHERE id = ? AND source = ?", data.Document, data.Source); n != 1 || r.Subject != data.Document.String() {
			t.Errorf("%s tells of a document that is not there: %s", r.Subject, r.Data)
		}
		all = append(all, string(r.Type)+" "+data.Number)
	}
	slices.Sort(all)
	return all
}

// TestDocumentsArePublished checks that each document is published once when it is accepted, and
// once when another one contradicts it. A restarted bundle publishes neither again.
func TestDocumentsArePublished(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1", func(o *Options) { o.Events = outbox.New(w.db, outbox.Options{Source: "smartdrive/test"}) })
	first := newParcel("acme").lines("a.ndjson", doc("A", 1), doc("B", 1))
	bad := doc("D", 1)
	bad.Currency = ""
	second := newParcel("acme").lines("a.ndjson", doc("A", 2), doc("B", 1), doc("C", 1), bad)
	for _, p := range []*parcel{first, second} {
		w.send(t, p)
		w.finish(t, in)
	}
	want := []string{"document.accepted A", "document.accepted B", "document.accepted C", "document.conflict A", "document.rejected D 1.3 invalid 1"}
	if diff := cmp.Diff(want, w.told(t)); diff != "" {
		t.Error(diff)
	}
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		b, err := in.find(ctx, tx, "WHERE id = ?", w.bundle(t, second).ID)
		if err != nil {
			return err
		}
		return in.arrivals.reset(ctx, tx, b, drive.Time(w.clock.Load()))
	})
	w.finish(t, in)
	wantSums(t, w.bundle(t, second), "done 4=1+1+1+1")
	want = append(want, want[len(want)-1]) // rejections are published each time
	if diff := cmp.Diff(want, w.told(t)); diff != "" {
		t.Error("after the bundle began again", diff)
	}
}
