package timertest

import (
	"sync"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/timer"
)

// Clock is the virtual clock of a test. The queue under test must read no other clock.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock at a fixed date.
func NewClock() *Clock { return &Clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

// Now returns the virtual time, without a monotonic reading.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock by d; a negative d sets it back.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Flusher is a queue that collects touches. Flush returns after the queue has received all earlier
// touches.
type Flusher interface{ Flush() }

// Forgetter is a queue that can drop all its timers, to simulate a loss.
type Forgetter interface{ Forget() }

// Capped is a queue whose Wait never exceeds MaxWait.
type Capped interface{ MaxWait() time.Duration }

// failer is the common part of *testing.T and *rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// harness runs each step on a queue and on the model, and compares the results.
type harness struct {
	t     failer
	tb    *testing.T
	clock *Clock
	queue timer.Queue
	model model
	epoch uint64
	wait  time.Duration // of the last lease
}

// newHarness opens a queue on a new clock with an empty model.
func newHarness(t failer, tb *testing.T, open func(*testing.T, *Clock) timer.Queue) *harness {
	c := NewClock()
	h := &harness{t: t, tb: tb, clock: c, queue: open(tb, c)}
	h.model = model{now: c.Now().UnixMilli(), timers: map[timer.Key]*modelTimer{}}
	return h
}

// driveTime converts Unix milliseconds.
func driveTime(ms int64) drive.Time { return drive.Time(ms) }

// ok fails the test if err is not nil.
func (h *harness) ok(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatalf("queue: %v", err)
	}
}

// advance moves the clock by d. The model's clock never goes back.
func (h *harness) advance(d time.Duration) {
	h.clock.Advance(d)
	h.model.now = max(h.model.now, h.clock.Now().UnixMilli())
}

// arm arms entries in queue and model.
func (h *harness) arm(entries ...timer.Entry) {
	h.t.Helper()
	h.ok(h.queue.Arm(h.tb.Context(), entries))
	for _, x := range entries {
		h.model.arm(x)
	}
}

// touch touches k in queue and model, and flushes the queue.
func (h *harness) touch(k timer.Key) {
	h.queue.Touch(k)
	if q, ok := h.queue.(Flusher); ok {
		q.Flush()
	}
	h.model.touch(k)
}

// cancel cancels k in queue and model.
func (h *harness) cancel(k timer.Key, gen int64) {
	h.t.Helper()
	h.ok(h.queue.Cancel(h.tb.Context(), k, gen))
	h.model.cancel(k, gen)
}

// settle settles outcomes in queue and model, and checks the returned wait (T2).
func (h *harness) settle(outcomes ...timer.Outcome) {
	h.t.Helper()
	again, err := h.queue.Settle(h.tb.Context(), outcomes)
	h.ok(err)
	for _, o := range outcomes {
		due := h.model.settle(o)
		if again > max(due, 0) {
			h.t.Fatalf("T2: settle says that nothing remains to be done for %v, %s is due in %v", again, o.Key, due)
		}
	}
}

// forget drops all timers of queue and model.
func (h *harness) forget(q Forgetter) {
	q.Forget()
	clear(h.model.timers)
}

// lease leases up to limit timers, until the queue returns no more, and compares each delivery and
// the wait with the model.
func (h *harness) lease(kind timer.Kind, limit int, hold time.Duration) []timer.Fired {
	h.t.Helper()
	var fired []timer.Fired
	for {
		b, err := h.queue.Lease(h.tb.Context(), kind, limit-len(fired), hold)
		h.ok(err)
		for _, f := range b.Fired {
			h.checkFired(kind, f, b.Now, hold)
		}
		fired = append(fired, b.Fired...)
		h.epoch, h.wait = b.Epoch, b.Wait
		if len(fired) >= limit || len(b.Fired) == 0 && b.Early == 0 {
			break
		}
	}
	h.checkWait(kind, limit-len(fired))
	return fired
}

