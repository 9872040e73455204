package ingest

import (
	"slices"
	"testing"

	"example.org/smartdrive/internal/base/drive"
)

// TestConflictsAreSettledInParts checks that conflicts are resolved in several transactions, that
// none holds two conflicts of one document, and that conflicts resolved meanwhile are skipped.
func TestConflictsAreSettledInParts(t *testing.T) {
	t.Parallel()
	for _, keep := range []Keep{KeepOld, KeepNew} {
		t.Run(string(keep), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			in := w.process(w.db, "1")
			const n = 2*settleBatch + 7
			for total := range 3 { // each document has two conflicts
				all := docs("C", n)
				for i := range all {
					all[i] = doc(all[i].Number, int64(i+1+1000*total))
				}
				w.send(t, newParcel("acme").lines("a.ndjson", all...))
				w.finish(t, in)
			}
			open, more, err := in.Disputes(t.Context(), w.who, drive.DocumentID{}, drive.ConflictID{}, 1)
			if err != nil || !more {
				t.Fatalf("%v, error %v", open, err)
			}
			// One conflict is resolved between the query and the transaction.
			part := []unsettled{{id: open[0].ID, document: open[0].Document.ID}}
			for _, want := range []int64{1, 0} {
				if settled, err := in.library.settlePart(t.Context(), w.who, part, keep); err != nil || settled != want {
					t.Fatalf("%d settled, error %v; want %d", settled, err, want)
				}
			}
			settled, left, err := in.SettleMany(t.Context(), w.who, Open{}, keep)
			if err != nil || settled != 2*n-1 || left != 0 {
				t.Errorf("%d settled, %d left, error %v", settled, left, err)
			}
			if open := w.count(t, "SELECT COUNT(*) FROM documents WHERE state <> 'accepted'"); open != 0 {
				t.Errorf("%d documents are in conflict", open)
			}
			want := map[Keep]string{KeepOld: "1.19", KeepNew: "2381.19"}[keep] // the first version, or the last
			all, err := in.Documents(t.Context(), w.who, Filter{Query: "C-0000"}, "", 2)
			if err != nil || len(all) != 1 || all[0].Total != want {
				t.Errorf("%v, error %v; want a total of %s", all, err, want)
			}
			w.check(t)
		})
	}
}

func TestConflictsOfOneDocumentAreSettledOneAfterTheOther(t *testing.T) {
	t.Parallel()
	a, b := drive.NewID[drive.DocumentID](), drive.NewID[drive.DocumentID]()
	var sizes []int
	for _, part := range settledTogether([]unsettled{{document: a}, {document: b}, {document: a}, {document: b, size: settleBytes}, {document: a, size: 1}, {document: a}}) {
		sizes = append(sizes, len(part))
	}
	if !slices.Equal(sizes, []int{2, 2, 1, 1}) {
		t.Errorf("parts of %v", sizes)
	}
}
