// Package retention is the clock that decides how long something was kept: before trash, old
// versions, deleted users, abandoned uploads, sent records are deleted for good. It is not the
// clock that people are shown, nor the one that leases and logins go by.
//
// A wall clock may jump: a dead battery, a wrong time server, a restored virtual machine. One that
// jumps a month ahead would empty every trash. So this clock is kept in the database, and moves by
// what has really passed:
//
//		            reads each minute                       database
//		  instance ───────────────────► now, and the row ◄─────────── meta 'retention': time, seen, steady
//		     │                                                  ▲
//		     └── what has passed on the machine's monotonic ────┘  compare-and-set, at most every 5 minutes
//
//	  - It is never later than the database's clock.
//	  - It moves by the monotonic clock of a process, and by no more than 10 minutes for any time that no process has seen.
//	  - It follows the database's clock at once while that is less than a minute ahead, and a larger step only after all have agreed on the
//	    time for 24 hours: nobody has seen a step, nor is further than a minute off the database's clock. Until then what is kept is kept
//	    for longer, by as much as the step; a machine that is switched off for a night makes one.
//
// Where the database's clock is set back, this one follows, and once it is set right what was
// deleted meanwhile would look as old as the step. So another time is kept, the latest one that
// this clock has had, moved on by what has passed: it is what such rows are stamped with.
package retention

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/base/telemetry"
	"smartdrive/internal/engine/meta"
	"smartdrive/internal/engine/sqldb"
)

const (
	lookEvery = time.Minute
	saveEvery = 5 * time.Minute  // one small commit
	credit    = 10 * time.Minute // at most, for what no process has seen pass: a restart, an outage of the database
	maxSkew   = time.Minute      // more is a step, or a machine whose clock is wrong
	steadyFor = 24 * time.Hour   // until a step is believed: long enough for somebody to be told and set the clock
	metaName  = "retention"
)

// Options configure New.
type Options struct {
	DB *sqldb.DB
	// Now is the clock of the database. Default: DB.Now.
	Now func(ctx context.Context) (drive.Time, error)
	// Wall is the clock of this machine. Default: time.Now.
	Wall func() time.Time
	// Passed is what has passed since any moment, and never jumps. Default: the machine's monotonic
	// clock.
	Passed func() time.Duration
	Log    *slog.Logger // default: slog.Default
}

// Clock is the clock of retention. It is safe for concurrent use.
type Clock struct {
	opt Options

	mu     sync.Mutex
	looked bool          // the fields below mean something
	at     drive.Time    // what the clock said at the last look
	latest drive.Time    // what Latest said
	last   moment        // of the last look
	doubt  time.Duration // until when, by Passed, this instance doubts the clocks
	behind time.Duration
}

// moment is one point in time by two clocks.
type moment struct {
	db     drive.Time
	passed time.Duration
}

// saved is the row.
type saved struct {
	Time   drive.Time `json:"time"`   // of retention
	Latest drive.Time `json:"latest"` // see Clock.Latest; absent: Time
	Seen   drive.Time `json:"seen"`   // the database's clock when it was written
	Steady int64      `json:"steady"` // ms for which nobody has seen a step
}

// New makes a Clock. Its time is zero, and nothing is old, until Look has succeeded once.
func New(opt Options) *Clock {
	if opt.Now == nil {
		opt.Now = opt.DB.Now
	}
	if opt.Wall == nil {
		opt.Wall = time.Now
	}
	if opt.Passed == nil {
		begun := time.Now()
		opt.Passed = func() time.Duration { return time.Since(begun) }
	}
	opt.Log = cmp.Or(opt.Log, slog.Default())
	return &Clock{opt: opt}
}

// Now returns the time that retention goes by. It does no I/O.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sinceLocked(c.at).Std()
}

// Latest returns what Now would be if the database's clock had not been set back, until all have
// agreed on its time for 24 hours. It is what a row is stamped with at least whose age Now will
// decide about.
func (c *Clock) Latest() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sinceLocked(c.latest).Std()
}

// sinceLocked moves a time of the last look on.
func (c *Clock) sinceLocked(at drive.Time) drive.Time {
	if !c.looked {
		return 0
	}
	return at.Add(min(c.opt.Passed()-c.last.passed, credit))
}

