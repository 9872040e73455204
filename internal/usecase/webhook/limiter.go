package webhook

import (
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

const (
	maxQuick      = 32               // concurrent turns of accounts whose receivers respond quickly
	maxSlow       = 16               // concurrent turns of accounts with a slow receiver
	maxRunning    = 128              // concurrent turns in total
	maxPerAccount = 4                // concurrent turns per account
	slowAfter     = 2 * time.Second  // without a response a receiver is slow
	slowFor       = 10 * time.Minute // after which an account is no longer counted as slow
	// maxExcludedAccounts bounds how many accounts the search for due webhooks leaves out.
	maxExcludedAccounts = maxRunning/maxPerAccount + maxRunning
)

// limiter decides which webhooks may be sent to. Accounts with slow receivers have separate slots:
// an attempt without a response for slowAfter stops counting as quick, so slow receivers only delay
// other slow ones.
type limiter struct {
	mu         sync.Mutex
	running    map[ID]turn
	perAccount map[drive.AccountID]int
	slow       map[drive.AccountID]drive.Time // when an account was last slow
	paused     map[ID]pause
}

// newLimiter returns an empty limiter.
func newLimiter() limiter {
	return limiter{running: map[ID]turn{}, perAccount: map[drive.AccountID]int{}, slow: map[drive.AccountID]drive.Time{}, paused: map[ID]pause{}}
}

// turn is the right of one goroutine to send to a webhook; no webhook has two.
type turn struct {
	account      drive.AccountID
	attemptBegan drive.Time // start of its last attempt
}

// pause delays a webhook after turns that failed on this side, for example because the disk is full
// and progress could not be stored.
type pause struct {
	failures int // consecutive
	until    drive.Time
}

// acquire starts a turn; false: the webhook has a turn already, or a limit is reached. The caller
// must call release.
func (l *limiter) acquire(id ID, account drive.AccountID, now drive.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, busy := l.running[id]; busy || l.perAccount[account] >= maxPerAccount || len(l.running) >= maxRunning {
		return false
	}
	slow, quick := l.countLocked(now)
	if _, isSlow := l.slow[account]; isSlow && slow >= maxSlow || !isSlow && quick >= maxQuick {
		return false
	}
	l.running[id] = turn{account, now}
	l.perAccount[account]++
	return true
}

// isFull reports whether no turn can start, of any account, before another one ends.
func (l *limiter) isFull() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.running) >= maxRunning
}

// countLocked returns the numbers of running turns of slow and of quick accounts. The caller holds
// l.mu.
func (l *limiter) countLocked(now drive.Time) (slow, quick int) {
	for account, since := range l.slow {
		if now >= since.Add(slowFor) || now < since {
			delete(l.slow, account)
		}
	}
	for _, s := range l.running {
		if now >= s.attemptBegan.Add(slowAfter) {
			l.slow[s.account] = now
		}
	}
	for _, s := range l.running {
		if _, isSlow := l.slow[s.account]; isSlow {
			slow++
		}
	}
	return slow, len(l.running) - slow
}

// attemptStarted records when an attempt of a running turn starts. Without a turn it does nothing.
func (l *limiter) attemptStarted(id ID, now drive.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s, ok := l.running[id]; ok {
		l.running[id] = turn{s.account, now}
	}
}

// attemptEnded records the end of an attempt and reports whether the receiver was slow, in which
// case the account counts as slow for slowFor.
func (l *limiter) attemptEnded(id ID, now drive.Time) (slow bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.running[id]
	if slow = ok && now >= s.attemptBegan.Add(slowAfter); slow {
		l.slow[s.account] = now
	}
	return slow
}

// release ends a turn that acquire has granted; it is called once for each.
func (l *limiter) release(id ID, account drive.AccountID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.running, id)
	if l.perAccount[account]--; l.perAccount[account] == 0 {
		delete(l.perAccount, account)
	}
}

// isPaused reports whether a webhook is paused. A pause longer than possible was set by a clock
// that was ahead and does not count.
func (l *limiter) isPaused(id ID, now drive.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	until := l.paused[id].until
	return until > now && until <= now.Add(maxDelay)
}

// turnFailed pauses a webhook after a failure of this server, longer after each consecutive one:
// from 10 s to about 5 min.
func (l *limiter) turnFailed(id ID, now drive.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.paused[id].failures + 1
	l.paused[id] = pause{n, now.Add(pollInterval << min(n, 6))} // 10 s to 5 min
}

// turnSucceeded ends the pause of a webhook.
func (l *limiter) turnSucceeded(id ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.paused, id)
}

// excluded returns the arguments of listDue's two NOT IN lists: maxRunning ids of webhooks with a
// turn, then maxExcludedAccounts ids of accounts that cannot get one now. Both are padded with "",
// so that the statement's text is constant. Slow accounts beyond that number are left out.
func (l *limiter) excluded(now drive.Time) (args []any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.running {
		args = append(args, id.String())
	}
	for len(args) < maxRunning {
		args = append(args, "")
	}
	slow, _ := l.countLocked(now)
	for account, n := range l.perAccount {
		if n >= maxPerAccount {
			args = append(args, account.String())
		}
	}
	for account := range l.slow {
		if slow >= maxSlow && len(args) < maxRunning+maxExcludedAccounts {
			args = append(args, account.String())
		}
	}
	for len(args) < maxRunning+maxExcludedAccounts {
		args = append(args, "")
	}
	return args
}
