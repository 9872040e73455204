package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Outage logs a repeated failure with one line at its beginning, one each hour, and one at its end.
// The zero value is ready to use. It is safe for concurrent use.
type Outage struct {
	mu       sync.Mutex
	began    time.Time // time of the first failure; valid while failures > 0
	logged   time.Time // time of the last line
	failures int       // failures since the last success
}

// remindEvery is the interval of the lines during an outage. They show its present cause.
const remindEvery = time.Hour

// Record records the outcome of an attempt. It logs the first error after a success, and then one
// error each hour, as a warning with message what, and the next success as "over: " and what, with
// the duration and the number of failures. Errors after ctx is done are ignored.
func (o *Outage) Record(ctx context.Context, log *slog.Logger, what string, err error, attrs ...slog.Attr) {
	if err != nil && ctx.Err() != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err != nil:
		o.failures++
		now := time.Now()
		if o.failures == 1 {
			o.began = now
		}
		if o.failures == 1 || now.Sub(o.logged) >= remindEvery {
			o.logged = now
			//nolint:sloglint // the caller names the outage
			log.LogAttrs(ctx, slog.LevelWarn, what, append(attrs, slog.Any(KeyError, err))...)
		}
	case o.failures > 0:
		//nolint:sloglint // as above
		log.LogAttrs(ctx, slog.LevelInfo, "over: "+what, append(attrs, slog.Duration("after", time.Since(o.began).Round(time.Millisecond)), slog.Int("failures", o.failures))...)
		o.failures = 0
	}
}
