package memory

import (
	"sync/atomic"
	"time"

	"smartdrive/internal/base/drive"
)

const (
	// wobble is how far wall and monotonic clock may drift apart before times are shown by the new
	// difference: below, times that were handed out twice would differ by a rounding.
	wobble = 2 // milliseconds
	// alarm is the step of the wall clock that is reported.
	alarm = 60_000 // milliseconds
)

// clock counts ticks: Unix milliseconds at the start of the queue plus the monotonic time since.
// They never go back.
type clock struct {
	read    func() (wall time.Time, since time.Duration)
	base    int64 // nanoseconds
	high    atomic.Int64
	shift   atomic.Int64 // wall - ticks, milliseconds
	stepped func(by time.Duration)
}

func newClock(now func() time.Time, stepped func(time.Duration)) *clock {
	begun := now()
	c := &clock{base: begun.UnixNano(), stepped: stepped}
	c.read = func() (time.Time, time.Duration) {
		t := now()
		return t, t.Sub(begun) // monotonic where both readings have it
	}
	return c
}

// tick returns the present tick.
func (c *clock) tick() int64 {
	_, since := c.read()
	return c.advance(since)
}

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

// sync is tick, and takes notice of a wall clock that was set.
func (c *clock) sync() int64 {
	wall, since := c.read()
	t := c.advance(since)
	was := c.shift.Load()
	by := wall.UnixMilli() - t - was
	if by > wobble || by < -wobble {
		if c.shift.CompareAndSwap(was, was+by) && (by > alarm || by < -alarm) && c.stepped != nil {
			c.stepped(time.Duration(by) * time.Millisecond)
		}
	}
	return t
}

// show turns a tick into the wall clock's time, by the present difference.
func (c *clock) show(tick int64) drive.Time { return drive.Time(tick + c.shift.Load()) }

// place turns the wall clock's time into a tick, not after now; zero becomes other.
func (c *clock) place(t drive.Time, other, now int64) int64 {
	if t == 0 {
		return other
	}
	return min(int64(t)-c.shift.Load(), now)
}
