package ingest

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/intake/invoice"
	"example.org/smartdrive/internal/intake/invoice/rule"
)

// TestDocumentsAreCounted checks the outcomes and counts: valid documents are accepted, repeated
// ones are duplicates, different ones with the same key are conflicts, and unreadable ones are
// rejected.
func TestDocumentsAreCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	first := newParcel("acme").lines("a.ndjson", docs("A", 3)...).add("a.pdf", 0, []byte("%PDF"))
	again := newParcel("acme").lines("a.ndjson", docs("A", 4)...)
	other := newParcel("acme").lines("a.ndjson", doc("A-0000", 77), doc("A-0001", 2), doc("A-0000", 77))
	torn := newParcel("acme").add("t.ndjson", 3, append([]byte("{\"number\":\n"), []byte("{}\n")...)).add("x.bin", 2, []byte("\x00\x01\x02")).
		add("y.xml", 1, []byte(`<?xml version="1.0"?><!DOCTYPE x [<!ENTITY y "z">]><Invoice>&y;</Invoice>`))
	for _, p := range []*parcel{first, again, other, torn} {
		w.send(t, p)
		w.finish(t, in)
	}
	wantSums(t, w.bundle(t, first), "done 3=3+0+0+0")
	wantSums(t, w.bundle(t, again), "done 4=1+0+3+0")
	wantSums(t, w.bundle(t, other), "done 3=0+0+2+1")
	wantSums(t, w.bundle(t, torn), "done 6=0+6+0+0")
	if n := w.count(t, "SELECT COUNT(*) FROM documents"); n != 4 {
		t.Errorf("there are %d documents", n)
	}
	w.check(t)
	records, err := in.Records(t.Context(), w.who, w.bundle(t, torn).ID, Reject, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for _, r := range records {
		reasons = append(reasons, r.Member+" "+*r.Reason)
		if absent := *r.Reason == "absent"; absent != (len(r.Findings) == 0) {
			t.Errorf("of %s in %s it is said: %v", *r.Reason, r.Member, r.Findings)
		}
	}
	if diff := cmp.Diff([]string{"t.ndjson malformed", "t.ndjson " + *records[1].Reason, "t.ndjson absent", "x.bin unsupported", "y.xml refused"}, reasons); diff != "" {
		t.Error(diff)
	}
}

// TestPromisesAreCompared checks that a manifest that declares more or fewer documents than the
// members hold leaves a record.
func TestPromisesAreCompared(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	more := newParcel("acme").lines("a.ndjson", docs("A", 3)...)
	more.Members[0].Documents = 5
	fewer := newParcel("acme").lines("b.ndjson", docs("B", 5)...)
	fewer.Members[0].Documents = 3
	for _, p := range []*parcel{more, fewer} {
		w.send(t, p)
	}
	w.finish(t, in)
	wantSums(t, w.bundle(t, more), "done 5=3+2+0+0")
	wantSums(t, w.bundle(t, fewer), "done 3=3+0+0+0")
	if got := w.bundle(t, fewer).Surplus; got != 2 {
		t.Errorf("%d documents beyond the promise", got)
	}
	w.check(t)
}

// TestMembersMayComeLate checks that members may arrive after meta.json. If one never arrives, the
// bundle is rejected after the wait, and may be retried later.
func TestMembersMayComeLate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	late, never := newParcel("acme").lines("a.ndjson", docs("A", 2)...), newParcel("acme").lines("b.ndjson", docs("B", 2)...)
	w.sendMeta(t, late)
	w.sendMeta(t, never)
	w.finish(t, in)
	wantSums(t, w.bundle(t, late), "sealed members-missing 0=0+0+0+0")
	w.sendMembers(t, late)
	for range 8 {
		w.pass(5 * time.Minute)
		w.finish(t, in)
	}
	wantSums(t, w.bundle(t, late), "done 2=2+0+0+0")
	wantSums(t, w.bundle(t, never), "rejected members-missing 2=0+2+0+0")
	w.check(t)
	w.sendMembers(t, never)
	id := w.bundle(t, never).ID
	if _, err := in.Retry(t.Context(), drive.Who{Account: drive.NewID[drive.AccountID]()}, id); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("another account may try again: %v", err)
	}
	if _, err := in.Retry(t.Context(), w.who, id); err != nil {
		t.Fatal(err)
	}
	w.finish(t, in)
	wantSums(t, w.bundle(t, never), "done 2=2+0+0+0")
	if _, err := in.Retry(t.Context(), w.who, id); !drive.IsKind(err, drive.WrongState) {
		t.Errorf("a bundle that is done may be tried again: %v", err)
	}
	w.check(t)
}

