// Package depth says how much a test tries. There are three depths, and every test runs at each of
// them unless it says otherwise:
//
//	short    go test -short            what a change usually breaks, without services      make check
//	normal   go test                   one smoke of everything, what lands a change        make test, .ci/run
//	deep     SMARTDRIVE_TEST_DEPTH=deep  long histories, every call, many kills            make deep
//
// A test that repeats itself (random histories, a crash at every call, kills) asks Pick how often.
// A test that only makes sense at length calls Normal or Deep, which skip it and name the command
// that runs it.
package depth

import (
	"os"
	"testing"
)

const variable = "SMARTDRIVE_TEST_DEPTH"

// IsDeep reports whether this run is a deep one.
func IsDeep() bool { return os.Getenv(variable) == "deep" }

// Pick returns how often a test repeats what it does, at the depth of this run.
func Pick(short, normal, deeply int) int {
	switch {
	case IsDeep():
		return deeply
	case testing.Short():
		return short
	default:
		return normal
	}
}

// Normal skips the test under -short.
func Normal(t testing.TB) {
	t.Helper()
	if testing.Short() && !IsDeep() {
		t.Skip("left to make test")
	}
}

// Deep skips the test unless this run is a deep one.
func Deep(t testing.TB) {
	t.Helper()
	if !IsDeep() {
		t.Skip("left to make deep")
	}
}
