// Package turn limits how many requests of one kind run at a time, for each account and for all
// accounts together, so that one account with many requests does not keep the others waiting.
package turn

import (
	"context"
	"sync"

	"smartdrive/internal/base/drive"
)

// Turns are safe for concurrent use.
type Turns struct {
	each int
	all  chan struct{} // nil: no bound

	mu sync.Mutex
	of map[drive.AccountID]*queue // who has or awaits one
}

type queue struct {
	free  chan struct{}
	users int
}

// New makes turns of which each account may have so many at a time, and all together so many; zero:
// any number.
func New(each, all int) *Turns {
	t := &Turns{each: each, of: map[drive.AccountID]*queue{}}
	if all > 0 {
		t.all = make(chan struct{}, all)
	}
	return t
}

// Take waits for a turn of the account; end must be called. The error is that of ctx.
func (t *Turns) Take(ctx context.Context, account drive.AccountID) (end func(), err error) {
	mine := t.join(account)
	if err := enter(ctx, mine.free); err != nil {
		t.leave(account, mine)
		return nil, err
	}
	if err := enter(ctx, t.all); err != nil {
		<-mine.free
		t.leave(account, mine)
		return nil, err
	}
	return func() {
		if t.all != nil {
			<-t.all
		}
		<-mine.free
		t.leave(account, mine)
	}, nil
}

// Do calls fn in a turn of the account.
func (t *Turns) Do(ctx context.Context, account drive.AccountID, fn func() error) error {
	end, err := t.Take(ctx, account)
	if err != nil {
		return drive.Wrap(err, drive.Unavailable)
	}
	defer end()
	return fn()
}

// Long limits the transactions that take some 10 ms or more. It is safe for concurrent use.
type Long struct {
	concurrency func() int

	mu    sync.Mutex
	of    int
	turns *Turns
}

// NewLong returns the turns of long transactions in a database. Concurrency returns how many
// transactions the database runs at a time; the result may change when the installation moves to
// another database.
//
// A database that runs one at a time gives two turns, to one account or to two. So a short
// transaction waits behind two long ones at most, and while two share a sync the next ones gather.
//
// A database that runs many at a time gives each account one turn, and all accounts together half
// of the connections. A transaction waits for the locks of its account in its turn: a second one of
// the account would wait for the first. With two turns in total, two accounts whose rows are locked
// would stop the long transactions of all others.
func NewLong(concurrency func() int) *Long { return &Long{concurrency: concurrency} }

// Take waits for a turn of the account; end must be called. The error is that of ctx.
func (l *Long) Take(ctx context.Context, account drive.AccountID) (end func(), err error) {
	return l.now().Take(ctx, account)
}

// Do calls fn in a turn of the account.
func (l *Long) Do(ctx context.Context, account drive.AccountID, fn func() error) error {
	return l.now().Do(ctx, account, fn)
}

func (l *Long) now() *Turns {
	n := l.concurrency()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.turns == nil || l.of != n {
		if l.of, l.turns = n, New(longAtOnce, longAtOnce); n > 1 {
			l.turns = New(1, max(longAtOnce, n/2))
		}
	}
	return l.turns
}

const longAtOnce = 2

func enter(ctx context.Context, free chan struct{}) error {
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

func (t *Turns) join(account drive.AccountID) *queue {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine := t.of[account]
	if mine == nil {
		mine = &queue{free: make(chan struct{}, t.each)}
		t.of[account] = mine
	}
	mine.users++
	return mine
}

func (t *Turns) leave(account drive.AccountID, mine *queue) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine.users--; mine.users == 0 {
		delete(t.of, account)
	}
}
