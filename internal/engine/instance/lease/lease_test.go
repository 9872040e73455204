package lease_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"example.org/smartdrive/internal/engine/instance/lease"
)

// A heartbeat that fails for long ends the work before the lease is over; one that fails twice does
// not.
func TestWorkEndsBeforeItsLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began, beats := time.Now(), 0
		err := lease.Run(t.Context(), func(context.Context) (bool, error) {
			if beats++; beats == 3 {
				return false, nil
			}
			return false, errors.New("no network")
		}, func(ctx context.Context, _ func() bool) error {
			<-ctx.Done()
			return ctx.Err()
		})
		held := time.Since(began)
		if !errors.Is(err, lease.ErrLost) || held < 3*lease.HeartbeatInterval || held > 3*lease.HeartbeatInterval+lease.TTL {
			t.Errorf("after %s: %v", held, err)
		}
	})
}

// TestHoldFencesAndYields: a fenced worker stops at once; a worker asked to yield is told and
// continues to its save point.
func TestHoldFencesAndYields(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		beats := 0
		err := lease.Run(t.Context(), func(context.Context) (bool, error) {
			if beats++; beats == 2 {
				return false, lease.ErrFenced
			}
			return true, nil
		}, func(ctx context.Context, yielding func() bool) error {
			<-ctx.Done()
			if !yielding() {
				t.Error("it was not asked to yield")
			}
			return nil
		})
		if !errors.Is(err, lease.ErrFenced) {
			t.Error(err)
		}
		err = lease.Run(t.Context(), func(context.Context) (bool, error) { return false, nil },
			func(context.Context, func() bool) error { return errors.New("its own") })
		if err == nil || errors.Is(err, lease.ErrFenced) || err.Error() != "its own" {
			t.Error(err)
		}
	})
}
