package export

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/testkit/depth"
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
		var all sync.WaitGroup
		for i := range 10 {
			p := w.process(w.db, fmt.Sprint(i))
			all.Go(func() {
				if err := p.calendar.run(t.Context()); err != nil && !drive.IsKind(err, drive.Unavailable) {
					t.Error(err)
				}
			})
		}
		all.Wait()
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
