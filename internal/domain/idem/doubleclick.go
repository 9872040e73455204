package idem

import (
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/turn"
)

const (
	clickInterval = 10 * time.Millisecond // per user and operation
	clickBurst    = 200                   // operations at once
	maxClicks     = 16 << 10              // users and operations in memory, about 3 MiB
)

// ClickLimiter limits how often a user repeats an operation (SOURCES I3), before the keys are
// checked. Each process counts on its own.
type ClickLimiter struct {
	now  func() time.Time
	rate *turn.RateLimiter[clickKey]
}

// clickKey identifies the counter of a user and an operation.
type clickKey struct {
	user      drive.UserID
	operation string
}

// NewClickLimiter returns a limiter that has counted nothing. It uses Options.Now only.
func NewClickLimiter(opt Options) *ClickLimiter {
	return &ClickLimiter{opt.withDefaults().Now, turn.NewRateLimiter[clickKey](clickBurst, clickInterval, maxClicks)}
}

// Allow counts one operation. If the user exceeds the limit, it fails with Rate and retry_after in
// whole seconds. operation must come from a fixed set of names.
func (c *ClickLimiter) Allow(user drive.UserID, operation string) error {
	return c.rate.Allow(clickKey{user, operation}, c.now())
}
