package server

import (
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// DailyLimiter limits how many requests each client makes per day (UTC). It is for requests that
// each leave rows which are kept for days or months. It counts in memory: a restart begins at 0,
// and other instances count on their own. It is safe for concurrent use.
type DailyLimiter[K comparable] struct {
	limit int
	now   func() time.Time

	mu  sync.Mutex
	day int64 // days since 1970
	// spent counts today's requests by client.
	spent map[K]int
}

// MaxDailyWrites is the number of writing requests of a user per day. A request uses at most some
// KiB of the database; with parts of 8 MiB this allows 8 TiB.
const MaxDailyWrites = 1_000_000

// NewDailyLimiter returns a DailyLimiter of limit requests per day; now returns the time.
func NewDailyLimiter[K comparable](limit int, now func() time.Time) *DailyLimiter[K] {
	return &DailyLimiter[K]{limit: limit, now: now}
}

// Take counts a request of a client. If the client has reached the limit of today, it fails with
// drive.Rate, which tells the seconds until the next day. A nil DailyLimiter has no limit.
func (p *DailyLimiter[K]) Take(client K) error {
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
