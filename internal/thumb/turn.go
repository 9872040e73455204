package thumb

import (
	"context"
	"sync"

	"smartdrive/internal/drive"
)

// turns let each account do so much at a time, so that one with many large images does not keep the others waiting.
type turns struct {
	each int

	mu sync.Mutex
	of map[drive.AccountID]*turn // who has or awaits one
}

type turn struct {
	free  chan struct{}
	users int
}

func newTurns(each int) turns { return turns{each: each, of: map[drive.AccountID]*turn{}} }

// take waits for a turn of the account; end must be called.
func (t *turns) take(ctx context.Context, account drive.AccountID) (end func(), err error) {
	mine := t.join(account)
	select {
	case mine.free <- struct{}{}:
		return func() { <-mine.free; t.leave(account, mine) }, nil
	case <-ctx.Done():
		t.leave(account, mine)
		return nil, ctx.Err()
	}
}

func (t *turns) join(account drive.AccountID) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine := t.of[account]
	if mine == nil {
		mine = &turn{free: make(chan struct{}, t.each)}
		t.of[account] = mine
	}
	mine.users++
	return mine
}

func (t *turns) leave(account drive.AccountID, mine *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine.users--; mine.users == 0 {
		delete(t.of, account)
	}
}
