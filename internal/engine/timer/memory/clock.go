package memory

import (
	"sync/atomic"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

const (
	// maxDrift is the drift between wall and monotonic clock, in milliseconds, up to which shown
	// times keep their old difference. A correction of a smaller drift would show one time with
	// different roundings.
	maxDrift = 2
	// reportedStep is the step of the wall clock, in milliseconds, from which OnClockStep is
	// called.
	reportedStep = 60_000
)

// clock counts ticks: Unix milliseconds at the start of the queue plus monotonic time since then.
// Ticks never decrease.
type clock struct {
	read func() (wall time.Time, since time.Duration) // returns the wall clock and the monotonic time since the start
	base int64                                        // wall clock at the start, in nanoseconds
	// high is the greatest tick returned so far.
	high    atomic.Int64
	shift   atomic.Int64           // wall clock minus ticks, milliseconds
	stepped func(by time.Duration) // called after a step of the wall clock; may be nil
}

// newClock returns a clock that starts at now(). stepped may be nil.
func newClock(now func() time.Time, stepped func(time.Duration)) *clock {
	begun := now()
	c := &clock{base: begun.UnixNano(), stepped: stepped}
	c.read = func() (time.Time, time.Duration) {
		t := now()
		return t, t.Sub(begun) // monotonic if both times have a monotonic reading
	}
	return c
}

// tick reads the clock and returns the current tick, in ms.
func (c *clock) tick() int64 {
	_, since := c.read()
	return c.advance(since)
}

// advance returns the clock's time in milliseconds when since has passed since the start. It never
// returns less than an earlier call.
func (c *clock) advance(since time.Duration) int64 {
	t := (c.base + int64(since)) / int64(time.Millisecond)
	for {
		high := c.high.Load()
		if t <= high {
			return high
		}
		if c.high.CompareAndSwap(high, t) {
			return t
		}
	}
}

// sync returns the current tick. It adjusts to a changed wall clock and reports large steps.
func (c *clock) sync() int64 {
	wall, since := c.read()
	t := c.advance(since)
	was := c.shift.Load()
	by := wall.UnixMilli() - t - was
	if by > maxDrift || by < -maxDrift {
		if c.shift.CompareAndSwap(was, was+by) && (by > reportedStep || by < -reportedStep) && c.stepped != nil {
			c.stepped(time.Duration(by) * time.Millisecond)
		}
	}
	return t
}

// show converts a tick to wall-clock time by the present difference.
func (c *clock) show(tick int64) drive.Time { return drive.Time(tick + c.shift.Load()) }

// place converts wall-clock time to a tick, at most now. A zero t returns other.
func (c *clock) place(t drive.Time, other, now int64) int64 {
	if t == 0 {
		return other
	}
	return min(int64(t)-c.shift.Load(), now)
}
