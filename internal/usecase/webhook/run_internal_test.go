package webhook

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestPollsArePaced: however often entries commit, there are at most twenty polls per second; a
// single entry causes one poll.
func TestPollsArePaced(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		wake func(ready, again chan struct{}, cancel func()) // before waitForWork
		want time.Duration
	}{
		{"new entries", func(ready, _ chan struct{}, _ func()) { ready <- struct{}{} }, minPollPause},
		{"a turn has ended", func(_, again chan struct{}, _ func()) { again <- struct{}{} }, 0},
		{"the end", func(_, _ chan struct{}, cancel func()) { cancel() }, 0},
		{"nothing", func(_, _ chan struct{}, _ func()) {}, pollInterval},
		{"new entries after a while", func(ready, _ chan struct{}, _ func()) {
			time.AfterFunc(time.Second, func() { ready <- struct{}{} })
		}, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ready, again := make(chan struct{}, 1), make(chan struct{}, 1)
				start := time.Now()
				c.wake(ready, again, cancel)
				waitForWork(ctx, ready, again, time.After(pollInterval))
				if took := time.Since(start); took != c.want {
					t.Errorf("looked after %v, want %v", took, c.want)
				}
			})
		})
	}
}
