package main

import (
	"runtime"
	"testing"
)

func TestRaiseMaxProcs(t *testing.T) { //nolint:paralleltest // changes the environment and the runtime
	before := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	for value, want := range map[string]int{"": 6, "3": 3} {
		t.Setenv("GOMAXPROCS", value)
		runtime.GOMAXPROCS(3)
		raiseMaxProcs()
		if got := runtime.GOMAXPROCS(0); got != want {
			t.Errorf("with %q there are %d, want %d", value, got, want)
		}
	}
}
