// Package depth selects how much a test tries. There are three depths, and every test runs at each
// of
// them unless it says otherwise:
//
//	short    go test -short            what a change usually breaks, without services      make check
//	normal   go test                   one smoke of everything, what lands a change        make test, .ci/run
//	deep     SMARTDRIVE_TEST_DEPTH=deep  long histories, every call, many kills            make deep
//
// A test with repetitions (random histories, a crash at every call, kills) takes their number from
// Pick. A test that needs much time calls Normal or Deep, which skip it and name the command that
// runs it.
package depth

import (
	"os"
	"testing"
)

const variable = "SMARTDRIVE_TEST_DEPTH"

// IsDeep reports whether this is a deep run.
func IsDeep() bool { return os.Getenv(variable) == "deep" }

// Pick returns the number of repetitions for the depth of this run.
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

// Deep skips the test unless this is a deep run.
func Deep(t testing.TB) {
	t.Helper()
	if !IsDeep() {
		t.Skip("left to make deep")
	}
}
