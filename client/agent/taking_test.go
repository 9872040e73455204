package agent

import (
	"bytes"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/intake/bundle"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
)

func TestMemberNames(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.drop(t, "发票-001.xml", "1")
	w.drop(t, "re\u0301sume\u0301.pdf", "2") // NFD
	w.drop(t, "x/same.xml", "3")
	w.drop(t, "y/SAME.xml", "4")
	w.drop(t, "y/z/same.xml", "5")
	w.drop(t, "a b\"c<d>.xml", "6")
	w.drop(t, "meta.json", "7")
	w.drop(t, "line\nbreak.xml", "8")
	synctest.Test(t, func(t *testing.T) {
		if err := w.once(t, nil); !errors.Is(err, ErrUnsent) {
			t.Errorf("got %v", err)
		}
	})
	got := w.contents(t)
	want := []string{"发票-001.xml=1", "r\u00e9sum\u00e9.pdf=2", "same.xml=3", "SAME.xml=4", "same.xml=5", "a b\"c<d>.xml=6"}
	slices.Sort(want)
	equal(t, "contents", got, want)
	if len(w.sealed(t)) != 3 {
		t.Errorf("%d bundles hold three files of one name", len(w.sealed(t)))
	}
	equal(t, "failed", w.below(t, failedDir, 2), []string{"REASON.txt", "REASON.txt", "line\nbreak.xml", "meta.json"})
	equal(t, "left", w.left(t), []string(nil))
}

func TestUnmovableFilesAreNotSentTwice(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.drop(t, "a.xml", "<a/>")
	w.drop(t, sentDir, "somebody's file where a directory should be")
	synctest.Test(t, func(t *testing.T) {
		for n := range 3 {
			if err := w.once(t, nil); err == nil {
				t.Error("nothing is said about files that cannot be moved")
			}
			if n == 0 {
				w.drop(t, "b.xml", "<b/>") // others are not held up
			}
		}
		if s := status(t, w); s.Moving != 2 || s.Error == "" {
			t.Errorf("status %+v", s)
		}
		if err := os.Remove(filepath.Join(w.dir, sentDir)); err != nil {
			t.Fatal(err)
		}
		if err := w.once(t, nil); err != nil {
			t.Error(err)
		}
	})
	equal(t, "contents", w.contents(t), []string{"a.xml=<a/>", "b.xml=<b/>"})
	equal(t, "sent", w.below(t, sentDir, 2), []string{"a.xml", "b.xml"})
	if s := status(t, w); s.Moving != 0 || s.Error != "" {
		t.Errorf("status %+v", s)
	}
}

// A file that cannot be moved delays no other file, not even those of later bundles.
func TestUnmovableFileDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.opt.MaxFiles = 1
	for _, name := range []string{"a/x.xml", "b.xml", "c.xml"} {
		w.drop(t, name, "<"+name+"/>")
	}
	obstacle := ""
	inTheWay := func(step string) bool {
		if step != "after end" || obstacle != "" {
			return false
		}
		root, err := os.OpenRoot(w.dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		s, err := loadState(root)
		if err != nil {
			t.Fatal(err)
		}
		obstacle = path.Dir(s.Moves[0].To)
		w.drop(t, obstacle, "a file where a directory should be")
		return false
	}
	synctest.Test(t, func(t *testing.T) {
		if err := w.once(t, inTheWay); err == nil {
			t.Error("nothing is said about a file that cannot be moved")
		}
		equal(t, "sent", w.below(t, sentDir, 2), []string{"a", "b.xml", "c.xml"})
		if s := status(t, w); s.Moving != 1 || s.Error == "" {
			t.Errorf("status %+v", s)
		}
		if err := os.Remove(filepath.Join(w.dir, obstacle)); err != nil {
			t.Fatal(err)
		}
		if err := w.once(t, nil); err != nil {
			t.Error(err)
		}
	})
	equal(t, "sent", w.below(t, sentDir, 2), []string{"a/x.xml", "b.xml", "c.xml"})
}