// checkFired fails the test unless got is what the model delivers for that timer at this time, of
// the right kind, not early, and with a token. It then marks the timer as leased in the model for
// hold.
func (h *harness) checkFired(kind timer.Kind, got timer.Fired, now drive.Time, hold time.Duration) {
	h.t.Helper()
	m := h.model.timers[got.Key]
	switch {
	case got.Key.Kind != kind:
		h.t.Fatalf("a lease of %s timers gave %s", kind, got.Key)
	case m == nil:
		h.t.Fatalf("%s fired, and is not armed", got.Key)
	case m.comesUp() > h.model.now:
		h.t.Fatalf("T1: %s fired %d ms early", got.Key, m.comesUp()-h.model.now)
	case got.Token == 0:
		h.t.Fatalf("%s fired without a token", got.Key)
	}
	// Times are compared as ages: a clock that was set back shifts all of them alike.
	shift := now - driveTime(h.model.now)
	want := h.model.fire(got.Key, m.nextToken(got.Token), hold)
	want.First, want.Last, want.Due = want.First+shift, want.Last+shift, want.Due+shift
	if got.Shard == "" {
		h.t.Fatalf("%s fired without a shard", got.Key)
	}
	got.Shard, got.Slice = "", ""
	if got != want {
		h.t.Fatalf("fired\n got %+v\nwant %+v", got, want)
	}
}

// nextToken returns the token that a delivery must have: that of the present lease, or got for a
// new lease.
func (m *modelTimer) nextToken(got uint64) uint64 {
	if m.leased {
		return m.token
	}
	return got
}

// checkWait checks T2 after a lease with room left: no due timer was held back, and the wait ends
// before the next due time. It also fails if the queue asks for an immediate call although nothing
// is due.
func (h *harness) checkWait(kind timer.Kind, room int) {
	h.t.Helper()
	for k, m := range h.model.timers {
		if k.Kind != kind {
			continue
		}
		until := time.Duration(m.comesUp()-h.model.now) * time.Millisecond
		if room > 0 && until <= 0 {
			h.t.Fatalf("T2: %s is due since %v and was not delivered", k, -until)
		}
		if h.wait > max(until, time.Millisecond) { // after a loss the queue asks for another call in a millisecond
			h.t.Fatalf("T2: the queue would sleep %v, %s is due in %v", h.wait, k, until)
		}
	}
	if room > 0 && h.wait <= 0 {
		h.t.Fatalf("nothing is due, and the queue says to ask again at once")
	}
}

// checkShow fails the test unless the state that an Inspector returns for k is the model's, or
// NotFound if the model has no such timer. It does nothing for a queue that is no Inspector.
func (h *harness) checkShow(k timer.Key) {
	h.t.Helper()
	q, ok := h.queue.(timer.Inspector)
	if !ok {
		return
	}
	got, err := q.Show(h.tb.Context(), k)
	m := h.model.timers[k]
	if m == nil {
		if !drive.IsKind(err, drive.NotFound) {
			h.t.Fatalf("show of %s, which is not armed: %+v, %v", k, got, err)
		}
		return
	}
	h.ok(err)
	if got.Indexed > got.Due {
		h.t.Fatalf("%s is due at %v and comes up only at %v", k, got.Due, got.Indexed)
	}
	want := timer.State{
		Key: k, Gen: m.gen, Account: m.account, First: driveTime(m.first), Last: driveTime(m.last), Due: driveTime(m.comesUp()), Indexed: got.Indexed,
		Idle: time.Duration(m.idle) * time.Millisecond, Max: time.Duration(m.max) * time.Millisecond, Leased: m.leased,
		PushBacks: m.pushBacks,
	}
	if m.pushBacks > 0 {
		want.LastPushBack = want.Last
	}
	if m.leased {
		want.Attempt, want.Delivery = m.attempt, m.delivery
	}
	got.Shard, got.Slice, got.Holder = "", "", ""
	if got != want {
		h.t.Fatalf("show\n got %+v\nwant %+v", got, want)
	}
}

// checkPending fails the test unless the counts that an Inspector returns are those of the model.
// It does nothing for a queue that is no Inspector.
func (h *harness) checkPending() {
	h.t.Helper()
	q, ok := h.queue.(timer.Inspector)
	if !ok {
		return
	}
	want := map[timer.Kind]timer.DueCounts{}
	for k, m := range h.model.timers {
		sum := want[k.Kind]
		if m.leased {
			sum.Leased++
		} else {
			sum.Add(time.Duration(m.due()-h.model.now) * time.Millisecond)
		}
		want[k.Kind] = sum
	}
	got, err := q.Pending(h.tb.Context())
	h.ok(err)
	for _, kind := range timer.Kinds() {
		if got[kind] != want[kind] {
			h.t.Fatalf("pending %s timers\n got %+v\nwant %+v", kind, got[kind], want[kind])
		}
	}
}