// TestPoisonEnds checks that a bundle that cannot be processed is rejected with a reason, and does
// not hold up other bundles.
func TestPoisonEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	changed := newParcel("acme").lines("a.ndjson", docs("A", 2)...)
	changed.Members[0].SHA256 = "00" + changed.Members[0].SHA256[2:]
	elsewhere := newParcel("acme").lines("b.ndjson", docs("B", 2)...)
	for _, p := range []*parcel{changed, elsewhere} {
		w.sendMembers(t, p)
	}
	w.sendMeta(t, changed)
	claims := *elsewhere
	claims.Source = "other"
	raw, err := claims.Encode()
	if err != nil {
		t.Fatal(err)
	}
	w.put(t, elsewhere.path("meta.json"), raw)
	nonsense := newParcel("acme")
	w.put(t, nonsense.path("meta.json"), []byte("{"))
	deadly := newParcel("acme").lines("d.ndjson", docs("D", 2)...)
	w.send(t, deadly)
	in.halt = func(step string) {
		if b, _ := in.find(t.Context(), w.db, "WHERE state = 'running'"); step == "checked" && b.SenderID == deadly.ID {
			panic("poison")
		}
	}
	good := newParcel("acme").lines("g.ndjson", docs("G", 2)...)
	w.send(t, good)
	w.finish(t, in)
	wantSums(t, w.bundle(t, good), "done 2=2+0+0+0")
	wantSums(t, w.bundle(t, nonsense), "rejected manifest-not-json 0=0+0+0+0")
	wantSums(t, w.bundle(t, elsewhere), "rejected wrong-place 0=0+0+0+0")
	for range 12 {
		w.pass(5 * time.Minute)
		w.finish(t, in)
	}
	wantSums(t, w.bundle(t, changed), "rejected members-differ 2=0+2+0+0")
	wantSums(t, w.bundle(t, deadly), "rejected failed 2=0+2+0+0")
	if got := w.bundle(t, deadly).Attempts; got != maxTries {
		t.Errorf("it was tried %d times", got)
	}
	w.check(t)
}

// TestUnannouncedBundleIsFound checks that the reconciler finds bundles whose arrival was not
// reported, and that a bundle moved or restored into place is reported.
func TestUnannouncedBundleIsFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	lost := newParcel("acme").lines("a.ndjson", docs("A", 2)...)
	w.deaf.Store(true)
	w.sendMembers(t, lost)
	w.sendMeta(t, lost)
	w.deaf.Store(false)
	w.finish(t, in)
	if n := w.count(t, "SELECT COUNT(*) FROM bundles"); n != 0 {
		t.Fatalf("%d bundles are known", n)
	}
	for range 2 {
		if err := in.Reconcile(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.finish(t, in)
	}
	wantSums(t, w.bundle(t, lost), "done 2=2+0+0+0")
	if n := w.count(t, "SELECT COUNT(*) FROM bundles"); n != 1 || in.stats.Found.Load() != 1 {
		t.Errorf("%d bundles, %d found", n, in.stats.Found.Load())
	}
	w.check(t)
}

// TestTheReconcilerReadsWhatHasChanged checks that passes after the first one read only changed
// trees, and miss nothing.
func TestTheReconcilerReadsWhatHasChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	calls := &sqldbtest.Counter{}
	in := w.process(w.open(t, calls.Connector), "1")
	r := in.newReconciler()
	pass := func() (queries int) {
		t.Helper()
		before := calls.Count(sqldbtest.Query)
		if err := r.pass(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		return calls.Count(sqldbtest.Query) - before
	}
	for _, source := range []string{"acme", "bolt", "coil"} {
		w.send(t, newParcel(source).lines("a.ndjson", docs("A", 1)...))
	}
	whole := pass()
	if idle := pass(); idle > 2 || whole < 5 { // one query for the known accounts and one for the next ones
		t.Errorf("a pass over what has not changed asks %d times, the first one %d times", idle, whole)
	}
	w.deaf.Store(true)
	lost := newParcel("bolt").lines("b.ndjson", docs("B", 1)...)
	w.sendMembers(t, lost)
	w.sendMeta(t, lost)
	pass()
	wantSums(t, w.bundle(t, lost), "sealed 0=0+0+0+0")

	again := newParcel("coil").lines("c.ndjson", docs("C", 1)...)
	w.deaf.Store(false)
	known := w.send(t, again)
	w.deaf.Store(true)
	w.put(t, again.path("meta.json"), []byte("{"))
	pass() // a worker may hold the bundle
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "UPDATE bundles SET state = 'rejected' WHERE id = ?", known.ID)
		return err
	})
	pass()
	wantSums(t, w.bundle(t, again), "sealed 0=0+0+0+0")
	if found := in.stats.Found.Load(); found != 2 {
		t.Errorf("%d were found", found)
	}
}

