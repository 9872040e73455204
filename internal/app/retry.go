package app

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"
)

// maxPause bounds the pause between two attempts.
const maxPause = time.Minute

// retry calls fn with growing pauses until it succeeds or ctx is done. Failures are logged with
// what. It returns nil, or the context's error.
func retry(ctx context.Context, log *slog.Logger, what string, fn func(context.Context) error) error {
	for pause := time.Second; ; pause = min(2*pause, maxPause) {
		err := fn(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		log.ErrorContext(ctx, "a background task failed and is retried", "what", what, "in", pause, "error", err)
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// untilDone calls fn with growing pauses until it succeeds or ctx is done, and returns nil in both
// cases, so the caller must check ctx. Failures are logged with what.
func untilDone(ctx context.Context, log *slog.Logger, what string, fn func(context.Context) error) error {
	if err := retry(ctx, log, what, fn); err != nil && ctx.Err() == nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
