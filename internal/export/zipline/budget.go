package zipline

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"smartdrive/internal/base/drive"
)

// Budget is the memory that all readers of a process have together. Each client's answers are
// grants of it. As it is used up grants become smaller; when nothing is left a client that comes
// takes a grant away from one that has more of them, or that reads slowly. So those who read
// slowly, or not at all, keep nobody else from reading.
//
// Grants are few: a budget of 128 MiB has at most 64. Each step may look at all of them.
type Budget struct {
	patience time.Duration
	evicted  atomic.Int64

	mu      sync.Mutex
	size    int64 // bytes
	free    int64
	grown   int64 // bytes that Grow has given: at most three quarters, so that lists leave room for those who read
	coming  int64 // bytes of grants that were taken away and not given back yet
	wanted  int64 // bytes that those who wait need at least
	grants  map[*Grant]struct{}
	changed chan struct{} // closed, and replaced, when bytes came back
}

const (
	// patience is how long a client waits for a grant that was taken away to come back. Its answer
	// is broken off at once; closing the objects of a store takes a moment.
	patience = 5 * time.Second
	// youth is how long a grant is not judged by its rate: a store may be slow at first.
	youth = 30 * time.Second
	// slowRate is the rate in bytes a second below which a grant is taken away when there is no
	// other: 16 times the pace that a client must keep in any case.
	slowRate = 64 << 10
	// portion of what is free that one grant may take: so much stays free that the next ones get
	// something good, too.
	portion = 4
)

// NewBudget returns a budget of size bytes.
func NewBudget(size drive.ByteSize) *Budget {
	return &Budget{patience: patience, size: int64(size), free: int64(size), grants: map[*Grant]struct{}{}, changed: make(chan struct{})}
}

// Evicted is how many grants were taken away so far.
func (b *Budget) Evicted() int64 { return b.evicted.Load() }

// Grant is memory of one answer.
type Grant struct {
	Bytes drive.ByteSize

	grown  int64 // of them, by Grow
	budget *Budget
	client string
	since  time.Time
	sent   atomic.Int64 // bytes
	over   bool         // taken away
	end    func()       // breaks the answer off
}

// Take returns a grant for a client of want bytes, or fewer, but least. When there is nothing it is
// Unavailable.
func (b *Budget) Take(ctx context.Context, client string, least, want drive.ByteSize) (*Grant, error) {
	if b == nil {
		return &Grant{Bytes: want}, nil
	}
	g := &Grant{budget: b, client: client, since: time.Now()}
	ctx, cancel := context.WithTimeout(ctx, b.patience)
	defer cancel()
	for {
		wait, ok := b.tryTake(g, int64(least), int64(want))
		if ok {
			return g, nil
		}
		if wait == nil {
			return nil, drive.Fail(drive.Unavailable)
		}
		select {
		case <-wait:
			b.leave(int64(least))
		case <-ctx.Done():
			b.leave(int64(least))
			return nil, drive.Wrap(context.Cause(ctx), drive.Unavailable)
		}
	}
}

// tryTake gives g its bytes; or else it returns what to wait for, which the caller leaves then; or
// nothing.
func (b *Budget) tryTake(g *Grant, least, want int64) (wait <-chan struct{}, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.free >= least {
		n := min(want, max(least, b.free/portion))
		g.Bytes = drive.ByteSize(n)
		b.free -= n
		b.grants[g] = struct{}{}
		return nil, true
	}
	b.wanted += least
	for b.free+b.coming < b.wanted {
		victim := b.victimLocked(g.client)
		if victim == nil {
			b.wanted -= least
			return nil, false
		}
		b.evictLocked(victim)
	}
	return b.changed, false
}

func (b *Budget) leave(least int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wanted -= least
}

// victimLocked is the grant that a client may have taken away from another one: the slowest of the
// client that has most grants, if that has two more than the one who comes, who will have at most
// as many then. Or the slowest of all, if that is slow.
func (b *Budget) victimLocked(client string) *Grant {
	held, most := map[string]int{}, 0
	for g := range b.grants {
		if !g.over {
			held[g.client]++
			most = max(most, held[g.client])
		}
	}
	now := time.Now()
	if most >= held[client]+2 {
		return b.slowestLocked(now, func(g *Grant) bool { return held[g.client] == most })
	}
	return b.slowestLocked(now, func(g *Grant) bool {
		return g.client != client && now.Sub(g.since) >= youth && g.rate(now) < slowRate
	})
}

func (b *Budget) slowestLocked(now time.Time, among func(*Grant) bool) (slowest *Grant) {
	for g := range b.grants {
		if !g.over && among(g) && (slowest == nil || g.rate(now) < slowest.rate(now)) {
			slowest = g
		}
	}
	return slowest
}

func (b *Budget) evictLocked(g *Grant) {
	g.over = true
	b.coming += int64(g.Bytes)
	b.evicted.Add(1)
	if g.end != nil {
		g.end()
	}
}

// rate is what the client has read, in bytes a second.
func (g *Grant) rate(now time.Time) float64 {
	return float64(g.sent.Load()) / max(now.Sub(g.since).Seconds(), 1e-3)
}

// onEviction says how to break the answer off; nil: there is none any more. It does not wait. It is
// not called after Close.
func (g *Grant) onEviction(end func()) {
	if g.budget == nil {
		return
	}
	g.budget.mu.Lock()
	defer g.budget.mu.Unlock()
	g.end = end
	if g.over && end != nil {
		end()
	}
}

// Within returns a context that ends when the grant is taken away, for what is done before anything
// is sent; its cause is Unavailable then. The caller calls leave before the grant is used to send.
func (g *Grant) Within(ctx context.Context) (_ context.Context, leave func()) {
	ctx, end := context.WithCancelCause(ctx)
	g.onEviction(func() { end(drive.Fail(drive.Unavailable)) })
	return ctx, func() {
		g.onEviction(nil)
		end(nil)
	}
}

// Grow adds n bytes to a grant, as Take would give them to its client. Unavailable: there are none,
// or the grant was taken away meanwhile.
func (g *Grant) Grow(ctx context.Context, n drive.ByteSize) error {
	b := g.budget
	if b == nil {
		g.Bytes += n
		return nil
	}
	if !b.mayGrow(int64(n)) {
		return drive.Fail(drive.Unavailable)
	}
	more, err := b.Take(ctx, g.client, n, n)
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
	case g.over && !more.over:
		b.coming += int64(more.Bytes)
	case more.over && !g.over:
		b.coming -= int64(more.Bytes)
		b.evictLocked(g)
	}
	if g.over {
		return drive.Fail(drive.Unavailable)
	}
	return nil
}

// mayGrow counts n bytes as grown if they may be.
func (b *Budget) mayGrow(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.grown+n > b.size/4*3 {
		return false
	}
	b.grown += n
	return true
}

// Shrink gives back what a grant has beyond n bytes.
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
	g.giveGrownLocked(rest)
	if g.over {
		b.coming -= rest
	}
	b.tellLocked()
}

func (g *Grant) giveGrownLocked(n int64) {
	n = min(n, g.grown)
	g.grown -= n
	g.budget.grown -= n
}

// Close gives the bytes back. Only the first call counts.
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
	g.giveGrownLocked(g.grown)
	if g.over {
		b.coming -= int64(g.Bytes)
	}
	b.tellLocked()
}

// tellLocked wakes those who wait for bytes.
func (b *Budget) tellLocked() {
	close(b.changed)
	b.changed = make(chan struct{})
}