// TestRulesOfASource checks that documents excluded by the source's rules are counted as rejected.
func TestRulesOfASource(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	rules := Rules{Types: []string{"380"}, From: invoice.NewDate(2026, 10, 1), Sellers: []string{"de 123-456-789"}, Max: invoice.NewDecimal(1000, 0)}
	if _, err := in.PutSource(t.Context(), w.who, Source{Name: "acme", Rules: rules}); err != nil {
		t.Fatal(err)
	}
	credit, early, seller, dear := doc("C", 1), doc("E", 1), doc("S", 1), doc("M", 5000)
	credit.Type, early.Date, seller.Seller.VATID = "381", invoice.NewDate(2026, 9, 30), "DE111111111"
	p := newParcel("acme").lines("a.ndjson", doc("G", 1), credit, early, seller, dear)
	v := w.send(t, p)
	w.finish(t, in)
	wantSums(t, w.bundle(t, p), "done 5=1+4+0+0")
	records, err := in.Records(t.Context(), w.who, v.ID, Reject, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for _, r := range records {
		reasons = append(reasons, *r.Reason)
	}
	if diff := cmp.Diff([]string{"filtered-type", "filtered-date", "filtered-seller", "filtered-amount"}, reasons); diff != "" {
		t.Error(diff)
	}
	if _, err := in.PutSource(t.Context(), w.who, Source{Name: "acme", Rules: Rules{Profile: "zugferd"}}); !drive.IsKind(err, drive.BadRequest) {
		t.Errorf("rules of a profile that there is not: %v", err)
	}
	if _, err := in.PutSource(t.Context(), w.who, Source{Name: "acme", Rules: Rules{From: rules.From, To: rules.From - 1}}); !drive.IsKind(err, drive.BadRequest) {
		t.Errorf("rules that nothing can keep: %v", err)
	}
	w.check(t)
}

// TestTheProfileOfASource checks that the rules of a profile apply to a source that asks for them.
func TestTheProfileOfASource(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	if _, err := in.PutSource(t.Context(), w.who, Source{Name: "acme", Rules: Rules{Profile: rule.XRechnung}}); err != nil {
		t.Fatal(err)
	}
	german, plain := newParcel("acme").lines("a.ndjson", doc("A", 1)), newParcel("other").lines("a.ndjson", doc("A", 1))
	for _, p := range []*parcel{german, plain} {
		w.send(t, p)
		w.finish(t, in)
	}
	wantSums(t, w.bundle(t, plain), "done 1=1+0+0+0")
	wantSums(t, w.bundle(t, german), "done 1=0+1+0+0")
	records, err := in.Records(t.Context(), w.who, w.bundle(t, german).ID, Reject, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	if f := records[0].Findings; len(f) == 0 || !strings.HasPrefix(f[0].Rule, "BR-DE-") {
		t.Errorf("findings %v", f)
	}
	w.check(t)
}

// TestConflictsAreSettled resolves conflicts in both ways, and checks that the other side is
// recognized when it arrives again.
func TestConflictsAreSettled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	for _, p := range []*parcel{
		newParcel("acme").lines("a.ndjson", doc("A", 1), doc("B", 1)), newParcel("acme").lines("a.ndjson", doc("A", 2), doc("B", 2)),
	} {
		w.send(t, p)
		w.finish(t, in)
	}
	open, _, err := in.Disputes(t.Context(), w.who, drive.DocumentID{}, drive.ConflictID{}, 10)
	if err != nil || len(open) != 2 {
		t.Fatalf("%d conflicts: %v", len(open), err)
	}
	want := map[string]string{} // totals by number
	for i, keep := range []Keep{KeepOld, KeepNew} {
		full, err := in.Settle(t.Context(), w.who, open[i].Document.ID, open[i].ID, keep)
		if err != nil {
			t.Fatal(err)
		}
		if full.State != "accepted" || len(full.History) != 3 {
			t.Errorf("it is %s after %d events", full.State, len(full.History))
		}
		want[full.Number] = full.Total
		if _, err := in.Settle(t.Context(), w.who, open[i].Document.ID, open[i].ID, keep); !drive.IsKind(err, drive.WrongState) {
			t.Errorf("settled twice: %v", err)
		}
	}
	if diff := cmp.Diff(map[string]string{open[0].Document.Number: "1.19", open[1].Document.Number: "2.38"}, want); diff != "" {
		t.Error(diff)
	}
	again := newParcel("acme").lines("a.ndjson", doc("A", 1), doc("B", 1), doc("A", 2), doc("B", 2))
	w.send(t, again)
	w.finish(t, in)
	wantSums(t, w.bundle(t, again), "done 4=0+0+4+0")
	w.check(t)
}

// TestBundleRestartsAfterSettling checks that a restarted bundle has the same counts as
// before, even if the other side of its conflict is the document by now.
func TestBundleRestartsAfterSettling(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		fails         int // index of the bundle that restarts
		before, after string
	}{
		{"the one with the document", 0, "rejected failed 1=1+0+0+0", "done 1=1+0+0+0"},
		{"the one with the other side", 1, "rejected failed 1=0+0+0+1", "done 1=0+0+0+1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			in := w.process(w.db, "1")
			both := []*parcel{newParcel("acme").lines("a.ndjson", doc("A", 1)), newParcel("acme").lines("a.ndjson", doc("A", 2))}
			for i, p := range both {
				w.send(t, p)
				in.halt = func(step string) {
					if i == c.fails && step == "flushed" {
						panic("poison")
					}
				}
				for range maxTries + 1 {
					w.finish(t, in)
					w.pass(maxPause)
				}
			}
			failed := w.bundle(t, both[c.fails])
			wantSums(t, failed, c.before)
			all, err := in.Documents(t.Context(), w.who, Filter{}, "", 2)
			if err != nil || len(all) != 1 {
				t.Fatalf("%d documents: %v", len(all), err)
			}
			if _, err := in.Settle(t.Context(), w.who, all[0].ID, drive.ConflictID{}, KeepNew); err != nil {
				t.Fatal(err)
			}
			in.halt = func(string) {}
			if _, err := in.Retry(t.Context(), w.who, failed.ID); err != nil {
				t.Fatal(err)
			}
			w.finish(t, in)
			wantSums(t, w.bundle(t, both[c.fails]), c.after)
			w.check(t)
		})
	}
}

