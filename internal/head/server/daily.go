package server

import (
	"sync"
	"time"

	"smartdrive/internal/base/drive"
)

// Daily limits how many requests each client makes in a day (UTC): rows that a request leaves
// behind are kept for days or months. It keeps a number for each client of the day, in this process
// alone.
type Daily[K comparable] struct {
	limit int
	now   func() time.Time

	mu    sync.Mutex
	day   int64 // since 1970
	spent map[K]int
}

// WritesADay is how many requests that write a user makes in a day: one takes some KiB of the
// database at the most, and a client that sends parts of 8 MiB sends 8 TiB by so many.
const WritesADay = 1_000_000

// NewDaily returns a Daily of limit requests a day; now is the clock.
func NewDaily[K comparable](limit int, now func() time.Time) *Daily[K] {
	return &Daily[K]{limit: limit, now: now}
}

// Spend counts a request of a client, or answers Rate until the next day. A nil Daily has no limit.
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
