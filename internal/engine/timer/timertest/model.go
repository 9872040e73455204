package timertest

import (
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/timer"
)

// model is what a queue must do, without any concern for speed. Times are milliseconds of the
// queue's clock.
type model struct {
	now    int64
	timers map[timer.Key]*modelTimer
}

type modelTimer struct {
	gen                 int64
	account, fAccount   drive.AccountID
	idle, max           int64
	first, last         int64
	notBefore           int64 // of a snooze; of a lease: when it is delivered again
	leased, touched     bool
	token               uint64
	attempt, delivery   int
	fFirst, fLast, fDue int64 // frozen when it fired
	moved, fMoved       int64 // push-backs
}

func (m *modelTimer) due() int64 {
	due := m.last + m.idle
	if m.max > 0 {
		due = min(due, m.first+m.max)
	}
	return max(due, m.notBefore)
}

// comesUp is when a lease must deliver it.
func (m *modelTimer) comesUp() int64 {
	if m.leased {
		return m.notBefore
	}
	return m.due()
}

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
		fresh.first, fresh.last, fresh.moved = min(held.first, fresh.first), max(held.last, fresh.last), held.moved
		m.timers[x.Key] = &fresh
	}
}

func (m *model) touch(k timer.Key) {
	if t := m.timers[k]; t != nil {
		if t.last < m.now {
			t.last = m.now
			t.moved++
		}
		t.touched = t.leased
	}
}

func (m *model) cancel(k timer.Key, gen int64) {
	if t := m.timers[k]; t != nil && t.gen <= gen {
		delete(m.timers, k)
	}
}

// fire makes the delivery of a timer that comes up, and says what it must be.
func (m *model) fire(k timer.Key, token uint64, hold time.Duration) timer.Fired {
	t := m.timers[k]
	if !t.leased {
		t.fAccount, t.fFirst, t.fLast, t.fDue, t.fMoved = t.account, t.first, t.last, t.due(), t.moved
		t.leased, t.touched, t.token, t.attempt, t.delivery = true, false, token, 0, 0
	}
	t.delivery++
	t.notBefore = m.now + hold.Milliseconds()
	return timer.Fired{
		Key: k, Gen: t.gen, Account: t.fAccount, Attempt: t.attempt, Delivery: t.delivery, Token: t.token,
		First: driveTime(t.fFirst), Last: driveTime(t.fLast), Due: driveTime(t.fDue), PushBacks: t.fMoved,
	}
}

// settle returns in how long a timer that remains because of it is due.
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
