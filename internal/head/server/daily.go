package server

import (
	"sync"
	"time"

	"smartdrive/internal/base/drive"
)

// Daily limits the requests of each client per day (UTC), because a request leaves rows that are
// kept for days or months. It counts in memory, in this process only.
type Daily[K comparable] struct {
	limit int
	now   func() time.Time

	mu    sync.Mutex
	day   int64 // days since 1970
	spent map[K]int
}

// WritesADay is the number of writing requests of a user per day. A request uses at most some KiB
// of the database; with parts of 8 MiB this allows 8 TiB.
const WritesADay = 1_000_000

// NewDaily returns a Daily of limit requests per day; now returns the time.
func NewDaily[K comparable](limit int, now func() time.Time) *Daily[K] {
	return &Daily[K]{limit: limit, now: now}
}

// Spend counts a request of a client. It fails with Rate until the next day if the limit is
// reached. A nil Daily has no limit.
func (p *Daily[K]) Spend(client K) error {
	if p == nil {
		return nil
	}
	const day = int64(24 * time.Hour / time.Second)
	now := p.now().Unix()
	p.mu.Lock()
	defer p.mu.Unlock()
	if today := now / day; today != p.day || p.spent == nil {
		p.day, p.spent = today, map[K]int{}
	}
	if p.spent[client] >= p.limit {
		return drive.Fail(drive.Rate, "retry_after", (p.day+1)*day-now)
	}
	p.spent[client]++
	return nil
}
