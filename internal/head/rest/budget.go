package rest

import (
	"context"
	"slices"
	"sync"
)

// budget divides an amount of memory among users: accounts, or addresses where nobody has logged
// in. A user who holds something gets no more than half of it, so that there is room for another
// one; of the requests that wait, one of the user who holds least is the next, and of those the
// oldest. The next one is not overtaken, so that a large request is not kept waiting by small ones.
type budget struct {
	most int64

	mu      sync.Mutex
	free    int64
	held    map[string]int64 // by user; none holds 0
	pages   map[string]int   // of a user that are being read; none has 0
	waiting []*asking        // oldest first; the gates of users and addresses bound it
}

// asking is a request that waits.
type asking struct {
	user    string
	n       int64
	most    int64         // for its user, with this one
	page    bool          // of a list: its user has at most pagesAtOnce
	granted chan struct{} // closed under mu
}

// pagesAtOnce is how many pages of lists are read for one user at a time: half of the connections
// that a SQLite database is read by.
const pagesAtOnce = 2

func newBudget(most int64) *budget {
	return &budget{most: most, free: most, held: map[string]int64{}, pages: map[string]int{}}
}

// acquire waits for n bytes, at most all of the budget, in the name of a user, who holds no more
// than most with them.
func (b *budget) acquire(ctx context.Context, user string, n, most int64) error {
	return b.await(ctx, &asking{user: user, n: n, most: most, granted: make(chan struct{})})
}

// acquirePage is acquire for a page of a list.
func (b *budget) acquirePage(ctx context.Context, user string, n, most int64) error {
	return b.await(ctx, &asking{user: user, n: n, most: most, page: true, granted: make(chan struct{})})
}

func (b *budget) await(ctx context.Context, one *asking) error {
	b.mu.Lock()
	b.waiting = append(b.waiting, one)
	b.grantLocked()
	b.mu.Unlock()
	select {
	case <-one.granted:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-one.granted: // at the same moment
		return nil
	default:
	}
	b.waiting = slices.DeleteFunc(b.waiting, func(a *asking) bool { return a == one })
	b.grantLocked() // it may have been the next
	return ctx.Err()
}

func (b *budget) release(user string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += n
	if b.held[user] -= n; b.held[user] == 0 {
		delete(b.held, user)
	}
	b.grantLocked()
}

// releasePage is release for a page of a list.
func (b *budget) releasePage(user string, n int64) {
	b.mu.Lock()
	if b.pages[user]--; b.pages[user] == 0 {
		delete(b.pages, user)
	}
	b.mu.Unlock()
	b.release(user, n)
}

// grantLocked lets in who is next for as long as there is room.
func (b *budget) grantLocked() {
	for {
		i := b.nextLocked()
		if i < 0 || b.waiting[i].n > b.free {
			return
		}
		one := b.waiting[i]
		b.waiting = slices.Delete(b.waiting, i, i+1)
		b.free -= one.n
		b.held[one.user] += one.n
		if one.page {
			b.pages[one.user]++
		}
		close(one.granted)
	}
}

// nextLocked returns who is next; below 0: nobody who may have more.
func (b *budget) nextLocked() int {
	next := -1
	for i, one := range b.waiting {
		has := b.held[one.user]
		if has > 0 && has+one.n > one.most || one.page && b.pages[one.user] >= pagesAtOnce {
			continue
		}
		if next < 0 || has < b.held[b.waiting[next].user] {
			next = i
		}
	}
	return next
}
