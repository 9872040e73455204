package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/testkit/depth"
)

func (w *world) months(t *testing.T) (names []string) {
	t.Helper()
	e := w.process(w.db, "reader")
	all, err := e.List(t.Context(), w.who, drive.ExportID{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range all {
		b, err := e.find(t.Context(), w.db, "WHERE id = ?", v.ID)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, fmt.Sprintf("%s %d", b.Slot[len(b.Slot)-7:], v.Total))
	}
	return names
}

// Each month is exported once, by any number of instances, also after months of downtime.
func TestScheduleCreatesEachMonthOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, "/in/nov.pdf", "november")
	e := w.process(w.db, "a")
	s, err := e.CreateSchedule(t.Context(), w.who, Schedule{Folder: w.folder(t, "/in"), Zone: "Asia/Shanghai", Filter: Filter{Ext: []string{"pdf"}}})
	if err != nil {
		t.Fatal(err)
	}
	if want := time.Date(2026, 11, 30, 18, 0, 0, 0, time.UTC); s.Month != "2026-11" || !s.DueAt.Std().Equal(want) {
		t.Fatalf("it is due at %s for %s", s.DueAt, s.Month)
	}
	if err := e.calendar.run(t.Context()); err != nil || len(w.months(t)) != 0 {
		t.Fatalf("it was made too early: %v", err)
	}
	w.clock.Store(int64(s.DueAt))
	for range 2 {
		w.runSchedules(t, 10)
	}
	if diff := cmp.Diff([]string{"2026-11 1"}, w.months(t)); diff != "" {
		t.Fatal(diff)
	}
	w.advance(93 * 24 * time.Hour) // downtime in December, January and February
	for range 5 {
		if err := e.calendar.run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"2027-02 0", "2027-01 0", "2026-12 0", "2026-11 1"}, w.months(t)); diff != "" {
		t.Error(diff)
	}
	w.finish(t, e)
	if n := w.count(t, "SELECT COUNT(*) FROM exports WHERE state = 'sealed'"); n != 4 {
		t.Errorf("%d of 4 are sealed", n)
	}
}

// After a downtime of several months, a list or the changes since the last export are exported
// once, and the schedule continues with the month that is running.
func TestScheduleExportsMissedMonthsOnce(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]func(t *testing.T, w *world) Schedule{
		"changes": func(t *testing.T, w *world) Schedule {
			return Schedule{Folder: w.folder(t, "/in"), Filter: Filter{SinceLast: true}}
		},
		"list": func(t *testing.T, w *world) Schedule {
			return Schedule{List: w.put(t, "/list.csv", "path\n/in/nov.pdf\n")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.put(t, "/in/nov.pdf", "november")
			e := w.process(w.db, "a")
			in := source(t, w)
			in.Zone = "Asia/Shanghai"
			s, err := e.CreateSchedule(t.Context(), w.who, in)
			if err != nil {
				t.Fatal(err)
			}
			w.clock.Store(int64(dueAt(s.month+3, time.FixedZone("", 8*3600)))) // November to February are due
			for range 3 {
				if err := e.calendar.run(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff([]string{"2026-11 1"}, w.months(t)); diff != "" {
				t.Error(diff)
			}
			all, err := e.Schedules(t.Context(), w.who)
			if err != nil || len(all) != 1 || all[0].Month != "2027-03" {
				t.Fatalf("the schedules are %+v: %v", all, err)
			}
			w.finish(t, e)
			w.put(t, "/in/march.pdf", "march")
			w.clock.Store(int64(all[0].DueAt))
			if err := e.calendar.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"2027-03 1", "2026-11 1"}, w.months(t)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A process that crashes at any call has created the month's batch or not; the next process
// completes it.
func TestScheduleSurvivesCrashAnywhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, "/in/nov.pdf", "november")
	e := w.process(w.db, "a")
	s, err := e.CreateSchedule(t.Context(), w.who, Schedule{Folder: w.folder(t, "/in")})
	if err != nil {
		t.Fatal(err)
	}
	month := s.month
	months := int64(0)
	for at := int64(1); ; at += int64(depth.Pick(10, 3, 1)) {
		months++
		w.clock.Store(int64(dueAt(month, time.UTC)))
		var err error
		died := w.crashesAt(t, at, func(dead *Exports) { err = dead.calendar.run(t.Context()) })
		if err != nil && !died && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err := e.calendar.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		month++
		if n := w.count(t, "SELECT COUNT(*) FROM exports"); n != months {
			t.Fatalf("killed at call %d: there are %d batches after %d months", at, n, months)
		}
		if !died {
			return
		}
	}
}

// A former administrator has no priority above others, also by a schedule.
func TestScheduleLosesPriorityWithoutAdmin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "a")
	w.put(t, "/in/nov.pdf", "november")
	w.who.Admin = true
	s, err := e.CreateSchedule(t.Context(), w.who, Schedule{Folder: w.folder(t, "/in"), Priority: MaxPriority})
	if err != nil {
		t.Fatal(err)
	}
	for _, admin := range []bool{true, false} {
		w.write(t, exec("UPDATE users SET admin = ?", admin))
		w.clock.Store(int64(s.DueAt))
		if err := e.calendar.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		all, err := e.List(t.Context(), w.who, drive.ExportID{}, 1)
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		if got := all[0].Priority == MaxPriority; got != admin {
			t.Errorf("of an administrator (%v) it has priority %d", admin, all[0].Priority)
		}
		next, err := e.Schedules(t.Context(), w.who)
		if err != nil {
			t.Fatal(err)
		}
		s.DueAt = dueAt(next[0].month, time.UTC)
	}
}

