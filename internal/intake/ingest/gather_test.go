package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/intake/bundle"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
)

// land stores a file below the folder of a source.
func (w *world) land(t testing.TB, at, raw string) drive.NodeID {
	t.Helper()
	path, err := drive.ParsePath("/intake/" + at)
	if err != nil {
		t.Fatal(err)
	}
	return w.put(t, path, []byte(raw))
}

// gather runs one pass of the gatherer.
func (w *world) gather(t testing.TB, in *Intake) {
	t.Helper()
	if err := in.Gather(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.finish(t, in)
}

// takesAll makes a source accept files without a manifest.
func (w *world) takesAll(t testing.TB, in *Intake, source string) {
	t.Helper()
	if _, err := in.PutSource(t.Context(), w.who, Source{Name: source, Rules: Rules{Plain: true}}); err != nil {
		t.Fatal(err)
	}
}

// gathered returns the state of each bundle of a source, with its members and their document
// counts.
func (w *world) gathered(t testing.TB, in *Intake, source string) (ended []string) {
	t.Helper()
	all, err := in.Bundles(t.Context(), w.who, BundleFilter{Source: source, Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range all {
		full, err := in.Bundle(t.Context(), w.who, b.ID)
		if err != nil || !b.Gathered {
			t.Fatalf("bundle %v, error %v", b, err)
		}
		line := sums(b)
		for _, m := range full.Members {
			line += fmt.Sprintf(" %s:%d", m.Name, m.Documents)
		}
		ended = append(ended, line)
	}
	slices.Sort(ended)
	return ended
}

// TestFileAtMaximumDepthIsGathered checks that a file at the maximum depth is gathered.
func TestFileAtMaximumDepthIsGathered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	w.takesAll(t, in, "acme")
	const above = 3 // levels: intake, the source, the file
	w.land(t, "acme/"+strings.Repeat("x/", drive.MaxDepth-above)+"a.xml", string(invoicetest.UBL(invoicetest.New(1))))
	w.pass(2 * quietFor)
	w.gather(t, in)
	if got := w.gathered(t, in, "acme"); len(got) != 1 || !strings.Contains(got[0], "a.xml:1") {
		t.Errorf("gathered were %q", got)
	}
}

// strays returns all strays, read in pages of limit.
func (w *world) strays(t testing.TB, in *Intake, limit int) (all []string) {
	t.Helper()
	for after := ""; ; {
		page, next, err := in.Strays(t.Context(), w.who, after, limit)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range page {
			all = append(all, fmt.Sprintf("%s %s %d", s.Path, s.Reason, s.Files))
		}
		if after = next; next == "" {
			return all
		}
	}
}

func TestFilesWithoutManifestAreProcessed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	w.takesAll(t, in, "acme")
	ubl := func(seed uint64) string { return string(invoicetest.UBL(invoicetest.New(seed))) }
	w.land(t, "acme/a.xml", ubl(1))
	w.land(t, "acme/A.pdf", "%PDF-1.4")
	w.land(t, "acme/mail.eml", "From: a\r\nContent-Type: application/xml\r\n\r\n"+ubl(2))
	w.land(t, "acme/letter.docx", "PK nothing")
	w.land(t, "acme/.DS_Store", "hidden")
	w.land(t, "acme/2026/10/b.xml", ubl(3))
	w.land(t, "other/c.xml", ubl(4))
	w.gather(t, in)
	if got := w.gathered(t, in, "acme"); len(got) != 0 {
		t.Fatalf("files that have just come are bundles: %v", got)
	}
	w.pass(quietFor)
	w.gather(t, in)
	want := []string{"done 1=1+0+0+0 b.xml:1", "done 3=2+1+0+0 A.pdf:0 a.xml:1 letter.docx:1 mail.eml:1"}
	if diff := cmp.Diff(want, w.gathered(t, in, "acme")); diff != "" {
		t.Error(diff)
	}
	for _, again := range []string{"nothing is left", "and nothing comes twice"} {
		w.pass(time.Hour)
		w.gather(t, in)
		if diff := cmp.Diff(want, w.gathered(t, in, "acme")); diff != "" {
			t.Error(again, diff)
		}
	}
	docs, err := in.Documents(t.Context(), w.who, Filter{Source: "acme"}, "", 10)
	if err != nil || len(docs) != 3 {
		t.Fatalf("%d documents, error %v", len(docs), err)
	}
	if n := w.count(t, "SELECT COUNT(*) FROM documents WHERE pdf_id IS NOT NULL"); n != 1 {
		t.Errorf("%d documents have a PDF", n)
	}
	w.check(t)
	// A later file becomes another bundle, and an invoice that arrives again is a duplicate.
	w.land(t, "acme/a.xml", ubl(1))
	w.pass(quietFor)
	w.gather(t, in)
	if got := w.gathered(t, in, "acme"); len(got) != 3 || !slices.Contains(got, "done 1=0+0+1+0 a.xml:1") {
		t.Errorf("%v", got)
	}
	w.check(t)
}

// TestFolderThatKeepsChanging checks that old files are gathered from a folder that changes all the
// time, and that a bundle without its manifest yet is left alone.
func TestFolderThatKeepsChanging(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	w.takesAll(t, in, "acme")
	p := newParcel("acme").lines("a.ndjson", doc("sent", 1))
	w.sendMembers(t, p)
	for n := range 12 {
		w.land(t, fmt.Sprintf("acme/%d.xml", n), string(invoicetest.UBL(invoicetest.New(uint64(n)))))
		w.pass(quietFor - time.Second)
		w.gather(t, in)
	}
	if got := w.gathered(t, in, "acme"); len(got) != 1 || !strings.HasPrefix(got[0], "done 11=11") {
		t.Errorf("%v", got)
	}
	w.sendMeta(t, p)
	w.finish(t, in)
	wantSums(t, w.bundle(t, p), "done 1=1+0+0+0")
	w.check(t)
}

// TestGatheringAgainstOthers checks that files that are moved, trashed or excluded between the
// listing and the transaction are not gathered, and that a lost reply to COMMIT gathers nothing
// twice.
func TestGatheringAgainstOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	w.takesAll(t, in, "acme")
	gone, moved := w.land(t, "acme/a.xml", "<a/>"), w.land(t, "acme/b.xml", "<b/>")
	stays := w.land(t, "acme/c.xml", string(invoicetest.UBL(invoicetest.New(1))))
	g := in.newGatherer()
	page, err := g.sources(t.Context(), sourceFolder{})
	if err != nil || len(page) != 1 {
		t.Fatalf("%v, error %v", page, err)
	}
	var files []tree.Node
	for _, id := range []drive.NodeID{gone, moved, stays} {
		n, err := w.tree.Find(t.Context(), w.db, w.who.Account, id)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, n)
	}
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		root, err := w.tree.Root(ctx, tx, w.who.Account)
		if err != nil {
			return err
		}
		_, err = w.tree.Trash(ctx, tx, w.who.Account, gone, 0)
		_, moving := w.tree.Edit(ctx, tx, w.who.Account, moved, tree.Edit{Parent: root})
		return errors.Join(err, moving)
	})
	for want := range 2 { // the second time no file is left, as after a lost reply to COMMIT
		l := &folderPass{gatherer: g, source: page[0], at: start, looks: 1}
		made, err := l.bundle(t.Context(), files)
		if err != nil || made != (want == 0) {
			t.Fatalf("made: %t, error %v", made, err)
		}
	}
	w.finish(t, in)
	if diff := cmp.Diff([]string{"done 1=1+0+0+0 c.xml:1"}, w.gathered(t, in, "acme")); diff != "" {
		t.Error(diff)
	}
	// The rule is deleted: no more files are gathered, even if they were listed before.
	again := w.land(t, "acme/d.xml", "<d/>")
	if err := in.DeleteSource(t.Context(), w.who, "acme"); err != nil {
		t.Fatal(err)
	}
	n, err := w.tree.Find(t.Context(), w.db, w.who.Account, again)
	if err != nil {
		t.Fatal(err)
	}
	l := &folderPass{gatherer: g, source: page[0], at: start, looks: 1}
	if made, err := l.bundle(t.Context(), []tree.Node{n}); made || err != nil {
		t.Errorf("made: %t, error %v", made, err)
	}
	if diff := cmp.Diff([]string{"/intake/acme/d.xml loose-file 1"}, w.strays(t, in, 10)); diff != "" {
		t.Error(diff)
	}
}

