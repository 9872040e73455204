package server

import (
	"sync"

	"example.org/smartdrive/internal/base/drive"
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
func (l *Limiter[K]) Acquire(client K) (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.inUse[client]; n >= l.limit {
		return nil, drive.Fail(drive.Rate, "limit", l.limit, "sent", n+1, "retry_after", 1)
	}
	l.inUse[client]++
	return func() { l.release(client) }, nil
}

// release returns a slot of the client and deletes the counter at zero.
func (l *Limiter[K]) release(client K) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inUse[client]--; l.inUse[client] <= 0 {
		delete(l.inUse, client)
	}
}
