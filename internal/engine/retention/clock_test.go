package retention_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/retention"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

const day = 24 * time.Hour

// world is a database with its clock, and the time that has really passed.
type world struct {
	t      *testing.T
	db     *sqldb.DB
	passed time.Duration
	step   time.Duration // of the database's clock
	away   bool
	all    []*machine
}

// machine is an instance with its own clock.
type machine struct {
	*retention.Clock
	off time.Duration
}

var begun = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

func newWorld(t *testing.T) *world {
	t.Helper()
	return &world{t: t, db: sqldbtest.Open(t)}
}

// start starts an instance, whose clock goes with the database's.
func (w *world) start() *machine {
	w.t.Helper()
	m := &machine{}
	m.Clock = retention.New(retention.Options{
		DB: w.db, Log: slog.New(slog.DiscardHandler),
		Now: func(context.Context) (drive.Time, error) {
			if w.away {
				return 0, errors.New("away")
			}
			return drive.TimeOf(w.now()), nil
		},
		Wall:    func() time.Time { return w.now().Add(m.off) },
		Elapsed: func() time.Duration { return w.passed },
	})
	if err := m.Update(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.all = append(w.all, m)
	return m
}

// now is the database's clock.
func (w *world) now() time.Time { return begun.Add(w.passed + w.step) }

// pass advances the time, and every machine reads the clock each minute. A long time passes in
// larger steps, each shorter than the credited maximum.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	for end := w.passed + d; w.passed < end; {
		w.passed += min(end-w.passed, 4*time.Minute)
		for _, m := range w.all {
			if err := m.Update(w.t.Context()); err != nil && !w.away {
				w.t.Fatal(err)
			}
		}
	}
}

// is fails unless the clock of m is behind the real time by the given duration, within a minute.
func (w *world) is(m *machine, behind time.Duration) {
	w.t.Helper()
	got := begun.Add(w.passed).Sub(m.Now())
	if (got - behind).Abs() > time.Minute {
		w.t.Errorf("after %v it is %v behind what has passed, want %v", w.passed, got, behind)
	}
}

func TestClockFollowsDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.start()
	w.is(m, 0)
	w.pass(3 * time.Hour)
	w.is(m, 0)
	w.step = 30 * time.Second // a time server at work
	w.pass(time.Hour)
	w.is(m, -30*time.Second)
	w.pass(10 * time.Second)
	w.is(m, -30*time.Second) // between two looks it goes on
}

// After a jump of a month, nothing counts as older for a day. If the clock is corrected within that
// day, the jump has no effect.
func TestForwardJumpIsIgnored(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"while it runs": false, "across a restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			m := w.start()
			w.pass(time.Hour)
			w.step = 30 * day
			if restart {
				w.all = nil
				m = w.start()
				w.is(m, -5*time.Minute) // since the row was written, by what it knows
				w.pass(5 * time.Minute)
			}
			ahead := m.Now().Sub(begun.Add(w.passed)) // at most what is credited
			if ahead > 10*time.Minute {
				t.Fatalf("the jump is believed: %v ahead", ahead)
			}
			w.pass(23 * time.Hour)
			w.is(m, -ahead)
			if behind := m.Behind(); (behind - 30*day + ahead).Abs() > time.Minute {
				t.Errorf("it says that it is %v behind", behind)
			}
			w.step = 0
			w.pass(2 * day)
			w.is(m, 0)
		})
	}
}

// A step that everybody agrees on for a day was a correction, or the machine was switched off.
func TestForwardStepIsAcceptedAfterADay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.start()
	w.pass(time.Hour)
	w.step = 3 * day
	w.pass(25 * time.Hour)
	w.is(m, -3*day)
	if m.Behind() != 0 {
		t.Errorf("it is %v behind", m.Behind())
	}
}

// A clock that jumps repeatedly is ignored: the retention clock advances by the elapsed time.
func TestRepeatedClockJumpsAreIgnored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.start()
	for range 5 {
		w.pass(16 * time.Hour)
		w.step += 8 * time.Hour
		w.pass(4 * time.Minute)
		w.is(m, 0)
	}
}

// A clock that is set back is followed at once: new rows get its time.
func TestBackwardStepIsFollowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.start()
	w.pass(time.Hour)
	w.step = -10 * day
	w.pass(4 * time.Minute)
	w.is(m, 10*day)
	w.pass(time.Hour)
	w.is(m, 10*day)
}

// Items deleted while the clock is ten years behind are stamped with the retention time, so that
// they are not ten years old after the clock is corrected, neither in a process started meanwhile
// nor with several readers.
func TestItemsStampedBySlowClockAreNotOld(t *testing.T) {
	t.Parallel()
	for name, restart := range map[string]bool{"while it runs": false, "across a restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			m, second := w.start(), w.start()
			w.pass(3 * time.Hour)
			w.step = -3650 * day
			if restart {
				w.all = nil
				m, second = w.start(), w.start()
			}
			w.pass(5 * time.Hour)
			for _, one := range []*machine{m, second} {
				if got := begun.Add(w.passed).Sub(one.Latest()); got.Abs() > 15*time.Minute {
					t.Errorf("it stamps with a time that is off by %v", got)
				}
			}
			w.step = 0
			w.pass(25 * time.Hour)
			for _, one := range []*machine{m, second, w.start()} {
				w.is(one, 0)
				if got := one.Latest().Sub(one.Now()); got != 0 {
					t.Errorf("it stamps with a time that is %v ahead", got)
				}
			}
		})
	}
}

// A clock that was ahead for so long that it was believed, and is set right, is right after a day.
func TestStampsFollowAClockThatIsSetBackAfterADay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.start()
	w.step = 10 * day
	w.pass(25 * time.Hour)
	w.is(m, -10*day)
	w.step = 0
	w.pass(23 * time.Hour)
	w.is(m, 0)
	if ahead := m.Latest().Sub(m.Now()); (ahead - 10*day).Abs() > time.Minute {
		t.Errorf("it stamps with a time that is %v ahead", ahead)
	}
	w.pass(2 * time.Hour)
	if ahead := m.Latest().Sub(m.Now()); ahead != 0 {
		t.Errorf("it stamps with a time that is %v ahead after a day", ahead)
	}
}

// One machine's clock is off, the database's is not: nothing is hurt, and no step is believed while
// they disagree.
func TestDisagreeingClocksAcceptNoStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	good, bad := w.start(), w.start()
	w.pass(time.Hour)
	bad.off = 30 * day
	w.pass(2 * day)
	w.is(good, 0)
	w.is(bad, 0)
	w.step = 10 * day
	w.pass(2 * day)
	w.is(good, 0)
	w.is(bad, 0)
	bad.off = 0
	w.pass(25 * time.Hour)
	w.is(good, -10*day)
	w.is(bad, -10*day)
}

// Without the database the clock advances for a short time and then stops. Before its first read
// nothing counts as old.
func TestWithoutTheDatabaseTheClockStands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if at := retention.New(retention.Options{DB: w.db}).Now(); !at.IsZero() {
		t.Errorf("before the first look it is %v", at)
	}
	m := w.start()
	w.pass(time.Hour)
	w.away = true
	w.pass(6 * time.Minute)
	w.is(m, 0)
	w.pass(3 * time.Hour)
	if behind := begun.Add(w.passed).Sub(m.Now()); behind < 2*time.Hour {
		t.Errorf("it went on for %v without the database", 3*time.Hour-behind)
	}
	w.away = false
	w.pass(26 * time.Hour)
	w.is(m, 0)
}