// movedLocked moves a time of the row on, which this process knows as another one. It has seen what
// has passed; another process may have moved the row on since.
func (c *Clock) movedLocked(row drive.Time, unseen time.Duration, mine drive.Time) drive.Time {
	at := row.Add(min(max(unseen, 0), credit))
	if !c.looked {
		return at
	}
	mine = c.sinceLocked(mine)
	return min(max(at, mine), max(mine, row))
}

// Behind returns by how much the clock is behind the database's: what is kept is kept for longer by
// as much.
func (c *Clock) Behind() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.behind
}

// Run looks each minute until ctx is done. What fails is repeated; meanwhile the clock goes on for
// 10 minutes and then stands.
func (c *Clock) Run(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var outage telemetry.Outage
	for {
		outage.Note(ctx, c.opt.Log, "the clock of retention could not be read", c.Look(ctx))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Look compares the clocks, moves the one of retention on, and takes over what other instances have
// made of it.
func (c *Clock) Look(ctx context.Context) error {
	text, row, err := c.find(ctx)
	if err != nil {
		return fmt.Errorf("read the clock of retention: %w", err)
	}
	asked, wall := c.opt.Passed(), c.opt.Wall()
	db, err := c.opt.Now(ctx)
	if err != nil {
		return err
	}
	now := moment{db, c.opt.Passed()}
	doubtful := c.compare(ctx, db.Sub(drive.TimeOf(wall)), now, now.passed-asked)
	next, write := c.advance(text == "", row, now, doubtful)
	if write {
		if err := c.save(ctx, text, next); err != nil {
			return fmt.Errorf("write the clock of retention: %w", err)
		}
	}
	return nil
}

// compare reports whether this instance has reason to doubt the database's clock, which is off its
// own by so much, or its own. That the reply took a while is not a reason.
func (c *Clock) compare(ctx context.Context, off time.Duration, now moment, took time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	var step time.Duration
	if c.looked {
		step = now.db.Sub(c.last.db) - (now.passed - c.last.passed)
	}
	if off.Abs() <= maxSkew+took && step.Abs() <= maxSkew+took {
		return now.passed < c.doubt
	}
	c.doubt = now.passed + saveEvery
	c.opt.Log.WarnContext(ctx, "the clocks disagree; what is kept is kept by the time that has really passed, until they have agreed for a day",
		"step", step.Round(time.Millisecond), "off", off.Round(time.Millisecond))
	return true
}

// advance makes the next row of the present one, and sets the clock of this process by it.
func (c *Clock) advance(first bool, row saved, now moment, doubtful bool) (next saved, write bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	unseen := now.db.Sub(row.Seen)
	if first {
		next = saved{Time: now.db, Seen: now.db}
	} else {
		next = saved{
			Time: c.movedLocked(row.Time, unseen, c.at), Latest: c.movedLocked(max(row.Latest, row.Time), unseen, c.latest),
			Seen: now.db, Steady: row.Steady + unseen.Milliseconds(),
		}
	}
	if doubtful || unseen < 0 || unseen > credit {
		next.Steady = 0
	}
	if next.Steady >= steadyFor.Milliseconds() {
		next.Time, next.Latest = now.db, now.db
	} else if now.db.Sub(next.Time) <= maxSkew && !doubtful {
		next.Time = now.db
	}
	next.Time = min(next.Time, now.db)
	next.Latest = max(next.Latest, next.Time)
	c.looked, c.at, c.latest, c.last, c.behind = true, next.Time, next.Latest, now, now.db.Sub(next.Time)
	return next, first || unseen < 0 || unseen >= saveEvery || doubtful && row.Steady > 0
}

func (c *Clock) find(ctx context.Context) (text string, row saved, err error) {
	if text, err = meta.Find(ctx, c.opt.DB, metaName); err != nil || text == "" {
		return "", saved{}, err
	}
	err = json.Unmarshal([]byte(text), &row)
	return text, row, err
}

// save writes the row unless somebody else has: each of them saw as much time pass.
func (c *Clock) save(ctx context.Context, was string, row saved) error {
	text, err := json.Marshal(row)
	if err != nil {
		return err
	}
	return c.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if was == "" {
			_, err = meta.Make(ctx, tx, metaName, string(text))
		} else {
			_, err = meta.Swap(ctx, tx, metaName, was, string(text))
		}
		return err
	})
}