// TestForgetDeletesOnlyItsAccount checks that Forget deletes all rows of the account and none of
// another one.
func TestForgetDeletesOnlyItsAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	w.send(t, newParcel("acme").lines("a.ndjson", docs("A", 3)...))
	w.finish(t, in)
	w.send(t, newParcel("acme").lines("a.ndjson", doc("A-0000", 9)))
	w.finish(t, in)
	w.send(t, newParcel("acme").lines("b.ndjson", docs("B", 3)...))
	if err := in.Forget(t.Context(), drive.NewID[drive.AccountID]()); err != nil {
		t.Fatal(err)
	}
	if n := w.count(t, "SELECT COUNT(*) FROM documents"); n != 3 {
		t.Errorf("%d documents are left of another account", n)
	}
	if err := in.Forget(t.Context(), w.who.Account); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"bundles", "bundle_members", "bundle_records", "documents", "document_conflicts", "sources"} {
		if n := w.count(t, "SELECT COUNT(*) FROM "+table); n != 0 {
			t.Errorf("%d rows of %s are left", n, table)
		}
	}
}

// TestAPDFMayComeLater checks that a PDF reaches its document if the document is sent again
// together with it: in any order, any number of times, and if workers die. The first PDF stays. A
// name alone does not match across bundles.
func TestAPDFMayComeLater(t *testing.T) {
	t.Parallel()
	alone := func() *parcel { return newParcel("acme").lines("a.ndjson", doc("A", 1)) }
	with := func(pdf string) *parcel { return alone().add("a.pdf", 0, []byte(pdf)) }
	for _, c := range []struct {
		name  string
		sends []*parcel
		pdf   string
		sums  string // of the last parcel
	}{
		{"the document first", []*parcel{alone(), with("late")}, "late", "done 1=0+0+1+0"},
		{"the PDF first", []*parcel{newParcel("acme").add("a.pdf", 0, []byte("early")), alone(), with("late")}, "late", "done 1=0+0+1+0"},
		{"twice", []*parcel{alone(), with("late"), with("later")}, "late", "done 1=0+0+1+0"},
		{"never with its document", []*parcel{alone(), newParcel("acme").add("a.pdf", 0, []byte("stray"))}, "", "done 0=0+0+0+0"},
		{"another document's", []*parcel{alone(), newParcel("acme").lines("a.ndjson", doc("A", 2)).add("a.pdf", 0, []byte("other"))}, "", "done 1=0+0+0+1"},
		{
			"twice in one bundle",
			[]*parcel{alone().lines("b.ndjson", doc("A", 1)).lines("c.ndjson", doc("A", 1)).add("b.pdf", 0, []byte("first")).add("c.pdf", 0, []byte("second"))},
			"first", "done 3=1+0+2+0",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			in := w.process(w.db, "1")
			for _, p := range c.sends {
				w.send(t, p)
				w.finish(t, in)
			}
			wantSums(t, w.bundle(t, c.sends[len(c.sends)-1]), c.sums)
			if got := w.pdfOf(t, in); got != c.pdf {
				t.Errorf("its PDF is %q, want %q", got, c.pdf)
			}
			w.check(t)
		})
	}
}

