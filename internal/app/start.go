package app

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// component is an external service that a start needs.
type component struct {
	name string
	// open connects and checks. It fails with Unavailable if the service does not respond, which is
	// retried.
	open func(ctx context.Context) error
}

// StartError lists what keeps an installation from starting, one line per problem.
type StartError struct {
	lines []string
	errs  []error
}

// Error returns the problems, one per line.
func (e *StartError) Error() string { return strings.Join(e.lines, "\n") }

// Unwrap returns the errors of the components, for errors.Is and errors.As.
func (e *StartError) Unwrap() []error { return e.errs }

// Configuration reports whether a setting must be changed; otherwise a component is down.
func (e *StartError) Configuration() bool {
	for _, err := range e.errs {
		if !drive.IsKind(err, drive.Unavailable) {
			return true
		}
	}
	return false
}

// startAll opens the components concurrently and reports all failures at once. It retries a
// component that is Unavailable until wait has passed.
func startAll(ctx context.Context, components []component, wait time.Duration, log *slog.Logger) error {
	errs := make([]error, len(components))
	var opening sync.WaitGroup
	for i, c := range components {
		opening.Go(func() { errs[i] = startOne(ctx, c, wait, log) })
	}
	opening.Wait()
	var failed StartError
	for i, err := range errs {
		if err != nil {
			failed.errs = append(failed.errs, err)
			for line := range strings.Lines(err.Error()) {
				failed.lines = append(failed.lines, components[i].name+": "+strings.TrimSpace(line))
			}
		}
	}
	if len(failed.errs) > 0 {
		return &failed
	}
	return nil
}

// startOne opens a component and retries while it is Unavailable, until wait has passed. Then, and
// for every other error, it returns the error.
func startOne(ctx context.Context, c component, wait time.Duration, log *slog.Logger) error {
	deadline := time.Now().Add(wait)
	for pause := 200 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := c.open(ctx)
		left := time.Until(deadline)
		switch {
		case err == nil:
			return nil
		case !drive.IsKind(err, drive.Unavailable):
			return err
		case ctx.Err() != nil || left <= 0:
			return err
		}
		log.WarnContext(ctx, "waiting for a component", "component", c.name, "at_most", left.Round(time.Second), "error", err)
		select {
		case <-time.After(min(left, pause/2+rand.N(pause/2))):
		case <-ctx.Done():
		}
	}
}
