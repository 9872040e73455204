package notify

import (
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/notice"
)

// Bounds of makerLimiter.
const (
	// notifiedPerHour is how many group members are notified individually of one maker's changes
	// per hour, plus the rest of the group in which the limit is reached: some seconds of work.
	// Members of a 1,000-user group get twenty notices, members of a 10,000-user group two.
	notifiedPerHour = 20_000
	maxMakers       = 10_000 // remembered; those of past hours are evicted
)

// makerLimiter bounds the notices that one user, the maker, causes by granting roles to groups: one
// request by the maker creates a notice and an activity entry for each member. Above the limit,
// members of each group get one summary per hour. It is kept in memory. After a restart it starts
// at zero; the ids of notices prevent duplicates.
type makerLimiter struct {
	limit int

	mu     sync.Mutex
	makers map[string]*makerUsage
}

// makerUsage counts the notices that one maker has caused within an hour.
type makerUsage struct {
	hour     drive.Time
	notified int                    // group members notified individually
	groups   map[drive.GroupID]bool // groups that got the summary
}

// newMakerLimiter returns a limiter with the default limit.
func newMakerLimiter() *makerLimiter {
	return &makerLimiter{limit: notifiedPerHour, makers: map[string]*makerUsage{}}
}

// mode is how the members of a group are notified of a cause.
type mode int

const (
	individual mode = iota // one notice per cause
	summary                // one notice for all further causes
	suppressed             // the summary was sent before
)

// modeFor returns how a group is notified of a change that maker made at the given time:
// individually below the maker's hourly limit, then once by a summary, then not at all. It counts
// nothing: see record.
func (l *makerLimiter) modeFor(maker string, at drive.Time, group drive.GroupID) mode {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch b := l.usageLocked(maker, at); {
	case b.notified < l.limit:
		return individual
	case b.groups[group]:
		return suppressed
	}
	return summary
}

// record counts that members of a group were notified: after a summary it remembers the group,
// otherwise it adds their number to the maker's usage of the hour.
func (l *makerLimiter) record(maker string, at drive.Time, group drive.GroupID, how mode, members int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.usageLocked(maker, at)
	if how == summary {
		b.groups[group] = true
		return
	}
	b.notified += members
}

// usageLocked returns a maker's usage in the hour of at. Late causes count for the current hour.
// The caller holds l.mu.
func (l *makerLimiter) usageLocked(maker string, at drive.Time) *makerUsage {
	hour := hourOf(at)
	b := l.makers[maker]
	if b != nil && b.hour >= hour {
		return b
	}
	if b == nil && len(l.makers) >= maxMakers {
		for other, old := range l.makers {
			if old.hour < hour {
				delete(l.makers, other)
			}
		}
		if len(l.makers) >= maxMakers {
			clear(l.makers)
		}
	}
	b = &makerUsage{hour: hour, groups: map[drive.GroupID]bool{}}
	l.makers[maker] = b
	return b
}

// hourOf returns the start of the hour of at.
func hourOf(at drive.Time) drive.Time { return drive.TimeOf(at.Std().Truncate(time.Hour)) }

// makerKey returns the key by which the limiter counts a cause: the user who made it, or for an
// expiring role the account.
func makerKey(c notice.Cause) string {
	if c.By.IsZero() { // an expiring role counts for its account
		return c.Account.String()
	}
	return c.By.String()
}

// summaryOf returns the id and the cause of the summary for a maker's changes within an hour. It
// contains no names.
func summaryOf(c notice.Cause, at drive.Time) (notice.ID, notice.Cause) {
	return notice.DerivedID(hourOf(at), "more", makerKey(c)), notice.Cause{Kind: notice.Share, What: notice.MoreShares, Account: c.Account, By: c.By}
}
