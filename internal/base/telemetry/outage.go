package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Outage logs what fails again and again as one line at its beginning and one at its end, however
// often it is tried meanwhile. The zero Outage has not begun. It is safe for concurrent use.
type Outage struct {
	mu    sync.Mutex
	began time.Time // zero: it works
	tries int
}

// Note takes the outcome of a try. The first error after a success is logged as a warning under
// what, the first success after that as "over: " and what, with how long it took and how many tries
// failed. Errors because ctx is done say nothing.
func (o *Outage) Note(ctx context.Context, log *slog.Logger, what string, err error, attrs ...slog.Attr) {
	if err != nil && ctx.Err() != nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err != nil:
		o.tries++
		if o.tries == 1 {
			o.began = time.Now()
			//nolint:sloglint // the caller names the outage
			log.LogAttrs(ctx, slog.LevelWarn, what, append(attrs, slog.Any(KeyError, err))...)
		}
	case o.tries > 0:
		//nolint:sloglint // as above
		log.LogAttrs(ctx, slog.LevelInfo, "over: "+what, append(attrs, slog.Duration("after", time.Since(o.began).Round(time.Millisecond)), slog.Int("failures", o.tries))...)
		o.tries = 0
	}
}
