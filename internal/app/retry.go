package app

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"
)

const maxPause = time.Minute

// retry calls fn until it succeeds or ctx is done, with growing pauses.
func retry(ctx context.Context, log *slog.Logger, what string, fn func(context.Context) error) error {
	for pause := time.Second; ; pause = min(2*pause, maxPause) {
		err := fn(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		log.ErrorContext(ctx, "will be tried again", "what", what, "in", pause, "error", err)
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
