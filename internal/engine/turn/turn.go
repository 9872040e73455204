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
