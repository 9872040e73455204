package account

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

const (
	gatherEvery  = time.Minute     // between two looks at what was gathered
	gatherFor    = time.Hour       // what happens to one user within it is one entry
	maxGathered  = 1000            // users of one kind of attempts, within gatherFor
	maxAddresses = 8               // of an entry
	lastWords    = 5 * time.Second // to tell what is left when the process is being stopped
)

// gathered are attempts to log in that the activity log is told of later: those that failed, and
// those of clients that send the password with each request. Whoever guesses passwords causes an
// entry an hour for each user and 1,000 an hour in all, in each process; the answer to a guess
// takes the same time whether there is such a user or not, since it writes nothing. A process that
// dies tells nothing of the last minute.
type gathered struct {
	what What
	head string

	mu     sync.Mutex
	byUser map[drive.UserID]*attempts
	missed int // attempts of users for whom there was no room
}

// attempts are those of one user.
type attempts struct {
	account drive.AccountID
	times   int
	from    []string
	told    time.Time // the entry before; zero: there was none
}

func newGathered(what What, head string) *gathered {
	return &gathered{what: what, head: head, byUser: map[drive.UserID]*attempts{}}
}

// add counts one attempt of a user.
func (g *gathered) add(u User, from netip.Addr) {
	if u.ID.IsZero() { // nobody has the name: there is no log to write to
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	a := g.byUser[u.ID]
	if a == nil {
		if len(g.byUser) >= maxGathered {
			g.missed++
			return
		}
		a = &attempts{account: u.Account}
		g.byUser[u.ID] = a
	}
	a.count(1, addressOf(from))
}

func (a *attempts) count(times int, from ...string) {
	a.times += times
	for _, address := range from {
		if address != "" && len(a.from) < maxAddresses && !slices.Contains(a.from, address) {
			a.from = append(a.from, address)
		}
	}
}

// take returns the effects to tell now, and forgets them. It forgets users of whom nothing was
// heard for gatherFor, too.
func (g *gathered) take(now time.Time) (due map[drive.UserID]Effect, missed int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	due = map[drive.UserID]Effect{}
	for user, a := range g.byUser {
		switch since := now.Sub(a.told); {
		case !a.told.IsZero() && since >= 0 && since < gatherFor:
		case a.times == 0:
			delete(g.byUser, user)
		default:
			due[user] = Effect{What: g.what, Account: a.account, By: drive.Who{Head: g.head}, Times: a.times, From: a.from}
			a.times, a.from, a.told = 0, nil, now
		}
	}
	missed, g.missed = g.missed, 0
	return due, missed
}

// giveBack takes up again what could not be told.
func (g *gathered) giveBack(user drive.UserID, e Effect) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if a := g.byUser[user]; a != nil {
		a.told = time.Time{}
		a.count(e.Times, e.From...)
	}
}

// Run tells of attempts to log in that were gathered, until ctx ends, and then once more.
func (s *Sessions) Run(ctx context.Context) error {
	tick := time.NewTicker(gatherEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
			defer cancel()
			s.tell(last)
			return nil
		case <-tick.C:
			s.tell(ctx)
		}
	}
}

func (s *Sessions) tell(ctx context.Context) {
	if err := s.TellGathered(ctx); err != nil && ctx.Err() == nil {
		s.opt.Log.WarnContext(ctx, "attempts to log in could not be noted; they will be", "error", err)
	}
}

// TellGathered tells of the attempts that were gathered: of each user at once, and then once an
// hour. What cannot be told is kept.
func (s *Sessions) TellGathered(ctx context.Context) error {
	var failed []error
	for _, g := range []*gathered{s.wrong, s.basic} {
		due, missed := g.take(s.opt.Now())
		if missed > 0 {
			s.opt.Log.WarnContext(ctx, "there were attempts to log in as more users than are noted", "what", g.what, "not_noted", missed)
		}
		for user, e := range due {
			err := s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return s.tellOne(ctx, tx, user, e) })
			if err != nil {
				g.giveBack(user, e)
				failed = append(failed, fmt.Errorf("note the attempts to log in of %s: %w", user, err))
			}
		}
	}
	return errors.Join(failed...)
}

// tellOne tells of one user's attempts, unless the user was deleted since.
func (s *Sessions) tellOne(ctx context.Context, tx *sqldb.Tx, user drive.UserID, e Effect) error {
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
