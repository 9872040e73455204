package ingest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/intake/invoice/rule"
)

// rejections returns all rejections by document number.
func (w *world) rejections(t *testing.T, in *Intake) map[string]Rejection {
	t.Helper()
	page, err := in.Rejections(t.Context(), w.who, RejectedFilter{}, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]Rejection{}
	for _, r := range page {
		found[r.Number] = r
	}
	return found
}

// TestRejectedDocumentsAreAcceptedAnyway accepts documents that break rules: a new one, a duplicate
// of one that was accepted the same way, and one that contradicts another.
func TestRejectedDocumentsAreAcceptedAnyway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	wrong := doc("W", 1)
	wrong.Buyer.Name = ""
	torn := doc("G", 2)
	torn.Buyer.Name = ""
	lost := doc("L", 1)
	lost.Number = ""
	first := newParcel("acme").lines("a.ndjson", doc("G", 1), wrong, torn, lost).add("x.xml", 1, []byte("<a>"))
	second := newParcel("acme").lines("b.ndjson", wrong)
	for _, p := range []*parcel{first, second} {
		w.send(t, p)
		w.finish(t, in)
	}
	wantSums(t, w.bundle(t, first), "done 5=1+4+0+0")
	accept := func(r Rejection, why string) (BundleRecord, error) {
		return in.AcceptAnyway(t.Context(), w.who, r.Bundle, r.Place, why)
	}
	all := w.rejections(t, in)
	got, err := accept(all["W"], " known to us ") // the newer bundle's rejection is listed last, so this is the first bundle's
	if err != nil {
		t.Fatal(err)
	}
	if got.Outcome != Accept || got.Document == nil || got.Decision == nil || got.Decision.Reason != "known to us" || got.Decision.By != w.who.User || len(got.Findings) == 0 {
		t.Errorf("accepted: %+v", got)
	}
	full, err := in.Document(t.Context(), w.who, *got.Document)
	if err != nil || full.Number != "W" || len(full.History) != 1 || full.History[0].What != "accepted-by-hand" || full.History[0].Reason != "known to us" || full.History[0].By == nil {
		t.Errorf("the document is %+v, %v", full.History, err)
	}
	if _, err := accept(all["W"], "again"); !drive.IsKind(err, drive.WrongState) {
		t.Errorf("a second time: %v", err)
	}
	if got, err = accept(all["G"], "x"); err != nil || got.Outcome != Conflict {
		t.Errorf("what contradicts another is %v, %v", got.Outcome, err)
	}
	left := w.rejections(t, in)
	if got, err = accept(left["W"], "x"); err != nil || got.Outcome != Duplicate {
		t.Errorf("what came twice is %v, %v", got.Outcome, err)
	}
	for what, c := range map[string]struct {
		r    Rejection
		why  string
		kind drive.Kind
	}{
		"without a reason":   {all["G"], " ", drive.BadRequest},
		"of no number":       {all[""], "x", drive.WrongState},
		"in another account": {Rejection{Bundle: drive.NewID[drive.BundleID](), BundleRecord: BundleRecord{Place: "1.1"}}, "x", drive.NotFound},
		"at a place of none": {Rejection{Bundle: all["W"].Bundle, BundleRecord: BundleRecord{Place: "1.01"}}, "x", drive.NotFound},
	} {
		if _, err := accept(c.r, c.why); !drive.IsKind(err, c.kind) {
			t.Errorf("%s: %v", what, err)
		}
	}
	w.check(t)
	sum := w.count(t, "SELECT SUM(accepted) * 1000 + SUM(rejected) * 100 + SUM(duplicates) * 10 + SUM(conflicts) FROM bundles")
	if want := int64(2*1000 + 2*100 + 10 + 1); sum != want {
		t.Errorf("the sums are %d, want %d", sum, want)
	}
}

// TestADocumentIsAcceptedOnce checks that of several concurrent calls for one document one
// succeeds.
func TestADocumentIsAcceptedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	wrong := doc("W", 1)
	wrong.Buyer.Name = ""
	w.send(t, newParcel("acme").lines("a.ndjson", wrong))
	w.finish(t, in)
	r := w.rejections(t, in)["W"]
	var done atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			_, err := in.AcceptAnyway(t.Context(), w.who, r.Bundle, r.Place, "x")
			if err == nil {
				done.Add(1)
			} else if !drive.IsKind(err, drive.WrongState) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if done.Load() != 1 {
		t.Errorf("%d times", done.Load())
	}
	w.check(t)
}

func TestConflictsAreSettledTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	for _, source := range []string{"acme", "other"} {
		w.send(t, newParcel(source).lines("a.ndjson", doc("A", 1), doc("B", 1)))
		w.finish(t, in)
		w.send(t, newParcel(source).lines("a.ndjson", doc("A", 2), doc("B", 2), doc("A", 3)))
		w.finish(t, in)
	}
	settled, left, err := in.SettleMany(t.Context(), w.who, Open{Source: "acme"}, KeepNew)
	if err != nil || settled != 3 || left != 0 {
		t.Fatalf("%d settled, %d left, %v", settled, left, err)
	}
	totals := func(source string) map[string]string {
		all, err := in.Documents(t.Context(), w.who, Filter{Source: source}, "", 10)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]string{}
		for _, d := range all {
			found[d.Number] = d.State + " " + d.Total
		}
		return found
	}
	if diff := cmp.Diff(map[string]string{"A": "accepted 3.57", "B": "accepted 2.38"}, totals("acme")); diff != "" {
		t.Error("of several the last counts", diff)
	}
	open, _, err := in.Disputes(t.Context(), w.who, drive.DocumentID{}, drive.ConflictID{}, 10)
	if err != nil || len(open) != 3 {
		t.Fatalf("%d open, %v", len(open), err)
	}
	if settled, _, err = in.SettleMany(t.Context(), w.who, Open{IDs: []drive.ConflictID{open[0].ID, open[1].ID}}, KeepOld); err != nil || settled != 2 {
		t.Errorf("%d settled, %v", settled, err)
	}
	if settled, _, err = in.SettleMany(t.Context(), w.who, Open{}, KeepOld); err != nil || settled != 1 {
		t.Errorf("%d settled, %v", settled, err)
	}
	if settled, _, err = in.SettleMany(t.Context(), w.who, Open{}, KeepOld); err != nil || settled != 0 {
		t.Errorf("nothing is open: %d settled, %v", settled, err)
	}
	if diff := cmp.Diff(map[string]string{"A": "accepted 1.19", "B": "accepted 1.19"}, totals("other")); diff != "" {
		t.Error(diff)
	}
	w.check(t)
}

func TestTheRuleOfASourceSettlesConflicts(t *testing.T) {
	t.Parallel()
	for _, keep := range []Keep{KeepOld, KeepNew} {
		w := newWorld(t)
		in := w.process(w.db, "1")
		w.send(t, newParcel("acme").lines("a.ndjson", doc("A", 1)))
		w.finish(t, in)
		before := newParcel("acme").lines("a.ndjson", doc("A", 5))
		w.send(t, before)
		w.finish(t, in)
		if _, err := in.PutSource(t.Context(), w.who, Source{Name: "acme", Rules: Rules{Conflicts: keep, Profile: rule.Core}}); err != nil {
			t.Fatal(err)
		}
		p := newParcel("acme").lines("a.ndjson", doc("A", 2), doc("B", 2), doc("B", 3))
		w.send(t, p)
		w.finish(t, in)
		wantSums(t, w.bundle(t, p), "done 3=1+0+0+2")
		got := fmt.Sprint(w.count(t, "SELECT COUNT(*) FROM document_conflicts WHERE state = 'open'"), w.count(t, "SELECT total_e4 FROM documents WHERE number = 'B'"))
		want := map[Keep]string{KeepOld: "1 23800", KeepNew: "1 35700"}[keep] // conflicts that were open before stay open
		if got != want {
			t.Errorf("keep %s: %s, want %s", keep, got, want)
		}
		w.check(t)
	}
	w := newWorld(t)
	if _, err := w.process(w.db, "1").PutSource(t.Context(), w.who, Source{Name: "acme", Rules: Rules{Conflicts: "newest"}}); !drive.IsKind(err, drive.BadRequest) {
		t.Errorf("a rule that is none: %v", err)
	}
}

// TestUnknownCurrencyIsAccepted checks that a user may accept a document with an
// invalid currency: the column drops letters beyond ASCII, and the model keeps the text.
func TestUnknownCurrencyIsAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	wrong := doc("W", 1)
	wrong.Currency = "€uro"
	w.send(t, newParcel("acme").lines("a.ndjson", wrong, doc("G", 2)))
	w.finish(t, in)
	r := w.rejections(t, in)["W"]
	got, err := in.AcceptAnyway(t.Context(), w.who, r.Bundle, r.Place, "known to us")
	if err != nil || got.Outcome != Accept {
		t.Fatalf("it is %v, %v", got.Outcome, err)
	}
	full, err := in.Document(t.Context(), w.who, *got.Document)
	if err != nil || full.Currency != "uro" {
		t.Errorf("its currency is %q, %v", full.Currency, err)
	}
	w.check(t)
}
