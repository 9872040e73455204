package rest

import (
	"context"
	"slices"
	"sync"
)

// budget divides an amount of memory among users (for anonymous requests: among addresses). A user
// who holds memory gets no more than the most of its request, so that there is room for others. The
// next request is the oldest one of the user who holds least. No request overtakes the next one, so
// that small requests do not starve a large one.
type budget struct {
	// most is the size of the budget in bytes; free is what no user holds.
	most int64

	mu      sync.Mutex
	free    int64
	held    map[string]int64 // bytes by user; no entry is 0
	pages   map[string]int   // pages being read, by user; no entry is 0
	waiting []*waiter        // oldest first; bounded by the limits per user and address
}

// waiter is a request that waits for memory.
type waiter struct {
	// user is the key that the memory is charged to.
	user    string
	n       int64
	most    int64         // largest total of its user, this request included
	page    bool          // a page of a list: its user reads at most pagesAtOnce
	granted chan struct{} // closed under mu
}

// pagesAtOnce bounds the pages of lists that are read for one user at a time. It is half of
// SQLite's reading connections.
const pagesAtOnce = 2

// newBudget returns a budget of most bytes, all of them free.
func newBudget(most int64) *budget {
	return &budget{most: most, free: most, held: map[string]int64{}, pages: map[string]int{}}
}

// acquire waits until n bytes are free and the user would hold no more than most bytes. A user who
// holds nothing may exceed most. n must not exceed the budget. It fails only with the error of ctx;
// otherwise the caller must call release.
func (b *budget) acquire(ctx context.Context, user string, n, most int64) error {
	return b.await(ctx, &waiter{user: user, n: n, most: most, granted: make(chan struct{})})
}

// acquirePage is acquire for a page of a list, of which a user reads at most pagesAtOnce at a time.
// Without an error the caller must call releasePage.
func (b *budget) acquirePage(ctx context.Context, user string, n, most int64) error {
	return b.await(ctx, &waiter{user: user, n: n, most: most, page: true, granted: make(chan struct{})})
}

// await queues a request and waits until it is granted or ctx ends. In the latter case it returns
// ctx.Err(), and nothing is held, unless the request was granted at the same moment.
func (b *budget) await(ctx context.Context, one *waiter) error {
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
	case <-one.granted: // granted at the same moment
		return nil
	default:
	}
	b.waiting = slices.DeleteFunc(b.waiting, func(a *waiter) bool { return a == one })
	b.grantLocked() // the request may have blocked others
	return ctx.Err()
}

// release releases n bytes of a user and grants requests that now fit. The caller must not hold mu.
func (b *budget) release(user string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += n
	if b.held[user] -= n; b.held[user] == 0 {
		delete(b.held, user)
	}
	b.grantLocked()
}

// releasePage releases the n bytes of a page of a list, and its place among the user's concurrent
// pages.
func (b *budget) releasePage(user string, n int64) {
	b.mu.Lock()
	if b.pages[user]--; b.pages[user] == 0 {
		delete(b.pages, user)
	}
	b.mu.Unlock()
	b.release(user, n)
}

// grantLocked grants memory to the next requests while it suffices.
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

// nextLocked returns the index of the request to grant next, even if it does not fit yet; -1 if no
// user that waits may hold more memory. The caller holds mu.
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