// entries returns the paths of the newest batch, in the order of the zip.
func (w *world) entries(t *testing.T) (paths []string) {
	t.Helper()
	rows, err := w.db.Query(t.Context(), "SELECT path FROM export_wants WHERE export_id = (SELECT MAX(id) FROM exports) ORDER BY n")
	paths, err = sqldb.Scan(rows, err, func(p *string, scan func(...any) error) error { return scan(p) })
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// Each kind of schedule exports at its time what it selects then: files of a month by extension and
// pattern, what has changed since the last export, and what a list names when the schedule is due.
func TestScheduleExportsItsSelection(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		schedule func(w *world) Schedule
		want     [2][]string // of November and December
	}{
		"month, extension and pattern": {func(w *world) Schedule {
			return Schedule{Folder: w.folder(t, "/in"), Filter: Filter{Ext: []string{"pdf"}, Pattern: "inv-*"}}
		}, [2][]string{{"/in/inv-1.pdf"}, {"/in/inv-2.pdf"}}},
		"since the last export": {func(w *world) Schedule {
			return Schedule{Folder: w.folder(t, "/in"), Filter: Filter{SinceLast: true, Ext: []string{"pdf"}}}
		}, [2][]string{{"/in/inv-1.pdf", "/in/other.pdf"}, {"/in/inv-2.pdf"}}},
		"list": {func(w *world) Schedule {
			return Schedule{List: w.folder(t, "/list.csv")}
		}, [2][]string{{"/in/other.pdf"}, {"/in/inv-2.pdf", "/in/inv-1.pdf"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.put(t, "/in/inv-1.pdf", "1")
			w.put(t, "/in/inv.txt", "a text")
			w.put(t, "/in/other.pdf", "another")
			list := w.put(t, "/list.csv", "id,path\n1,/in/other.pdf\n")
			e := w.process(w.db, "a")
			s, err := e.CreateSchedule(t.Context(), w.who, c.schedule(w))
			if err != nil {
				t.Fatal(err)
			}
			w.clock.Store(int64(s.DueAt) - 1)
			if err := e.calendar.run(t.Context()); err != nil || w.count(t, "SELECT COUNT(*) FROM exports") != 0 {
				t.Fatalf("it was made before its time: %v", err)
			}
			w.clock.Store(int64(s.DueAt))
			if err := e.calendar.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want[0], w.entries(t)); diff != "" {
				t.Error(diff)
			}
			w.finish(t, e)
			w.put(t, "/in/inv-2.pdf", "2")
			w.replace(t, list, "path\n/in/inv-2.pdf\n/in/inv-1.pdf\n")
			w.clock.Store(int64(dueAt(s.month+1, time.UTC)))
			if err := e.calendar.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want[1], w.entries(t)); diff != "" {
				t.Error(diff)
			}
			w.finish(t, e)
			w.check(t)
		})
	}
}

