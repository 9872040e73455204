// Package retention provides the clock for deletion by age: trash, old versions, deleted users,
// abandoned uploads and sent records. Times shown to people, leases and logins use other clocks.
//
// A wall clock may jump: an empty battery, a wrong time server, a restored virtual machine. A jump
// by a month would empty every trash. So this clock is stored in the database and advances by the
// time that has really passed:
//
//		            reads each minute                       database
//		  instance ───────────────────► now, and the row ◄─────────── meta 'retention': time, seen, steady
//		     │                                                  ▲
//		     └── elapsed time, by the monotonic clock ──────────┘  compare-and-set, at most every 5 minutes
//
//	  - It is never later than the database's clock.
//	  - It advances by the monotonic clock of a process, and by at most 10 minutes for a period that no process observed.
//	  - It follows the database's clock immediately if that is less than a minute ahead. It follows a larger step only after the clocks
//	    have agreed for 24 hours: no instance saw a step or is more than a minute off the database's clock. Until then retention is
//	    longer, by the size of the step. A machine that is switched off for a night also makes a step.
//
// If the database's clock is set back, this clock follows. After the correction, rows deleted
// meanwhile would look older by the step. So a second time is kept, Latest: the greatest time of
// this clock, advanced by elapsed time. Rows are stamped with at least Latest.
package retention

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/telemetry"
	"example.org/smartdrive/internal/engine/meta"
	"example.org/smartdrive/internal/engine/sqldb"
)

const (
	updateEvery = time.Minute      // interval of Update
	saveEvery   = 5 * time.Minute  // one small commit
	maxCredit   = 10 * time.Minute // credit for time that no process observed: a restart, an outage of the database
	maxSkew     = time.Minute      // a greater difference is a step, or a wrong clock of a machine
	steadyFor   = 24 * time.Hour   // time until a step is accepted: long enough to alert an administrator, who can correct the clock
	metaName    = "retention"      // row of meta that stores the clock
)

// Options configure New. DB is required.
type Options struct {
	DB *sqldb.DB
	// Now reads the clock of the database. Default DB.Now.
	Now func(ctx context.Context) (drive.Time, error)
	// Wall is the clock of this machine. Default time.Now.
	Wall func() time.Time
	// Elapsed returns the time elapsed since a fixed moment and never jumps. Default: the monotonic
	// clock.
	Elapsed func() time.Duration
	Log     *slog.Logger // default slog.Default
}

// Clock is the retention clock. It is safe for concurrent use.
type Clock struct {
	opt Options

	mu         sync.Mutex
	valid      bool          // Look has succeeded; the fields below are valid
	at         drive.Time    // the clock's time at the last Update
	latest     drive.Time    // Latest at the last Update
	last       moment        // time of the last Update
	doubtUntil time.Duration // by Elapsed: this instance distrusts the clocks until then
	behind     time.Duration // difference to the database's clock at the last Update
}

// moment is one point in time by two clocks.
type moment struct {
	db     drive.Time    // by the clock of the database
	passed time.Duration // by Options.Elapsed
}

// saved is the value stored in the database.
type saved struct {
	Time   drive.Time `json:"time"`   // the clock's time
	Latest drive.Time `json:"latest"` // see Clock.Latest; absent: Time
	Seen   drive.Time `json:"seen"`   // the database's clock at the time of writing
	Steady int64      `json:"steady"` // ms without a step observed by any instance
}

// New returns a Clock. Until the first successful Update its time is zero, so that nothing counts
// as old.
func New(opt Options) *Clock {
	if opt.Now == nil {
		opt.Now = opt.DB.Now
	}
	if opt.Wall == nil {
		opt.Wall = time.Now
	}
	if opt.Elapsed == nil {
		begun := time.Now()
		opt.Elapsed = func() time.Duration { return time.Since(begun) }
	}
	opt.Log = cmp.Or(opt.Log, slog.Default())
	return &Clock{opt: opt}
}

// Now returns the retention time. It does no I/O. Zero before the first successful Update.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sinceLocked(c.at).Std()
}

// Latest returns the retention time as if the database's clock had not been set back, until the
// clocks have agreed for 24 hours. A row whose age Now will decide about must be stamped with at
// least Latest. It does no I/O.
func (c *Clock) Latest() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sinceLocked(c.latest).Std()
}

// sinceLocked advances at, a time of the last Update, by the time elapsed since, at most maxCredit;
// 0 before the first Update. The caller holds c.mu.
func (c *Clock) sinceLocked(at drive.Time) drive.Time {
	if !c.valid {
		return 0
	}
	return at.Add(min(c.opt.Elapsed()-c.last.passed, maxCredit))
}