// TestAGatheredBundleIsTriedAgain checks that a rejected gathered bundle restarts with the current
// files of its folder.
func TestAGatheredBundleIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	w.takesAll(t, in, "acme")
	id := w.land(t, "acme/a.xml", string(invoicetest.UBL(invoicetest.New(1))))
	w.pass(quietFor)
	if err := in.Gather(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := w.tree.Trash(ctx, tx, w.who.Account, id, 0)
		return err
	})
	w.finish(t, in)
	if got := w.gathered(t, in, "acme"); len(got) != 1 || got[0] != "rejected gone 0=0+0+0+0" {
		t.Fatalf("%v", got)
	}
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := w.tree.Restore(ctx, tx, w.who.Account, id, tree.Restore{})
		return err
	})
	all, err := in.Bundles(t.Context(), w.who, BundleFilter{Limit: 1})
	if err == nil {
		_, err = in.Retry(t.Context(), w.who, all[0].ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.finish(t, in)
	if diff := cmp.Diff([]string{"done 1=1+0+0+0 a.xml:1"}, w.gathered(t, in, "acme")); diff != "" {
		t.Error(diff)
	}
	w.check(t)
}

// TestMoreFoldersThanAPassLooksAt checks that a pass continues after the last folder of the
// previous one: files in the last folder are gathered although each pass has a budget of folders,
// and so are files that arrive in the first folder meanwhile.
func TestMoreFoldersThanAPassLooksAt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	w.takesAll(t, in, "acme")
	for n := range 9 { // each folder and its subfolder stay when the file is moved
		w.land(t, fmt.Sprintf("acme/%d/in/%d.xml", n, n), string(invoicetest.UBL(invoicetest.New(uint64(n)))))
	}
	g := in.newGatherer()
	g.looks = 4
	passes := func(n int, late string) {
		w.pass(quietFor)
		for n := range n {
			if n == 1 && late != "" {
				w.land(t, late, string(invoicetest.UBL(invoicetest.New(100))))
				w.pass(quietFor)
			}
			if err := g.pass(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		w.finish(t, in)
	}
	passes(10, "")
	if got := w.gathered(t, in, "acme"); len(got) != 9 {
		t.Errorf("after 10 passes over 19 folders, 4 each: %v", got)
	}
	passes(30, "acme/0/in/late.xml")
	if got := w.gathered(t, in, "acme"); len(got) != 10 {
		t.Errorf("with one more in the first folder: %v", got)
	}
	for at, r := range g.seen {
		if r.at != nil || !r.settled {
			t.Errorf("where nothing changes any more the folders of %s are looked at for ever", at.source)
		}
	}
	w.check(t)
}

// TestASourceWithManyFilesDelaysNoOther checks that a pass makes a bounded number of bundles of
// each source, so that the files of another one are gathered in the same pass, and that later
// passes continue until all files are gathered.
func TestASourceWithManyFilesDelaysNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	for _, source := range []string{"many", "one"} { // in the order of their names
		w.takesAll(t, in, source)
	}
	for n := range 4 {
		w.land(t, fmt.Sprintf("many/%d/in/%d.xml", n, n), string(invoicetest.UBL(invoicetest.New(uint64(n)))))
		w.land(t, fmt.Sprintf("many/%d.xml", n), string(invoicetest.UBL(invoicetest.New(uint64(10+n)))))
	}
	w.land(t, "one/1.xml", string(invoicetest.UBL(invoicetest.New(100))))
	w.pass(quietFor)
	g := in.newGatherer()
	g.made = 1
	for pass, want := range []int64{2, 3, 4, 5, 6, 6} { // "one" ends with the first pass
		if err := g.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := w.count(t, "SELECT COUNT(*) FROM bundles"); got != want {
			t.Errorf("after pass %d there are %d bundles, want %d", pass+1, got, want)
		}
	}
	if g.left {
		t.Error("the last pass left files")
	}
	w.finish(t, in)
	if got := w.count(t, "SELECT COUNT(*) FROM documents"); got != 9 {
		t.Errorf("%d documents, want 9", got)
	}
	w.check(t)
}

func TestFilesThatBelongTogetherStayTogether(t *testing.T) {
	t.Parallel()
	var files []tree.Node
	for i := range gatherMost {
		for _, name := range []string{"%03d.xml", "%03d.PDF", "%03d-1.xml"} {
			files = append(files, tree.Node{Name: drive.Name(fmt.Sprintf(name, i))})
		}
	}
	total := 0
	for _, part := range splitByStem(files) {
		if total += len(part); len(part) > gatherMost {
			t.Errorf("a part has %d files", len(part))
		}
		if last := part[len(part)-1].Name; !strings.HasSuffix(string(last), "-1.xml") && total < 3*gatherMost && strings.HasSuffix(string(last), ".PDF") {
			t.Errorf("a part ends between files that belong together: %s", last)
		}
	}
	if total != 3*gatherMost {
		t.Errorf("%d files are in parts", total)
	}
}

func TestStrayFilesAreListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	if got := w.strays(t, in, 10); len(got) != 0 {
		t.Errorf("without a folder /intake: %v", got)
	}
	id, deep := bundle.NewID(), strings.Repeat("d/", 30)
	for _, at := range []string{
		"top.xml", "acme/" + deep + "a.xml", "acme/loose.xml", "acme/" + id + "/a.xml", "acme/october/a.xml", "acme/october/meta.json", "acme/2026/" + id + "/meta.json",
		"acme/2026/" + id + "/a.xml", "acme/2026/more/b.xml", ".hidden/x/y.xml", "plain/loose.xml", "plain/deep/down/a.xml", "plain/wrong/meta.json", "plain/" + id + "/b.xml",
	} {
		w.land(t, at, "<a/>")
	}
	w.takesAll(t, in, "plain")
	w.send(t, newParcel("acme").lines("a.ndjson", doc("1", 1)))
	want := []string{
		"/intake/.hidden source-name 0",
		"/intake/acme/" + id + " no-manifest 1",
		"/intake/acme/2026/" + id + " too-deep 2",
		"/intake/acme/2026/more no-manifest 1",
		"/intake/acme/" + strings.TrimSuffix(deep, "/") + " no-manifest 1",
		"/intake/acme/loose.xml loose-file 1",
		"/intake/acme/october folder-name 2",
		"/intake/plain/" + id + " no-manifest 1",
		"/intake/plain/wrong folder-name 1",
		"/intake/top.xml loose-file 1",
	}
	for _, limit := range []int{1, 3, 100} {
		got := w.strays(t, in, limit)
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pages of %d: %s", limit, diff)
		}
	}
}
