package dav_test

import (
	"testing"

	"example.org/smartdrive/internal/head/dav"
	"example.org/smartdrive/internal/head/dav/davtest"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// stack is the head on real parts, behind the server's middleware, under a virtual clock.
type stack struct{ *davtest.Site }

func newStack(t testing.TB, change ...func(*dav.Options)) *stack {
	t.Helper()
	return newStackAt(t, uploadtest.Options{}, change...)
}

func newStackAt(t testing.TB, opt uploadtest.Options, change ...func(*dav.Options)) *stack {
	t.Helper()
	s := &stack{davtest.New(t, opt)}
	o := dav.Options{Files: s.Files, Uploads: s.Sessions, Spaces: s.Spaces, Caller: s.Caller, Now: s.Clock.Now, Balance: s.Balance}
	for _, fn := range change {
		fn(&o)
	}
	s.Serve(dav.New(o).Register, dav.Prefix)
	return s
}
