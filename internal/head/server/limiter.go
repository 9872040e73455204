package server

import (
	"sync"

	"example.org/smartdrive/internal/base/drive"
)

// Limiter limits how many requests of each client are in flight. A client is a user, or an address
// if the request has no login. It counts in memory, in this process only. It is safe for concurrent
// use.
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

// Acquire occupies one of the client's slots for a request. It never waits: if all slots are
// occupied, it fails with drive.Rate. Without an error the caller must call release exactly once,
// after the response.
func (l *Limiter[K]) Acquire(client K) (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.inUse[client]; n >= l.limit {
		return nil, drive.Fail(drive.Rate, "limit", l.limit, "sent", n+1, "retry_after", 1)
	}
	l.inUse[client]++
	return func() { l.release(client) }, nil
}

// release frees a slot of the client.
func (l *Limiter[K]) release(client K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inUse[client]--; l.inUse[client] <= 0 {
		delete(l.inUse, client)
	}
}
