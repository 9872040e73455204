package server

import (
	"sync"

	"smartdrive/internal/base/drive"
)

// Limiter limits the requests of a client in flight. A client is a user, or an address without a
// login. It stores one number per client with a request in flight.
type Limiter[K comparable] struct {
	limit int
	mu    sync.Mutex
	// inUse counts the requests in flight by client; a client without one is absent.
	inUse map[K]int
}

// NewLimiter returns a Limiter of limit concurrent requests per client, at least 1.
func NewLimiter[K comparable](limit int) *Limiter[K] {
	return &Limiter[K]{limit: max(limit, 1), inUse: make(map[K]int)}
}

// Acquire takes a slot for a request. It fails with Rate at once if the client has none left;
// waiting would only accumulate requests. The caller calls release exactly once, after the
// response.
func (g *Limiter[K]) Acquire(client K) (release func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := g.inUse[client]; n >= g.limit {
		return nil, drive.Fail(drive.Rate, "limit", g.limit, "sent", n+1, "retry_after", 1)
	}
	g.inUse[client]++
	return func() { g.release(client) }, nil
}

// release returns a slot of the client and deletes the counter at zero.
func (g *Limiter[K]) release(client K) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inUse[client]--; g.inUse[client] <= 0 {
		delete(g.inUse, client)
	}
}
