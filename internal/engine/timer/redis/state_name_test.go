package redis_test

import (
	"testing"

	"example.org/smartdrive/internal/engine/timer/redis"
	"example.org/smartdrive/internal/testkit/servicetest"
)

// The name of the state is the same for everybody, over restarts of processes, until something is
// lost.
func TestStateChangesWithALoss(t *testing.T) {
	t.Parallel()
	opt := at(t, servicetest.Redis)
	state := func(q *redis.Queue) string {
		t.Helper()
		s, err := q.StateID(t.Context())
		if err != nil || s == "" {
			t.Fatalf("%q, %v", s, err)
		}
		return s
	}
	a, b := open(t, opt), open(t, opt)
	first := state(a)
	if again, other := state(a), state(b); again != first || other != first {
		t.Errorf("nothing was lost: %s, %s, %s", first, again, other)
	}
	clean(t, a, opt.Namespace)
	second := state(b)
	if second == first {
		t.Error("the loss is not seen")
	}
	if later := state(open(t, opt)); later != second {
		t.Errorf("who comes later sees %s, not %s", later, second)
	}
}