// TestMissingPDFIsReplaced checks that a deleted PDF is replaced by the next one, and that
// the PDF of a conflict's other side stays with that side until the side is kept.
func TestMissingPDFIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	with := func(cents int64, pdf string) *parcel {
		return newParcel("acme").lines("a.ndjson", doc("A", cents)).add("a.pdf", 0, []byte(pdf))
	}
	first := with(1, "first")
	for _, p := range []*parcel{first, newParcel("acme").lines("a.ndjson", doc("A", 2)), with(2, "of the other side")} {
		w.send(t, p)
		w.finish(t, in)
	}
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := w.tree.Resolve(ctx, tx, w.who.Account, first.path("a.pdf"))
		if err == nil {
			_, err = w.tree.Trash(ctx, tx, w.who.Account, n.ID, n.Rev)
		}
		return err
	})
	if got := w.pdfOf(t, in); got != "" {
		t.Fatalf("a PDF in the trash is shown: %q", got)
	}
	w.send(t, with(1, "again"))
	w.finish(t, in)
	if got := w.pdfOf(t, in); got != "again" {
		t.Errorf("its PDF is %q", got)
	}
	all, err := in.Documents(t.Context(), w.who, Filter{}, "", 2)
	if err != nil || len(all) != 1 {
		t.Fatalf("%d documents: %v", len(all), err)
	}
	if _, err := in.Settle(t.Context(), w.who, all[0].ID, drive.ConflictID{}, KeepNew); err != nil {
		t.Fatal(err)
	}
	if got := w.pdfOf(t, in); got != "of the other side" {
		t.Errorf("the PDF of the side that was kept is %q", got)
	}
	w.check(t)
}

// pdfOf returns the content of the only document's PDF; empty: it has none.
func (w *world) pdfOf(t testing.TB, in *Intake) string {
	t.Helper()
	all, err := in.Documents(t.Context(), w.who, Filter{}, "", 2)
	if err != nil || len(all) != 1 {
		t.Fatalf("%d documents: %v", len(all), err)
	}
	if all[0].PDF == nil {
		return ""
	}
	n, err := w.tree.Find(t.Context(), w.db, w.who.Account, *all[0].PDF)
	if err != nil {
		t.Fatal(err)
	}
	object, err := in.open(t.Context(), n.Blob)
	if err != nil {
		t.Fatal(err)
	}
	defer object.Close() //nolint:errcheck // it was only read
	raw, err := io.ReadAll(io.NewSectionReader(object, 0, int64(object.Size())))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
