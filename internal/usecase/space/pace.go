package space

import (
	"math"
	"sync"
	"time"

	"smartdrive/internal/base/drive"
)

// pace limits how often each user does something, in this process: some at once, then one every so
// often. It is what makes a directory slow to copy, not what keeps a secret, so each instance of a
// cluster counts for itself, and a restart forgets.
type pace struct {
	burst int
	every time.Duration

	mu   sync.Mutex
	full map[drive.UserID]time.Time // when a user will have all of the burst again; guarded by mu
}

// pacedUsers is how many users are remembered; beyond it those who have all of the burst again are
// forgotten.
const pacedUsers = 10_000

func newPace(burst int, every time.Duration) *pace {
	return &pace{burst: burst, every: every, full: map[drive.UserID]time.Time{}}
}

// take counts one. Rate {retry_after}: it is too early.
func (p *pace) take(user drive.UserID, now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	full := p.full[user]
	if full.Before(now) {
		full = now
	}
	next := full.Add(p.every)
	if wait := next.Sub(now) - time.Duration(p.burst)*p.every; wait > 0 {
		return drive.Fail(drive.Rate, "retry_after", int(math.Ceil(wait.Seconds())))
	}
	if len(p.full) >= pacedUsers {
		for id, at := range p.full {
			if !at.After(now) {
				delete(p.full, id)
			}
		}
	}
	p.full[user] = next
	return nil
}
