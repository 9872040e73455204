package zipline

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// Budget is the memory limit for all readers of a process. Each response holds a grant. Grants
// shrink as the budget fills up. When it is full, a new client evicts a grant of a client that
// holds more grants, or of one that reads slowly; so slow readers cannot block others.
//
// A budget of 128 MiB has at most 64 grants, so each step may iterate over all of them.
type Budget struct {
	timeout time.Duration
	evicted atomic.Int64

	mu         sync.Mutex
	size       int64 // total bytes
	free       int64 // bytes in no grant
	grown      int64 // bytes added by Grow; at most three quarters of size, so that lists leave room for readers
	reclaiming int64 // bytes of evicted grants that are not closed yet
	demanded   int64 // least bytes that waiting callers need
	grants     map[*Grant]struct{}
	changed    chan struct{} // closed and replaced when bytes are freed
}

const (
	// grantTimeout is the time to wait until an evicted grant is closed. Its response is aborted at
	// once; closing the objects of a store takes a moment.
	grantTimeout = 5 * time.Second
	// minAge is the age before which the rate of a grant is not judged: a store may be slow at
	// first.
	minAge = 30 * time.Second
	// slowRate is the rate in bytes per second below which a grant may be evicted: 16 times the
	// minimum rate of a client.
	slowRate = 64 << 10
	// maxShare is the divisor of the free bytes that one grant may take, so that the next grants
	// are not too small.
	maxShare = 4
)

// NewBudget returns a budget of size bytes.
func NewBudget(size drive.ByteSize) *Budget {
	return &Budget{timeout: grantTimeout, size: int64(size), free: int64(size), grants: map[*Grant]struct{}{}, changed: make(chan struct{})}
}

// Evicted returns the number of grants evicted so far.
func (b *Budget) Evicted() int64 { return b.evicted.Load() }

// Grant is the memory of one response. Bytes is its size. The holder calls Close.
type Grant struct {
	Bytes drive.ByteSize // memory that the holder may use

	grown   int64 // part of Bytes added by Grow
	budget  *Budget
	client  string
	begun   time.Time
	sent    atomic.Int64 // bytes sent to the client
	evicted bool         // evicted
	abort   func()       // aborts the response; nil: nothing to abort
}

