package webhook

import (
	"sync"
	"time"

	"smartdrive/internal/base/drive"
)

const (
	atOnce     = 32               // webhooks of accounts whose receivers are quick that are being sent to
	slowAtOnce = 16               // the same of accounts with a slow one
	mostBusy   = 128              // webhooks that are being sent to, however they are counted by now
	ofOne      = 4                // of them of one account
	slowAfter  = 2 * time.Second  // without an answer a receiver is slow
	slowFor    = 10 * time.Minute // an account is counted among the slow ones since then
	mostOver   = mostBusy/ofOne + mostBusy
)

// turns say who is being sent to, and who is not for a while. Accounts whose receivers are slow
// have places of their own: an attempt that is not answered within slowAfter leaves the place that
// it began in to others, so that slow receivers keep nobody waiting but other slow ones.
type turns struct {
	mu     sync.Mutex
	busy   map[ID]sending
	of     map[drive.AccountID]int
	slow   map[drive.AccountID]drive.Time // since when
	paused map[ID]pause
}

func newTurns() turns {
	return turns{busy: map[ID]sending{}, of: map[drive.AccountID]int{}, slow: map[drive.AccountID]drive.Time{}, paused: map[ID]pause{}}
}

// sending is a turn of a webhook.
type sending struct {
	account drive.AccountID
	began   drive.Time // its last attempt
}

// pause is after turns that failed here: what was sent could not be noted because the disk is full,
// say, and each turn sends it again.
type pause struct {
	failures int
	until    drive.Time
}

// take is false while the webhook, or as many of its account or of all as may be, are being sent
// to.
func (t *turns) take(id ID, account drive.AccountID, now drive.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, busy := t.busy[id]; busy || t.of[account] >= ofOne || len(t.busy) >= mostBusy {
		return false
	}
	slow, quick := t.countLocked(now)
	if _, isSlow := t.slow[account]; isSlow && slow >= slowAtOnce || !isSlow && quick >= atOnce {
		return false
	}
	t.busy[id] = sending{account, now}
	t.of[account]++
	return true
}

// full reports whether as many are being sent to as may be: nobody gets a turn before one ends.
func (t *turns) full() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.busy) >= mostBusy
}

// countLocked returns how many webhooks of slow accounts, and of others, are being sent to.
func (t *turns) countLocked(now drive.Time) (slow, quick int) {
	for account, since := range t.slow {
		if now >= since.Add(slowFor) || now < since {
			delete(t.slow, account)
		}
	}
	for _, s := range t.busy {
		if now >= s.began.Add(slowAfter) {
			t.slow[s.account] = now
		}
	}
	for _, s := range t.busy {
		if _, isSlow := t.slow[s.account]; isSlow {
			slow++
		}
	}
	return slow, len(t.busy) - slow
}

// attempt notes that the next entry is being sent to a webhook that has a turn.
func (t *turns) attempt(id ID, now drive.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s, ok := t.busy[id]; ok {
		t.busy[id] = sending{s.account, now}
	}
}

// ended notes the end of an attempt, and reports whether the receiver is slow.
func (t *turns) ended(id ID, now drive.Time) (slow bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.busy[id]
	if slow = ok && now >= s.began.Add(slowAfter); slow {
		t.slow[s.account] = now
	}
	return slow
}

func (t *turns) leave(id ID, account drive.AccountID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.busy, id)
	if t.of[account]--; t.of[account] == 0 {
		delete(t.of, account)
	}
}

// pauses reports whether a webhook is to be left alone; a longer pause than any is of a clock that
// was ahead.
func (t *turns) pauses(id ID, now drive.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	until := t.paused[id].until
	return until > now && until <= now.Add(latest)
}

// failed gives a webhook a pause, which the next turn that does not fail ends.
func (t *turns) failed(id ID, now drive.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.paused[id].failures + 1
	t.paused[id] = pause{n, now.Add(lookEvery << min(n, 6))} // 10 s to 5 min
}

func (t *turns) went(id ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.paused, id)
}

// over are those who get no turn before another one has ended, as arguments of a statement whose
// text is always the same: webhooks, and accounts. There may be more slow accounts than arguments.
func (t *turns) over(now drive.Time) (args []any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id := range t.busy {
		args = append(args, id.String())
	}
	for len(args) < mostBusy {
		args = append(args, "")
	}
	slow, _ := t.countLocked(now)
	for account, n := range t.of {
		if n >= ofOne {
			args = append(args, account.String())
		}
	}
	for account := range t.slow {
		if slow >= slowAtOnce && len(args) < mostBusy+mostOver {
			args = append(args, account.String())
		}
	}
	for len(args) < mostBusy+mostOver {
		args = append(args, "")
	}
	return args
}
