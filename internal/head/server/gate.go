package server

import (
	"sync"

	"smartdrive/internal/base/drive"
)

// Gate limits how many requests of one client are in flight: a user, or an address where nobody has
// logged in. It keeps one number for each client that has a request in flight and nothing for
// anybody else.
type Gate[K comparable] struct {
	limit int
	mu    sync.Mutex
	inUse map[K]int
}

// NewGate returns a gate that lets limit requests of each client through at a time; at least 1.
func NewGate[K comparable](limit int) *Gate[K] {
	return &Gate[K]{limit: max(limit, 1), inUse: make(map[K]int)}
}

// Acquire takes a place for a request of a client, or answers Rate at once: waiting would only pile
// requests up. The head calls release exactly once, when the request has been answered.
func (g *Gate[K]) Acquire(client K) (release func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := g.inUse[client]; n >= g.limit {
		return nil, drive.Fail(drive.Rate, "limit", g.limit, "sent", n+1, "retry_after", 1)
	}
	g.inUse[client]++
	return func() { g.release(client) }, nil
}

func (g *Gate[K]) release(client K) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inUse[client]--; g.inUse[client] <= 0 {
		delete(g.inUse, client)
	}
}
