package export

import (
	"fmt"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/testkit/depth"
)

// A list that is too long becomes several zips with distinct paths, so that all can be unpacked to
// one place.
func TestLongListIsSplit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "one", func(o *Options) { o.MaxEntries = 3 })
	w.put(t, "/a.pdf", "first")
	in := Request{Name: "disk"}
	for range 7 {
		in.Manifest = append(in.Manifest, Item{Path: "/a.pdf", Name: "A/a.pdf"})
	}
	in.Manifest[4] = Item{Path: "/none.pdf"}
	first := w.create(t, e, in)
	w.finish(t, e)
	set, err := e.ListSet(t.Context(), w.who, first.ID)
	if err != nil || len(set) != 3 {
		t.Fatalf("%d parts: %v", len(set), err)
	}
	names, all := map[string]bool{}, 0
	for i, v := range set {
		want := []int64{3, 3, 1}[i]
		if v.State != Sealed || v.Total != want || v.Part != int64(i)+1 || v.Parts != 3 || v.Set != first.ID || (i == 0) != (v.ID == first.ID) {
			t.Errorf("part %d is %+v", i+1, v)
		}
		d, err := e.Open(t.Context(), w.who, v.ID)
		if err != nil || d.Filename() != fmt.Sprintf("disk-%dof3.zip", i+1) {
			t.Errorf("it is called %s: %v", d.Filename(), err)
		}
		_, files := w.download(t, e, v.ID)
		for name := range files {
			all++
			names[strings.ToLower(name)] = true
		}
	}
	if all != 7 || len(names) != 7 || !names["err-2of3.txt"] || !names["disk/a/a (2).pdf"] {
		t.Errorf("the zips have %d entries, of different names %v", all, names)
	}
	again, err := e.Supplement(t.Context(), w.who, set[1].ID, SupplementRequest{}, nil)
	if err != nil || again.Part != 2 || again.Revision != 2 {
		t.Errorf("the supplement is %+v: %v", again, err)
	}
	if got := zipName("disk", part{first.ID, again.Part, again.Parts}, again.Revision); got != "disk-2of3-2.zip" {
		t.Errorf("it is called %s", got)
	}
	w.check(t)
	if err := e.DeleteAccount(t.Context(), w.who.Account); err != nil {
		t.Fatal(err)
	}
	if n := w.count(t, "SELECT COUNT(*) FROM export_parts"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

// All parts are created or none. Lists beyond all parts, and more batches than allowed, are
// refused.
func TestPartsAreCreatedTogether(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	small := func(o *Options) { o.MaxEntries = 2 }
	e := w.process(w.db, "one", small)
	w.put(t, "/a.pdf", "first")
	list := func(n int) (in Request) {
		for range n {
			in.Manifest = append(in.Manifest, Item{Path: "/a.pdf"})
		}
		return in
	}
	if _, err := e.Create(t.Context(), w.who, list(2*maxParts+1), nil); !drive.IsKind(err, drive.TooLarge) {
		t.Errorf("a list that is too long: %v", err)
	}
	for made, at := 0, int64(1); made == 0; at += int64(depth.Pick(5, 1, 1)) {
		died := w.crashesAt(t, at, func(dead *Exports) { _, _ = dead.Create(t.Context(), w.who, list(5), nil) }, small) // the rows tell how it ended
		n := w.count(t, "SELECT COUNT(*) FROM exports")
		if n != 0 && n != 3 || n == 0 && !died {
			t.Fatalf("killed at call %d: %d of 3 parts are there", at, n)
		}
		made = int(n)
	}
	for held := 3; held+maxParts <= maxHeld; held += maxParts {
		w.create(t, e, list(2*maxParts))
	}
	if _, err := e.Create(t.Context(), w.who, list(2*maxParts), nil); !drive.IsKind(err, drive.TooManyOpen) {
		t.Errorf("more than an account may have: %v", err)
	}
	w.finish(t, e)
	w.check(t)
}

// A month with too many files for one zip is split; a month that cannot be exported is reported.
func TestScheduledMonthIsSplit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "one", func(o *Options) { o.MaxEntries = 2 })
	for i := range 5 {
		w.put(t, fmt.Sprintf("/in/%d.pdf", i), "november")
	}
	if _, err := e.CreateSchedule(t.Context(), w.who, Schedule{Folder: w.folder(t, "/in")}); err != nil {
		t.Fatal(err)
	}
	look := func() (s Schedule, batches int) {
		all, err := e.Schedules(t.Context(), w.who)
		if err != nil {
			t.Fatal(err)
		}
		w.clock.Store(int64(all[0].DueAt))
		for range 2 {
			if err := e.calendar.run(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if all, err = e.Schedules(t.Context(), w.who); err != nil {
			t.Fatal(err)
		}
		return all[0], len(w.months(t))
	}
	s, n := look()
	if s.Month != "2026-12" || s.Skipped != nil || n != 3 {
		t.Errorf("%d batches, skipped %v", n, s.Skipped)
	}
	w.trash(t, w.folder(t, "/in"))
	if s, n = look(); n != 3 || s.Skipped == nil || *s.Skipped != (Skipped{"2026-12", "state"}) {
		t.Errorf("%d batches, skipped %v", n, s.Skipped)
	}
}

// Files whose total exceeds the size of a zip are split before collecting. More than a set can hold
// is refused; a schedule records that and continues.
func TestLargeFilesAreSplit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, "/in/a.pdf", "12345")
	w.put(t, "/in/b.pdf", "123456")
	w.put(t, "/in/c.pdf", "1234")
	in := Request{Folder: w.folder(t, "/in")}
	first := w.create(t, w.process(w.db, "one", func(o *Options) { o.MaxSize = 10 }), in)
	if first.Parts != 2 || first.Total != 1 {
		t.Errorf("of 5, 6 and 4 bytes the first of zips of 10 is %+v", first)
	}
	if v := w.create(t, w.process(w.db, "two", func(o *Options) { o.MaxSize = 1 }), in); v.Parts != 3 {
		t.Errorf("a file that is too large for a zip has none to itself: %+v", v)
	}
	for i := range maxParts {
		w.put(t, fmt.Sprintf("/in/%d.pdf", i), "123456")
	}
	e := w.process(w.db, "three", func(o *Options) { o.MaxSize = 6 })
	if _, err := e.Create(t.Context(), w.who, in, nil); !drive.IsKind(err, drive.TooLarge) {
		t.Errorf("thirteen zips: %v", err)
	}
	s, err := e.CreateSchedule(t.Context(), w.who, Schedule{Folder: in.Folder})
	if err != nil {
		t.Fatal(err)
	}
	w.clock.Store(int64(s.DueAt))
	if err := e.calendar.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := e.Schedules(t.Context(), w.who)
	if err != nil || len(all) != 1 || all[0].Skipped == nil || all[0].Skipped.Reason != "too-large" || all[0].Month == s.Month {
		t.Errorf("the schedules are %+v: %v", all, err)
	}
}