// movedLocked returns the new value for a time in the database: row, the stored value, plus unseen,
// the time elapsed since it was stored. own is the value that this process stored last; the result
// is not before it plus the time that this process has observed, and not after the greater of that
// and row.
func (c *Clock) movedLocked(row drive.Time, unseen time.Duration, own drive.Time) drive.Time {
	at := row.Add(min(max(unseen, 0), maxCredit))
	if !c.valid {
		return at
	}
	own = c.sinceLocked(own)
	return min(max(at, own), max(own, row))
}

// Behind returns the difference to the database's clock, by which retention is longer than
// configured.
func (c *Clock) Behind() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.behind
}

// Run calls Update every minute until ctx is done. After a failure the clock continues for 10
// minutes and then stops until Update succeeds.
func (c *Clock) Run(ctx context.Context) error {
	tick := time.NewTicker(updateEvery)
	defer tick.Stop()
	var outage telemetry.Outage
	for {
		outage.Record(ctx, c.opt.Log, "retention clock not updated; after 10 minutes nothing more expires", c.Update(ctx))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Update compares the clocks of database and machine, advances the retention clock, also to what
// other instances have written, and writes it to meta if necessary. It distrusts a clock that
// jumped. If it cannot read the clocks, the retention clock stays as it was.
func (c *Clock) Update(ctx context.Context) error {
	text, row, err := c.find(ctx)
	if err != nil {
		return fmt.Errorf("read the clock of retention: %w", err)
	}
	asked, wall := c.opt.Elapsed(), c.opt.Wall()
	db, err := c.opt.Now(ctx)
	if err != nil {
		return err
	}
	now := moment{db, c.opt.Elapsed()}
	doubtful := c.compare(ctx, db.Sub(drive.TimeOf(wall)), now, now.passed-asked)
	next, write := c.advance(text == "", row, now, doubtful)
	if write {
		if err := c.save(ctx, text, next); err != nil {
			return fmt.Errorf("write the clock of retention: %w", err)
		}
	}
	return nil
}

// compare reports whether this instance distrusts the database's clock or its own. off is the
// difference between the two clocks. took is the duration of the query, which is tolerated.
func (c *Clock) compare(ctx context.Context, off time.Duration, now moment, took time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	var step time.Duration
	if c.valid {
		step = now.db.Sub(c.last.db) - (now.passed - c.last.passed)
	}
	if off.Abs() <= maxSkew+took && step.Abs() <= maxSkew+took {
		return now.passed < c.doubtUntil
	}
	c.doubtUntil = now.passed + saveEvery
	c.opt.Log.WarnContext(ctx, "clocks disagree; retention follows elapsed time until they have agreed for 24 hours",
		"step", step.Round(time.Millisecond), "off", off.Round(time.Millisecond))
	return true
}

// advance computes the next stored value and updates the clock of this process. write says whether
// the value must be written.
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
	if doubtful || unseen < 0 || unseen > maxCredit {
		next.Steady = 0
	}
	if next.Steady >= steadyFor.Milliseconds() {
		next.Time, next.Latest = now.db, now.db
	} else if now.db.Sub(next.Time) <= maxSkew && !doubtful {
		next.Time = now.db
	}
	next.Time = min(next.Time, now.db)
	next.Latest = max(next.Latest, next.Time)
	c.valid, c.at, c.latest, c.last, c.behind = true, next.Time, next.Latest, now, now.db.Sub(next.Time)
	return next, first || unseen < 0 || unseen >= saveEvery || doubtful && row.Steady > 0
}

// find reads the stored value of the clock, and its text for a later compare-and-set; both are
// empty if none is stored. It fails if the text is not JSON.
func (c *Clock) find(ctx context.Context) (text string, row saved, err error) {
	if text, err = meta.Find(ctx, c.opt.DB, metaName); err != nil || text == "" {
		return "", saved{}, err
	}
	err = json.Unmarshal([]byte(text), &row)
	return text, row, err
}

// save writes the value row in place of the stored text was ("": there is none). If another
// instance has changed the text, it writes nothing and returns nil, because that instance has
// observed the same elapsed time.
func (c *Clock) save(ctx context.Context, was string, row saved) error {
	text, err := json.Marshal(row)
	if err != nil {
		return err
	}
	return c.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if was == "" {
			_, err = meta.Create(ctx, tx, metaName, string(text))
		} else {
			_, err = meta.CompareAndSwap(ctx, tx, metaName, was, string(text))
		}
		return err
	})
}
