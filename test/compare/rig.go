package main

import (
	"context"
	"fmt"
	"testing"
)

// rig lets helpers that are written for tests run in a comparison. What they report as a failure
// ends the comparison: asTest turns it into an error.
type rig struct {
	testing.TB // nil: whatever is missing below is not called

	ctx   context.Context //nolint:containedctx // as that of a test
	bench *bench
}

// failure is what a rig panics with.
type failure string

func (*rig) Helper()                    {}
func (*rig) Log(...any)                 {}
func (*rig) Logf(string, ...any)        {}
func (*rig) Fatal(args ...any)          { panic(failure(fmt.Sprint(args...))) }
func (*rig) Fatalf(f string, a ...any)  { panic(failure(fmt.Sprintf(f, a...))) }
func (*rig) Errorf(f string, a ...any)  { panic(failure(fmt.Sprintf(f, a...))) }
func (r *rig) Context() context.Context { return r.ctx }

func (r *rig) Cleanup(do func()) {
	r.bench.later(func() error { return asTest(func() error { do(); return nil }) })
}

func (r *rig) TempDir() string {
	dir, err := r.bench.tempDir()
	if err != nil {
		r.Fatal(err)
	}
	return dir
}

// asTest runs do, which may call helpers of tests, and returns what they report as an error.
func asTest(do func() error) (err error) {
	defer func() {
		switch f := recover().(type) {
		case nil:
		case failure:
			err = fmt.Errorf("%s", string(f))
		default:
			panic(f)
		}
	}()
	return do()
}
