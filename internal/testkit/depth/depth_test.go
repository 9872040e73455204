package depth_test

import (
	"testing"

	"example.org/smartdrive/internal/testkit/depth"
)

func TestEachDepthHasItsNumber(t *testing.T) { //nolint:paralleltest // changes the environment
	want := 2
	if testing.Short() {
		want = 1
	}
	t.Setenv("SMARTDRIVE_TEST_DEPTH", "")
	if got := depth.Pick(1, 2, 3); got != want {
		t.Errorf("without the variable a test repeats itself %d times instead of %d", got, want)
	}
	t.Run("deep", func(t *testing.T) { depth.Deep(t); t.Error("a deep test ran in a run that is not deep") })
	t.Setenv("SMARTDRIVE_TEST_DEPTH", "deep")
	if got := depth.Pick(1, 2, 3); got != 3 {
		t.Errorf("a deep run repeats %d times instead of 3", got)
	}
}

func TestADeepRunSkipsNothing(t *testing.T) { //nolint:paralleltest // changes the environment
	t.Setenv("SMARTDRIVE_TEST_DEPTH", "deep")
	ran := 0
	t.Run("normal", func(t *testing.T) { depth.Normal(t); ran++ })
	t.Run("deep", func(t *testing.T) { depth.Deep(t); ran++ })
	if ran != 2 {
		t.Errorf("%d of 2 tests ran", ran)
	}
}
