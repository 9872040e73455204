package app

import (
	"context"
	"fmt"
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

// untilDone is retry as a loop that ends with nil when there is nothing left to do, or no time.
func untilDone(ctx context.Context, log *slog.Logger, what string, fn func(context.Context) error) error {
	if err := retry(ctx, log, what, fn); err != nil && ctx.Err() == nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
