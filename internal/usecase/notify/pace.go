package notify

import (
	"sync"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/notice"
)

const (
	// toldAnHour is how many members of groups are told one by one of what one maker does within an
	// hour, and the rest of the group with which that is reached: some seconds of work. A group of
	// everybody in a firm is told of twenty things, one of 10,000 of two.
	toldAnHour = 20_000
	maxMakers  = 10_000 // remembered: those of an hour that is over make room
)

// pace bounds what one maker can cause by roles for groups: each costs its maker one request, and
// the others a notice and an entry of the log for each member. What is above the bound is told to
// the members of each group by one notice for all of it, once in the hour. It is kept in memory: a
// process that starts begins at zero, and the ids of notices keep what it says again from being
// told twice.
type pace struct {
	most int

	mu     sync.Mutex
	makers map[string]*burst
}

// burst is what one maker has caused in an hour.
type burst struct {
	hour   drive.Time
	told   int                    // members of groups, one by one
	groups map[drive.GroupID]bool // that were told that there is more
}

func newPace() *pace { return &pace{most: toldAnHour, makers: map[string]*burst{}} }

// telling is how a group is told of a cause.
type telling int

const (
	oneByOne telling = iota // each cause has a notice
	gatheredOnce
	nothing // what was gathered was told
)

// of says how a group is told of what a maker did at a moment.
func (p *pace) of(maker string, at drive.Time, group drive.GroupID) telling {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch b := p.burstLocked(maker, at); {
	case b.told < p.most:
		return oneByOne
	case b.groups[group]:
		return nothing
	}
	return gatheredOnce
}

// did notes how a group was told, and how many members there were.
func (p *pace) did(maker string, at drive.Time, group drive.GroupID, how telling, members int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.burstLocked(maker, at)
	if how == gatheredOnce {
		b.groups[group] = true
		return
	}
	b.told += members
}

// burstLocked is that of a maker. What is handled late counts for the hour that it is handled in.
func (p *pace) burstLocked(maker string, at drive.Time) *burst {
	hour := hourOf(at)
	b := p.makers[maker]
	if b != nil && b.hour >= hour {
		return b
	}
	if b == nil && len(p.makers) >= maxMakers {
		for other, old := range p.makers {
			if old.hour < hour {
				delete(p.makers, other)
			}
		}
		if len(p.makers) >= maxMakers {
			clear(p.makers)
		}
	}
	b = &burst{hour: hour, groups: map[drive.GroupID]bool{}}
	p.makers[maker] = b
	return b
}

func hourOf(at drive.Time) drive.Time { return drive.TimeOf(at.Std().Truncate(time.Hour)) }

// makerOf is whose doings a cause counts as.
func makerOf(c notice.Cause) string {
	if c.By.IsZero() { // a role that ends: it was given in this account
		return c.Account.String()
	}
	return c.By.String()
}

// moreOf is what is told of all that a maker did within an hour and that is not told one by one. It
// names nothing.
func moreOf(c notice.Cause, at drive.Time) (notice.ID, notice.Cause) {
	return notice.Named(hourOf(at), "more", makerOf(c)), notice.Cause{Kind: notice.Share, What: notice.More, Account: c.Account, By: c.By}
}