// A list that is gone, in the trash, damaged or not a list any more skips the month: its owner gets
// a notice with the reason, and the schedule continues with the next month.
func TestScheduleWithoutItsListNotifiesOwner(t *testing.T) {
	t.Parallel()
	for reason, spoil := range map[string]func(t *testing.T, w *world, list drive.NodeID){
		"not-found":   func(t *testing.T, w *world, list drive.NodeID) { w.purge(t, list) },
		"state":       func(t *testing.T, w *world, list drive.NodeID) { w.trash(t, list) },
		"bad-request": func(t *testing.T, w *world, list drive.NodeID) { w.replace(t, list, "column\nvalue\n") },
		"damaged":     func(t *testing.T, w *world, list drive.NodeID) { w.corrupt(t, w.fileOf(t, list), "path\n/a.pdf\n") },
		"damaged, as marked": func(t *testing.T, w *world, list drive.NodeID) {
			w.write(t, exec("UPDATE blobs SET damaged_at = 1 WHERE file = ?", w.fileOf(t, list)))
		},
		"damaged: lost": func(t *testing.T, w *world, list drive.NodeID) {
			if err := w.store.Remove(t.Context(), w.fileOf(t, list)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			if strings.HasPrefix(reason, reasonDamaged) {
				reason = reasonDamaged
			}
			w := newWorld(t)
			list := w.put(t, "/list.csv", "path\n/a.pdf\n")
			e := w.process(w.db, "a")
			s, err := e.CreateSchedule(t.Context(), w.who, Schedule{List: list})
			if err != nil {
				t.Fatal(err)
			}
			if s.Name != "list" {
				t.Errorf("it is called %q", s.Name)
			}
			spoil(t, w, list)
			w.clock.Store(int64(s.DueAt))
			for range 2 {
				if err := e.calendar.run(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			all, err := e.Schedules(t.Context(), w.who)
			if err != nil || len(all) != 1 {
				t.Fatal(all, err)
			}
			if diff := cmp.Diff(&Skipped{Month: "2026-11", Reason: reason}, all[0].Skipped); diff != "" || all[0].Month != "2026-12" || all[0].List != list {
				t.Error(diff, all[0])
			}
			where := "SELECT COUNT(*) FROM outbox WHERE topic = 'smartdrive.notices' AND event LIKE ?"
			if n := w.count(t, where, `%"skipped"%"`+w.who.User.String()+`"%"`+reason+`"%`); n != 1 {
				t.Errorf("there are %d notices", n)
			}
			if n := w.count(t, "SELECT COUNT(*) FROM exports"); n != 0 {
				t.Errorf("there are %d exports", n)
			}
		})
	}
}

// A schedule names either a folder or a list that is one now; a list takes neither a filter nor
// names, and no schedule takes fixed days.
func TestScheduleRefusesOtherSelections(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "a")
	w.put(t, "/in/a.pdf", "a")
	folder, list, text := w.folder(t, "/in"), w.put(t, "/list.csv", "path\n/in/a.pdf\n"), w.put(t, "/text.txt", "nothing\n")
	for name, s := range map[string]Schedule{
		"nothing": {}, "both": {Folder: folder, List: list}, "a folder as list": {List: folder}, "no list": {List: text},
		"filter": {List: list, Filter: Filter{Ext: []string{"pdf"}}}, "names": {List: list, Names: "{name}"},
		"month": {Folder: folder, Filter: Filter{Month: "2026-10"}}, "days": {Folder: folder, Filter: Filter{From: "2026-10-01"}},
	} {
		if _, err := e.CreateSchedule(t.Context(), w.who, s); !drive.IsKind(err, drive.BadRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	stranger := drive.Who{User: w.who.User, Account: drive.NewID[drive.AccountID]()}
	for _, s := range []Schedule{{List: list}, {Folder: folder}} {
		if _, err := e.CreateSchedule(t.Context(), stranger, s); !drive.IsKind(err, drive.NotFound) {
			t.Errorf("of another account: %v", err)
		}
	}
}

// A schedule over a list has the limits of a list by hand: a month that exceeds one is skipped with
// the reason, leaves no rows, and the next one is exported when there is room again.
func TestScheduledListHasLimitsOfAccount(t *testing.T) {
	t.Parallel()
	for reason, fill := range map[string]func(t *testing.T, w *world, e *Exports){
		"too-large": func(t *testing.T, w *world, e *Exports) {
			w.create(t, e, Request{Manifest: []Item{{Path: "/missing"}}})
			w.write(t, exec("UPDATE export_texts SET size = ?", maxTexts))
		},
		"too-many-open": func(t *testing.T, w *world, e *Exports) {
			for range maxHeld {
				w.create(t, e, Request{Manifest: []Item{{Path: "/missing"}}})
			}
		},
		"quota": func(t *testing.T, w *world, e *Exports) {
			at := w.put(t, "/large", strings.Repeat("x", 1000))
			w.create(t, e, Request{Nodes: []drive.NodeID{at}})
			w.finish(t, e)
			w.limit(t, 1000)
		},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			e := w.process(w.db, "a", func(o *Options) { o.MaxEntries = 2 })
			s, err := e.CreateSchedule(t.Context(), w.who, Schedule{List: w.put(t, "/list.csv", "path\n/a\n/b\n/c\n")})
			if err != nil {
				t.Fatal(err)
			}
			fill(t, w, e)
			batches, rows := w.count(t, "SELECT COUNT(*) FROM exports"), w.count(t, "SELECT COUNT(*) FROM export_wants")
			w.clock.Store(int64(s.DueAt))
			for range 2 {
				if err := e.calendar.run(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			all, err := e.Schedules(t.Context(), w.who)
			if err != nil || len(all) != 1 {
				t.Fatal(all, err)
			}
			if diff := cmp.Diff(&Skipped{Month: "2026-11", Reason: reason}, all[0].Skipped); diff != "" || all[0].Month != "2026-12" {
				t.Error(diff, all[0])
			}
			if n := w.count(t, "SELECT COUNT(*) FROM outbox WHERE topic = 'smartdrive.notices' AND event LIKE ?", `%"skipped"%"`+reason+`"%`); n != 1 {
				t.Errorf("there are %d notices", n)
			}
			if n := w.count(t, "SELECT COUNT(*) FROM exports"); n != batches {
				t.Errorf("%d of %d batches", n, batches)
			}
			if n := w.count(t, "SELECT COUNT(*) FROM export_wants"); n != rows {
				t.Errorf("%d of %d rows of lists", n, rows)
			}
			if n := w.count(t, "SELECT COUNT(*) FROM export_texts WHERE export_id NOT IN (SELECT id FROM exports)"); n != 0 {
				t.Errorf("%d lists without a batch", n)
			}
			held, err := e.List(t.Context(), w.who, drive.ExportID{}, maxHeld)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range held[:min(2, len(held))] {
				if err := e.Cancel(t.Context(), w.who, v.ID); err != nil {
					t.Fatal(err)
				}
			}
			if err := e.releaser.releaseEnded(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.clock.Store(int64(all[0].DueAt))
			if err := e.calendar.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := w.count(t, "SELECT COUNT(*) FROM exports WHERE origin = 'schedule'"); n != 2 {
				t.Errorf("%d of 2 batches of the month with room", n)
			}
			w.check(t)
		})
	}
}

// Instances that make the list of one month concurrently count it once.
func TestScheduledListThatJustFitsIsExported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "a")
	s, err := e.CreateSchedule(t.Context(), w.who, Schedule{List: w.put(t, "/list.csv", "path\n/a\n")})
	if err != nil {
		t.Fatal(err)
	}
	w.create(t, e, Request{Manifest: []Item{{Path: "/missing"}}})
	list := textBytes([]listEntry{{Path: "/a", Name: "a"}})
	w.write(t, exec("UPDATE export_texts SET size = ?", maxTexts-list))
	w.clock.Store(int64(s.DueAt))
	w.runSchedules(t, 5)
	if err := e.calendar.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := w.count(t, "SELECT COUNT(*) FROM exports WHERE origin = 'schedule'"); n != 1 {
		t.Errorf("there are %d exports", n)
	}
	if n, _ := listsOf(t, w); n != maxTexts {
		t.Errorf("the lists have %d of %d bytes", n, maxTexts)
	}
}

// The list of a schedule is read within the memory of all lists: without room the month waits, and
// no schedule is created.
func TestScheduledListWaitsForMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "a")
	list := w.put(t, "/list.csv", "path\n/a\n"+strings.Repeat("\n", int(uncountedBody)))
	small := w.put(t, "/small.csv", "path\n/a\n")
	s, err := e.CreateSchedule(t.Context(), w.who, Schedule{List: list})
	if err != nil {
		t.Fatal(err)
	}
	if n := e.reading.Load(); n != 0 {
		t.Fatalf("%d bytes are not given back", n)
	}
	other := e.LimitBody(io.LimitReader(zeros{}, uncountedBody+bodyMemory))
	if _, err := io.Copy(io.Discard, other); err != nil {
		t.Fatal(err)
	}
	if _, err := e.CreateSchedule(t.Context(), w.who, Schedule{List: list}); !drive.IsKind(err, drive.Unavailable) {
		t.Errorf("a second schedule: %v", err)
	}
	if _, err := e.CreateSchedule(t.Context(), w.who, Schedule{List: small}); err != nil {
		t.Errorf("one of a small list: %v", err)
	}
	w.clock.Store(int64(s.DueAt))
	if err := e.calendar.run(t.Context()); !drive.IsKind(err, drive.Unavailable) {
		t.Errorf("without memory: %v", err)
	}
	if n := w.count(t, "SELECT COUNT(*) FROM exports"); n != 1 {
		t.Errorf("%d exports, of which the small list has one", n)
	}
	other.Close()
	w.advance(retrySchedule)
	if err := e.calendar.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := w.count(t, "SELECT COUNT(*) FROM exports"); n != 2 {
		t.Errorf("%d of 2 exports when there is memory", n)
	}
	if n := e.reading.Load(); n != 0 {
		t.Errorf("%d bytes are not given back", n)
	}
}

