package account

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/telemetry"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Bounds of attemptLog.
const (
	flushInterval     = time.Minute     // between two calls of TellGathered
	entryInterval     = time.Hour       // attempts of one user within it become one activity entry
	maxLoggedUsers    = 1000            // users per attemptLog within entryInterval
	maxAddresses      = 8               // addresses per entry
	finalFlushTimeout = 5 * time.Second // for the last flush while the process stops
)

// attemptLog combines login attempts and reports them to the activity log later: failed attempts,
// and logins of clients that send the password with each request. So guessing causes one entry per
// user and hour and at most 1,000 per hour and process. A guess writes nothing, so its response
// time does not reveal whether the user exists. A crash loses the attempts of the last minute.
type attemptLog struct {
	what What
	head string

	mu      sync.Mutex
	byUser  map[drive.UserID]*userAttempts // unreported attempts
	dropped int                            // attempts not counted because there were maxLoggedUsers
}

// userAttempts are the unreported attempts of one user.
type userAttempts struct {
	account   drive.AccountID
	times     int       // number of attempts
	from      []string  // addresses of the attempts
	lastEntry time.Time // time of the last report; zero: none
}

// newAttemptLog returns an empty log for one kind of event.
func newAttemptLog(what What, head string) *attemptLog {
	return &attemptLog{what: what, head: head, byUser: map[drive.UserID]*userAttempts{}}
}

// add counts one attempt of a user from an address, in memory, until the log is gathered. The zero
// user (unknown name) is ignored; if maxLoggedUsers have attempts, the attempt of another user is
// only counted as dropped.
func (l *attemptLog) add(u User, from netip.Addr) {
	if u.ID.IsZero() { // unknown name: there is no account to log to
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.byUser[u.ID]
	if a == nil {
		if len(l.byUser) >= maxLoggedUsers {
			l.dropped++
			return
		}
		a = &userAttempts{account: u.Account}
		l.byUser[u.ID] = a
	}
	a.count(1, addressOf(from))
}

// count adds attempts and their addresses.
func (a *userAttempts) count(times int, from ...string) {
	a.times += times
	for _, address := range from {
		if address != "" && len(a.from) < maxAddresses && !slices.Contains(a.from, address) {
			a.from = append(a.from, address)
		}
	}
}

// takeDue removes and returns the effects that are due, and the number of dropped attempts. It
// evicts users without attempts for entryInterval.
func (l *attemptLog) takeDue(now time.Time) (due map[drive.UserID]Effect, dropped int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	due = map[drive.UserID]Effect{}
	for user, a := range l.byUser {
		switch since := now.Sub(a.lastEntry); {
		case !a.lastEntry.IsZero() && since >= 0 && since < entryInterval:
		case a.times == 0:
			delete(l.byUser, user)
		default:
			due[user] = Effect{What: l.what, Account: a.account, By: drive.Who{Head: l.head}, Times: a.times, From: a.from}
			a.times, a.from, a.lastEntry = 0, nil, now
		}
	}
	dropped, l.dropped = l.dropped, 0
	return due, dropped
}

// restore puts an effect back that could not be reported, so that it is due at once. It does
// nothing if the user was evicted.
func (l *attemptLog) restore(user drive.UserID, e Effect) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.byUser[user]; a != nil {
		a.lastEntry = time.Time{}
		a.count(e.Times, e.From...)
	}
}

// Run reports login attempts to the activity log every minute until ctx ends, and then once more.
// It returns nil; failures are logged, and the attempts are kept, except at the end.
func (s *Sessions) Run(ctx context.Context) error {
	tick := time.NewTicker(flushInterval)
	defer tick.Stop()
	var outage telemetry.Outage
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalFlushTimeout)
			defer cancel()
			if err := s.TellGathered(last); err != nil {
				s.opt.Log.WarnContext(last, "login attempts could not be recorded as activity and are lost: the process is stopping", telemetry.KeyError, err)
			}
			return nil
		case <-tick.C:
			outage.Record(ctx, s.opt.Log, "login attempts could not be recorded as activity; retrying in a minute", s.TellGathered(ctx))
		}
	}
}

// TellGathered reports combined login attempts that are due to the activity log: the first of a
// user at once, then once per hour. Attempts that cannot be reported are kept for the next call,
// and the errors are joined.
func (s *Sessions) TellGathered(ctx context.Context) error {
	var failed []error
	for _, g := range []*attemptLog{s.failedLogins, s.basicLogins} {
		due, dropped := g.takeDue(s.opt.Now())
		if dropped > 0 {
			s.opt.Log.WarnContext(ctx, "too many users with login attempts; some attempts are not recorded as activity", "what", g.what, "not_recorded", dropped)
		}
		for user, e := range due {
			err := s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return s.reportAttempts(ctx, tx, user, e) })
			if err != nil {
				g.restore(user, e)
				failed = append(failed, fmt.Errorf("record the attempts to log in of %s: %w", user, err))
			}
		}
	}
	return errors.Join(failed...)
}

// reportAttempts passes e, which describes gathered attempts to log in as one user, to
// Options.Happened. A successful login gets the user as its actor. It does nothing and returns nil
// if the user does not exist anymore.
func (s *Sessions) reportAttempts(ctx context.Context, tx *sqldb.Tx, user drive.UserID, e Effect) error {
	_, err := s.users.Find(ctx, tx, user)
	if drive.IsKind(err, drive.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if e.What == LoggedIn {
		e.By.User = user
	}
	return s.opt.happened(ctx, tx, e)
}
