package timertest

import (
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/timer"
)

// model is a reference implementation of timer.Queue. Times are milliseconds of the queue's clock.
type model struct {
	now    int64
	timers map[timer.Key]*modelTimer
}

// modelTimer is a timer of the model. Fields that begin with f are as of the moment it fired.
type modelTimer struct {
	gen                   int64
	account, fAccount     drive.AccountID
	idle, max             int64 // in ms, as all durations and times
	first, last           int64
	notBefore             int64 // pending: end of a snooze; leased: time of redelivery
	leased, touched       bool
	token                 uint64
	attempt, delivery     int
	fFirst, fLast, fDue   int64
	pushBacks, fPushBacks int64 // push-backs
}

// due returns the time at which a pending timer is due.
func (m *modelTimer) due() int64 {
	due := m.last + m.idle
	if m.max > 0 {
		due = min(due, m.first+m.max)
	}
	return max(due, m.notBefore)
}

// comesUp returns the time, in ms, from which a lease must deliver the timer: when its present
// lease expires, or when it is due.
func (m *modelTimer) comesUp() int64 {
	if m.leased {
		return m.notBefore
	}
	return m.due()
}

// arm changes the model as an Arm of the queue under test must for one entry: a higher generation
// replaces the timer, the same one merges its times or ends its lease, and a lower one is ignored.
// A zero Last, or one in the future, means now.
func (m *model) arm(x timer.Entry) {
	last, first := m.now, int64(x.First)
	if x.Last != 0 {
		last = min(int64(x.Last), m.now)
	}
	if x.First == 0 {
		first = last
	}
	held, fresh := m.timers[x.Key], modelTimer{
		gen: x.Gen, account: x.Account, idle: x.Idle.Milliseconds(), max: x.Max.Milliseconds(), first: min(first, last), last: last,
	}
	switch {
	case held == nil || x.Gen > held.gen || x.Gen == held.gen && held.leased:
		m.timers[x.Key] = &fresh
	case x.Gen == held.gen:
		fresh.first, fresh.last, fresh.pushBacks = min(held.first, fresh.first), max(held.last, fresh.last), held.pushBacks
		m.timers[x.Key] = &fresh
	}
}

// touch does to the model what Queue.Touch does to a queue: it moves the last touch of the timer to
// now.
func (m *model) touch(k timer.Key) {
	if t := m.timers[k]; t != nil {
		if t.last < m.now {
			t.last = m.now
			t.pushBacks++
		}
		t.touched = t.leased
	}
}

// cancel does to the model what Queue.Cancel does to a queue: it removes the timer if its gen is at
// most gen.
func (m *model) cancel(k timer.Key, gen int64) {
	if t := m.timers[k]; t != nil && t.gen <= gen {
		delete(m.timers, k)
	}
}

// fire leases the timer k, or delivers it again, and returns the expected delivery.
func (m *model) fire(k timer.Key, token uint64, hold time.Duration) timer.Fired {
	t := m.timers[k]
	if !t.leased {
		t.fAccount, t.fFirst, t.fLast, t.fDue, t.fPushBacks = t.account, t.first, t.last, t.due(), t.pushBacks
		t.leased, t.touched, t.token, t.attempt, t.delivery = true, false, token, 0, 0
	}
	t.delivery++
	t.notBefore = m.now + hold.Milliseconds()
	return timer.Fired{
		Key: k, Gen: t.gen, Account: t.fAccount, Attempt: t.attempt, Delivery: t.delivery, Token: t.token,
		First: driveTime(t.fFirst), Last: driveTime(t.fLast), Due: driveTime(t.fDue), PushBacks: t.fPushBacks,
	}
}

// settle applies one outcome. It returns the time until the timer is reached, timer.Never if it was
// removed or the outcome is stale.
func (m *model) settle(o timer.Outcome) time.Duration {
	t := m.timers[o.Key]
	if t == nil || !t.leased || t.token != o.Token {
		return timer.Never
	}
	switch {
	case o.Verdict == timer.Retry:
		t.attempt, t.notBefore = o.Attempt, m.now+o.In.Milliseconds()
	case o.Verdict == timer.Snooze:
		t.leased, t.notBefore = false, m.now+o.In.Milliseconds()
	case !t.touched:
		delete(m.timers, o.Key)
		return timer.Never
	default:
		t.leased, t.notBefore, t.first = false, 0, t.last
	}
	return time.Duration(t.comesUp()-m.now) * time.Millisecond
}
