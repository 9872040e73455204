package main

import (
	"math"
	"runtime/debug"
	"testing"
)

func TestMemoryLimitFromEnvironment(t *testing.T) { //nolint:paralleltest // changes the environment and the runtime
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	for value, want := range map[string]int64{"": softMemoryLimit, "1GiB": math.MaxInt64} {
		t.Setenv("GOMEMLIMIT", value)
		debug.SetMemoryLimit(math.MaxInt64) // the runtime reads the variable when it starts
		setMemoryLimit()
		if got := debug.SetMemoryLimit(-1); got != want {
			t.Errorf("with %q the limit is %d, want %d", value, got, want)
		}
	}
}