// Schedules that fail, more than one call runs, do not keep later ones from their turn; they are
// tried again, and their month is exported when the store gives their list.
func TestFailingSchedulesDoNotBlockOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var away atomic.Bool
	var refused atomic.Pointer[string]
	e := w.process(w.db, "a", func(o *Options) { o.Store = refusingStore{absentStore{w.store, &away}, &refused} })
	bad, good := w.put(t, "/bad.csv", "path\n/a.pdf\n"), w.put(t, "/good.csv", "path\n/b.pdf\n")
	var s Schedule
	for i := range duePage + 1 {
		in := Schedule{List: bad, Zone: "Asia/Shanghai"} // due before the good one
		if i == duePage {
			in = Schedule{List: good}
		}
		var err error
		if s, err = e.CreateSchedule(t.Context(), w.who, in); err != nil {
			t.Fatal(err)
		}
	}
	file := w.fileOf(t, bad)
	refused.Store(&file)
	w.clock.Store(int64(s.DueAt))
	for _, want := range []int64{0, 1} {
		if err := e.calendar.run(t.Context()); (err == nil) != (want == 1) {
			t.Errorf("with %d exports to be made: %v", want, err)
		}
		if n := w.count(t, "SELECT COUNT(*) FROM exports"); n != want {
			t.Errorf("%d of %d exports", n, want)
		}
	}
	refused.Store(nil)
	w.advance(retrySchedule)
	if err := e.calendar.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := w.count(t, "SELECT COUNT(*) FROM exports"); n != duePage+1 {
		t.Errorf("%d of %d exports", n, duePage+1)
	}
	if n := w.count(t, "SELECT COUNT(*) FROM export_schedules WHERE month = ?", s.month+1); n != duePage+1 {
		t.Errorf("%d of %d schedules continue", n, duePage+1)
	}
}

// runSchedules lets n processes create the batches of due schedules concurrently. A process may
// fail with Unavailable if another one was faster.
func (w *world) runSchedules(t *testing.T, n int) {
	t.Helper()
	var all sync.WaitGroup
	for i := range n {
		p := w.process(w.db, fmt.Sprint(i))
		all.Go(func() {
			if err := p.calendar.run(t.Context()); err != nil && !drive.IsKind(err, drive.Unavailable) {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