// Acquire returns a grant of least to want bytes for client. It evicts other grants if needed. It
// returns Unavailable if no grant can be evicted, or if none is freed within the timeout. A nil
// Budget is unlimited.
func (b *Budget) Acquire(ctx context.Context, client string, least, want drive.ByteSize) (*Grant, error) {
	if b == nil {
		return &Grant{Bytes: want}, nil
	}
	g := &Grant{budget: b, client: client, begun: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
	defer cancel()
	for {
		wait, ok := b.tryAcquire(g, int64(least), int64(want))
		if ok {
			return g, nil
		}
		if wait == nil {
			return nil, drive.Fail(drive.Unavailable)
		}
		select {
		case <-wait:
			b.stopWaiting(int64(least))
		case <-ctx.Done():
			b.stopWaiting(int64(least))
			return nil, drive.Wrap(context.Cause(ctx), drive.Unavailable)
		}
	}
}

// tryAcquire grants g its bytes and reports ok. Otherwise it evicts grants, registers least as
// wanted and returns a channel that closes when bytes are freed; the caller must call stopWaiting
// before it tries again. If nothing can be evicted, wait is nil.
func (b *Budget) tryAcquire(g *Grant, least, want int64) (wait <-chan struct{}, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.free >= least {
		n := min(want, max(least, b.free/maxShare))
		g.Bytes = drive.ByteSize(n)
		b.free -= n
		b.grants[g] = struct{}{}
		return nil, true
	}
	b.demanded += least
	for b.free+b.reclaiming < b.demanded {
		victim := b.victimLocked(g.client)
		if victim == nil {
			b.demanded -= least
			return nil, false
		}
		b.evictLocked(victim)
	}
	return b.changed, false
}

// stopWaiting withdraws the demand of least bytes of a caller that no longer waits, so that no
// grant is evicted for it.
func (b *Budget) stopWaiting(least int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.demanded -= least
}

// victimLocked returns the grant to evict for client, or nil. It is the slowest grant of the client
// with most grants, if that client has at least two more than client has. Otherwise it is the
// slowest grant of another client below slowRate.
func (b *Budget) victimLocked(client string) *Grant {
	held, most := map[string]int{}, 0
	for g := range b.grants {
		if !g.evicted {
			held[g.client]++
			most = max(most, held[g.client])
		}
	}
	now := time.Now()
	if most >= held[client]+2 {
		return b.slowestLocked(now, func(g *Grant) bool { return held[g.client] == most })
	}
	return b.slowestLocked(now, func(g *Grant) bool {
		return g.client != client && now.Sub(g.begun) >= minAge && g.rate(now) < slowRate
	})
}

// slowestLocked returns the slowest grant that is not evicted and that among accepts, or nil.
func (b *Budget) slowestLocked(now time.Time, among func(*Grant) bool) (slowest *Grant) {
	for g := range b.grants {
		if !g.evicted && among(g) && (slowest == nil || g.rate(now) < slowest.rate(now)) {
			slowest = g
		}
	}
	return slowest
}

// evictLocked marks a grant as evicted and aborts its response. Close frees its bytes.
func (b *Budget) evictLocked(g *Grant) {
	g.evicted = true
	b.reclaiming += int64(g.Bytes)
	b.evicted.Add(1)
	if g.abort != nil {
		g.abort()
	}
}

// rate returns the bytes per second that the client has read from begun to now.
func (g *Grant) rate(now time.Time) float64 {
	return float64(g.sent.Load()) / max(now.Sub(g.begun).Seconds(), 1e-3)
}

// onEviction sets the function that aborts the response; nil removes it. If the grant is evicted
// already, it calls end at once. end must not block. It is not called after Close.
func (g *Grant) onEviction(end func()) {
	if g.budget == nil {
		return
	}
	g.budget.mu.Lock()
	defer g.budget.mu.Unlock()
	g.abort = end
	if g.evicted && end != nil {
		end()
	}
}

// EvictionContext returns a context that is cancelled with cause Unavailable when the grant is
// evicted, for work before sending. The caller calls leave before it uses the grant to send.
func (g *Grant) EvictionContext(ctx context.Context) (_ context.Context, leave func()) {
	ctx, end := context.WithCancelCause(ctx)
	g.onEviction(func() { end(drive.Fail(drive.Unavailable)) })
	return ctx, func() {
		g.onEviction(nil)
		end(nil)
	}
}

// Grow adds n bytes to the grant under the rules of Acquire. It returns Unavailable if they are not
// available or the grant was evicted.
func (g *Grant) Grow(ctx context.Context, n drive.ByteSize) error {
	b := g.budget
	if b == nil {
		g.Bytes += n
		return nil
	}
	if !b.reserveGrowth(int64(n)) {
		return drive.Fail(drive.Unavailable)
	}
	more, err := b.Acquire(ctx, g.client, n, n)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.grown -= int64(n)
		return err
	}
	g.grown += int64(n)
	delete(b.grants, more)
	g.Bytes += more.Bytes
	switch {
	case g.evicted && !more.evicted:
		b.reclaiming += int64(more.Bytes)
	case more.evicted && !g.evicted:
		b.reclaiming -= int64(more.Bytes)
		b.evictLocked(g)
	}
	if g.evicted {
		return drive.Fail(drive.Unavailable)
	}
	return nil
}

// reserveGrowth adds n to the grown bytes and reports true, unless that exceeds three quarters of
// the budget.
func (b *Budget) reserveGrowth(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.grown+n > b.size/4*3 {
		return false
	}
	b.grown += n
	return true
}

// Shrink returns the bytes of the grant above n to the budget and wakes waiting requests. A smaller
// grant, and the zero Grant, stay unchanged.
func (g *Grant) Shrink(n drive.ByteSize) {
	b := g.budget
	if b == nil || n >= g.Bytes {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	rest := int64(g.Bytes - n)
	g.Bytes = n
	b.free += rest
	g.releaseGrownLocked(rest)
	if g.evicted {
		b.reclaiming -= rest
	}
	b.notifyLocked()
}

// releaseGrownLocked subtracts up to n bytes from the bytes by which grants have grown. The caller
// holds the budget's mu.
func (g *Grant) releaseGrownLocked(n int64) {
	n = min(n, g.grown)
	g.grown -= n
	g.budget.grown -= n
}

// Close returns the bytes of the grant to the budget and wakes waiting requests. Further calls, and
// calls on the zero Grant, do nothing.
func (g *Grant) Close() {
	b := g.budget
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, mine := b.grants[g]; !mine {
		return
	}
	delete(b.grants, g)
	b.free += int64(g.Bytes)
	g.releaseGrownLocked(g.grown)
	if g.evicted {
		b.reclaiming -= int64(g.Bytes)
	}
	b.notifyLocked()
}

// notifyLocked wakes the callers that wait for bytes, each of which checks again. The caller holds
// mu.
func (b *Budget) notifyLocked() {
	close(b.changed)
	b.changed = make(chan struct{})
}
