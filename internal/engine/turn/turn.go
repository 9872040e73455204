// Package turn limits the concurrent requests of one kind, per account and in total, so that an
// account with many requests does not block others. RateLimiter limits how often each key may act.
package turn

import (
	"context"
	"sync"

	"example.org/smartdrive/internal/base/drive"
)

// Limiter is a concurrency limiter with a limit per account and a total limit. It is safe for
// concurrent use.
type Limiter struct {
	each int
	all  chan struct{} // one element per running request; nil: no limit

	mu     sync.Mutex
	queues map[drive.AccountID]*queue // accounts with running or waiting requests
}

// queue limits the concurrent requests of one account.
type queue struct {
	slots chan struct{} // holds one element per running request
	users int           // running and waiting requests
}

// New returns a limiter for each concurrent requests per account and all in total; all = 0 means no
// total limit.
func New(each, all int) *Limiter {
	t := &Limiter{each: each, queues: map[drive.AccountID]*queue{}}
	if all > 0 {
		t.all = make(chan struct{}, all)
	}
	return t
}

// Acquire waits for a free slot of the account. The caller must call end when its work is done. It
// fails only with the error of ctx.
func (l *Limiter) Acquire(ctx context.Context, account drive.AccountID) (end func(), err error) {
	q := l.join(account)
	if err := acquire(ctx, q.slots); err != nil {
		l.leave(account, q)
		return nil, err
	}
	if err := acquire(ctx, l.all); err != nil {
		<-q.slots
		l.leave(account, q)
		return nil, err
	}
	return func() {
		if l.all != nil {
			<-l.all
		}
		<-q.slots
		l.leave(account, q)
	}, nil
}

// Do runs fn in a slot of the account. If ctx ends while waiting, it fails with Unavailable.
func (l *Limiter) Do(ctx context.Context, account drive.AccountID, fn func() error) error {
	end, err := l.Acquire(ctx, account)
	if err != nil {
		return drive.Wrap(err, drive.Unavailable)
	}
	defer end()
	return fn()
}

// LongLimiter limits transactions that take about 10 ms or more. It is safe for concurrent use.
type LongLimiter struct {
	concurrency func() int // returns the present limit

	mu       sync.Mutex
	builtFor int // the concurrency that turns was made for
	turns    *Limiter
}

// NewLongLimiter returns the limiter for long transactions in a database. concurrency returns how
// many transactions the database runs at once; it may change when the installation moves to another
// database.
//
// A database that runs one transaction at once (SQLite) gets two slots in total. A short
// transaction then waits for at most two long ones, and the next ones queue up while two share a
// sync.
//
// A database that runs many at once (MySQL) gets one slot per account, and half of the connections
// in total. A second transaction of an account would only wait for the account's row locks. With
// two slots in total, two accounts with locked rows would block all others.
func NewLongLimiter(concurrency func() int) *LongLimiter {
	return &LongLimiter{concurrency: concurrency}
}

// Acquire waits for a free slot of the account. The caller must call end when its work is done. It
// fails only with the error of ctx.
func (l *LongLimiter) Acquire(ctx context.Context, account drive.AccountID) (end func(), err error) {
	return l.current().Acquire(ctx, account)
}

// Do runs fn in a slot of the account. If ctx ends while waiting, it fails with Unavailable.
func (l *LongLimiter) Do(ctx context.Context, account drive.AccountID, fn func() error) error {
	return l.current().Do(ctx, account, fn)
}

// current returns the limiter for the present concurrency, and makes a new one if the concurrency
// has changed. Turns of an earlier limiter go on and do not count in the new one.
func (l *LongLimiter) current() *Limiter {
	n := l.concurrency()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turns == nil || l.builtFor != n {
		if l.builtFor, l.turns = n, New(longAtOnce, longAtOnce); n > 1 {
			l.turns = New(1, max(longAtOnce, n/2))
		}
	}
	return l.turns
}

// longAtOnce is the least number of concurrent long transactions.
const longAtOnce = 2

// acquire waits until free has room and puts an element into it, which the caller must take out
// when done; a nil free has no limit. If ctx ends first it returns the error of ctx and has put
// nothing.
func acquire(ctx context.Context, free chan struct{}) error {
	if free == nil {
		return nil
	}
	select {
	case free <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// join returns the queue of the account and counts the caller as its user. The caller must call
// leave with it.
func (l *Limiter) join(account drive.AccountID) *queue {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.queues[account]
	if q == nil {
		q = &queue{slots: make(chan struct{}, l.each)}
		l.queues[account] = q
	}
	q.users++
	return q
}

// leave ends the use of an account's queue and deletes the queue after its last user. It must be
// called once per join.
func (l *Limiter) leave(account drive.AccountID, q *queue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if q.users--; q.users == 0 {
		delete(l.queues, account)
	}
}