// Times of files and the wall clock decide nothing.
func TestFileTimesAreNotCompared(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for name, at := range map[string]time.Time{"old.xml": time.Unix(0, 0), "new.xml": time.Date(2199, 1, 1, 0, 0, 0, 0, time.UTC)} {
		w.drop(t, name, name)
		if err := os.Chtimes(filepath.Join(w.dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		stop := w.start(t)
		time.Sleep(w.opt.Every + 6*time.Minute)
		stop()
	})
	equal(t, "contents", w.contents(t), []string{"new.xml=new.xml", "old.xml=old.xml"})
}

// Two directories whose names differ only in Unicode normalization are different: their files go
// into different bundles. Files of one directory with such names belong together and cannot be
// sent.
func TestNamesEqualInNFC(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for name, content := range map[string]string{
		"e\u0301/x.xml": "<a/>", "\u00e9/x.xml": "<b/>", "e\u0301.xml": "<c/>", "\u00e9.pdf": "d", "twin\u00e9.xml": "<e/>", "twine\u0301.xml": "<f/>",
	} {
		w.drop(t, name, content)
	}
	synctest.Test(t, func(t *testing.T) {
		stop := w.start(t)
		time.Sleep(w.opt.Every + 6*time.Minute)
		stop()
	})
	equal(t, "contents", w.contents(t), []string{"x.xml=<a/>", "x.xml=<b/>", "\u00e9.pdf=d", "\u00e9.xml=<c/>"})
	equal(t, "failed", w.below(t, failedDir, 2), []string{reasonName, "twine\u0301.xml", "twin\u00e9.xml"})
}

// If the disk has no room for the second file of a change, no bundle is created, and the status
// says so.
func TestStatusReportsFullDisk(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	synctest.Test(t, func(t *testing.T) {
		stop := w.start(t)
		defer stop()
		time.Sleep(time.Minute)
		synctest.Wait() // it may write its status at this very moment
		for _, name := range []string{stateName, liveName} {
			if err := os.Mkdir(filepath.Join(w.dir, name+".tmp"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		w.drop(t, "a.xml", "<a/>")
		time.Sleep(w.opt.Every + 6*time.Minute)
		synctest.Wait()
		if s := status(t, w); s.Error == "" || !s.NeedsAttention() {
			t.Errorf("nothing moves, and the status is %+v", s)
		}
		for _, name := range []string{stateName, liveName} {
			if err := os.Remove(filepath.Join(w.dir, name+".tmp")); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(w.opt.Every + 6*time.Minute)
		synctest.Wait()
		if s := status(t, w); s.Error != "" || s.Totals.Bundles != 1 {
			t.Errorf("the disk has room again: %+v", s)
		}
	})
	equal(t, "contents", w.contents(t), []string{"a.xml=<a/>"})
}

// The clock of the computer was set back by two centuries while no agent ran: nothing waits for the
// times of before to come again.
func TestStateTimesAreNotCompared(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.drop(t, "a.xml", "<a/>")
	w.drop(t, "b.xml", "<b/>")
	synctest.Test(t, func(t *testing.T) {
		if err := w.once(t, func(step string) bool { return step == "member" }); !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		name := filepath.Join(w.dir, stateName)
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		year := []byte(time.Now().UTC().Format(`"2006-`))
		if !bytes.Contains(raw, year) {
			t.Fatalf("there is no time in %s", raw)
		}
		if err := os.WriteFile(name, bytes.ReplaceAll(raw, year, []byte(`"2199-`)), 0o600); err != nil {
			t.Fatal(err)
		}
		w.drop(t, "c.xml", "<c/>")
		stop := w.start(t)
		time.Sleep(w.opt.Every + 6*time.Minute)
		stop()
	})
	equal(t, "contents", w.contents(t), []string{"a.xml=<a/>", "b.xml=<b/>", "c.xml=<c/>"})
	equal(t, "sent", w.below(t, sentDir, 2), []string{"a.xml", "b.xml", "c.xml"})
	equal(t, "left", w.left(t), []string(nil))
}

func TestOneAgentForOneDirectory(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	err := w.with(t, nil, func(*Agent) error {
		_, err := Open(w.opt)
		if busy, ok := errors.AsType[*BusyError](err); !ok || busy.PID != os.Getpid() {
			t.Errorf("a second agent: %v", err)
		}
		if s := status(t, w); !s.Running || s.PID != os.Getpid() {
			t.Errorf("status %+v", s)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.with(t, nil, func(*Agent) error { return nil }); err != nil {
		t.Error(err)
	}
}

func TestMarkersAndPatterns(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.opt.Marker, w.opt.Ignore = ".ok", []string{"draft-*"}
	w.drop(t, "a.xml", "a")
	w.drop(t, "a.pdf", "A")
	w.drop(t, "a.ok", "")
	w.drop(t, "b.xml", "b")
	w.drop(t, "c.xml", "c")
	w.drop(t, "c.xml.ok", "")
	w.drop(t, "draft-d.xml", "d")
	w.drop(t, "draft-d.ok", "")
	synctest.Test(t, func(t *testing.T) {
		if err := w.once(t, nil); err != nil {
			t.Error(err)
		}
	})
	equal(t, "contents", w.contents(t), []string{"a.pdf=A", "a.xml=a", "c.xml=c"})
	equal(t, "sent", w.below(t, sentDir, 2), []string{"a.ok", "a.pdf", "a.xml", "c.xml", "c.xml.ok"})
	equal(t, "left", w.left(t), []string{"b.xml", "draft-d.ok", "draft-d.xml"})
}

// Files are found as deep as the server's folders go.
func TestDeepFilesAreSent(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.drop(t, strings.Repeat("d/", 30)+"a.xml", "a")
	synctest.Test(t, func(t *testing.T) {
		if err := w.once(t, nil); err != nil {
			t.Error(err)
		}
	})
	if got := w.contents(t); len(got) != 1 || !strings.HasSuffix(got[0], "a.xml=a") {
		t.Errorf("sent were %q", got)
	}
}

func TestSkippedFilesAreReported(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.drop(t, "empty.xml", "")
	w.drop(t, "a.xml", "a")
	if err := os.Symlink("a.xml", filepath.Join(w.dir, "link.xml")); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	synctest.Test(t, func(t *testing.T) {
		if err := w.once(t, nil); !errors.Is(err, ErrUnsent) {
			t.Errorf("got %v", err)
		}
	})
	equal(t, "held", status(t, w).Held, []SkippedFile{{"empty.xml", "empty"}, {"link.xml", "not a regular file"}})
	equal(t, "contents", w.contents(t), []string{"a.xml=a"})
}

func TestBundleLimits(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.opt.MaxSize, w.opt.MaxFiles = 10, 3
	w.drop(t, "a.xml", "1234")
	w.drop(t, "b.xml", "1234")
	w.drop(t, "c.xml", "1234")
	w.drop(t, "huge.xml", "12345678901234567890")
	for _, name := range []string{"1", "2", "3", "4"} {
		w.drop(t, "same."+name, "x") // they belong together, whatever the limit
	}
	synctest.Test(t, func(t *testing.T) {
		if err := w.once(t, nil); err != nil {
			t.Error(err)
		}
	})
	if got := len(w.contents(t)); got != 8 {
		t.Errorf("%d files arrived", got)
	}
	var sizes []int
	for _, m := range w.sealed(t) {
		sizes = append(sizes, len(m.Members))
	}
	slices.Sort(sizes)
	equal(t, "members", sizes, []int{1, 1, 2, 4})
}

func TestDamagedStateIsKept(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.drop(t, stateName, `{"version":1,"current":{`)
	if _, err := Open(w.opt); !errors.Is(err, errOtherState) {
		t.Errorf("got %v", err)
	}
	if raw, err := os.ReadFile(filepath.Join(w.dir, stateName)); err != nil || string(raw) != `{"version":1,"current":{` {
		t.Errorf("it was changed: %q, %v", raw, err)
	}
}

func TestParseSource(t *testing.T) {
	t.Parallel()
	for _, to := range []string{"", "/", "intake/acme", "/intake", "/intake/", "/intake/a/b", "/other/acme", "/intake/.acme", "/intake/..", "/intake/" + strings.Repeat("a", bundle.MaxSource+1)} {
		if err := (&Options{To: to}).Check(); err == nil {
			t.Errorf("%q is taken", to)
		}
	}
	if err := (&Options{To: "/intake/财务 北京"}).Check(); err != nil {
		t.Error(err)
	}
}

// TestInvoicesInPDFsAreCounted drops a PDF that carries its invoice, and one that is only the
// picture of the XML beside it.
func TestInvoicesInPDFsAreCounted(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	xml := invoicetest.CII(invoicetest.New(1))
	pdf := string(invoicetest.PDF{}.Embed("factur-x.xml", xml))
	w.drop(t, "carrier.pdf", pdf)
	w.drop(t, "scan.pdf", string(invoicetest.PDF{}.Embed("", nil)))
	w.drop(t, "both.pdf", pdf)
	w.drop(t, "both.xml", string(xml))
	synctest.Test(t, func(t *testing.T) {
		if err := w.once(t, nil); err != nil {
			t.Fatal(err)
		}
	})
	got := map[string]int{}
	for _, m := range w.sealed(t) {
		for _, member := range m.Members {
			got[member.Name] = member.Documents
		}
	}
	if diff := cmp.Diff(map[string]int{"carrier.pdf": 1, "scan.pdf": 0, "both.pdf": 0, "both.xml": 1}, got); diff != "" {
		t.Error(diff)
	}
}
