package main

import (
	"context"
	"fmt"
	"testing"
)

// rig implements testing.TB, so that helpers written for tests can run in a comparison. Their
// failures panic, and asTest returns them as errors.
type rig struct {
	testing.TB // nil: unimplemented methods are not called

	ctx   context.Context //nolint:containedctx // returned by Context
	bench *bench
}

// failure is the value that a rig panics with.
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

// asTest runs do, which may call test helpers, and returns their failure as an error.
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
