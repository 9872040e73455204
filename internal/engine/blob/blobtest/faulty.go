package blobtest

import (
	"context"
	"fmt"
	"io"
	"sync"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// Faults makes chosen calls of a Staging fail, return an error after they have succeeded, or wait.
// A rule names a call as Faulty passes it to do ("Write", "Seal") and counts such calls from 1,
// from the creation of the rule on. The zero value has no rules and is ready for use, also
// concurrently.
type Faults struct {
	mu    sync.Mutex
	rules []*rule
	calls map[string]int
}

// rule makes one or more calls of a Staging fail, lose their reply or wait.
type rule struct {
	call  string                                           // name of the calls, as passed to Faults.do
	n     int                                              // calls until it applies; -1: used up
	every bool                                             // it applies to all calls from then on
	act   func(ctx context.Context, do func() error) error // runs instead of the call
}

// Fail makes the n-th call return err without doing anything.
func (f *Faults) Fail(call string, n int, err error) {
	f.add(&rule{call: call, n: n, act: func(context.Context, func() error) error { return err }})
}

// FailAll makes all calls return err until Clear.
func (f *Faults) FailAll(call string, err error) {
	f.add(&rule{call: call, n: 1, every: true, act: func(context.Context, func() error) error { return err }})
}

// LoseReply makes the n-th call of a method return err although it succeeded. If the call itself
// fails, its own error is returned.
func (f *Faults) LoseReply(call string, n int, err error) {
	f.add(&rule{call: call, n: n, act: func(_ context.Context, do func() error) error {
		if failed := do(); failed != nil {
			return failed
		}
		return err
	}})
}

// Hold blocks the n-th call before it does anything. reached is closed when the call has arrived.
// The call continues after release, or fails when its context ends.
func (f *Faults) Hold(call string, n int) (reached <-chan struct{}, release func()) {
	at, open := make(chan struct{}), make(chan struct{})
	f.add(&rule{call: call, n: n, act: func(ctx context.Context, do func() error) error {
		close(at)
		select {
		case <-open:
			return do()
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", call, ctx.Err())
		}
	}})
	return at, sync.OnceFunc(func() { close(open) })
}

// Clear removes all rules.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = nil
}

// Calls returns the number of calls of a method, failed ones included.
func (f *Faults) Calls(call string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[call]
}

// add adds a rule.
func (f *Faults) add(r *rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = append(f.rules, r)
}

// next counts a call and returns the action of the oldest rule that applies; nil: none.
func (f *Faults) next(call string) (act func(context.Context, func() error) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.calls == nil {
		f.calls = make(map[string]int)
	}
	f.calls[call]++
	for _, r := range f.rules {
		if r.call != call {
			continue
		}
		if r.n > 0 {
			r.n--
		}
		if r.n == 0 && act == nil {
			act = r.act
			if !r.every {
				r.n = -1 // used up
			}
		}
	}
	return act
}

// do counts a call and returns the result of the function do, or that of the oldest rule that
// applies. The rule decides whether the function runs: Fail does not run it, LoseReply runs it and
// then returns an error, Hold runs it after release.
func (f *Faults) do(ctx context.Context, call string, do func() error) error {
	if act := f.next(call); act != nil {
		return act(ctx, do)
	}
	return do()
}

// get calls do through Faults.do under the name call, for calls with a result. It returns the zero
// value with any error, also if a rule lost the reply of a call that succeeded.
func get[T any](ctx context.Context, f *Faults, call string, do func() (T, error)) (v T, err error) {
	err = f.do(ctx, call, func() error {
		v, err = do()
		return err
	})
	if err != nil {
		var none T
		return none, err
	}
	return v, nil
}

// Faulty is a Staging whose calls are subject to the rules of Faults. Methods that are not listed
// here are passed on unchanged.
type Faulty struct {
	blob.Staging
	*Faults
}

var _ blob.Staging = Faulty{}

// Create calls Staging.Create subject to the rules for "Create".
func (s Faulty) Create(ctx context.Context, ref blob.Ref) error {
	return s.do(ctx, "Create", func() error { return s.Staging.Create(ctx, ref) })
}

// Write calls Staging.Write subject to the rules for "Write".
func (s Faulty) Write(ctx context.Context, ref blob.Ref, w blob.Write, body blob.Body) (blob.Part, error) {
	return get(ctx, s.Faults, "Write", func() (blob.Part, error) { return s.Staging.Write(ctx, ref, w, body) })
}

// Extend calls Staging.Extend subject to the rules for "Extend".
func (s Faulty) Extend(ctx context.Context, ref blob.Ref, e blob.Extend, body blob.Body) (blob.Part, error) {
	return get(ctx, s.Faults, "Extend", func() (blob.Part, error) { return s.Staging.Extend(ctx, ref, e, body) })
}

// PrepareExtend calls Staging.PrepareExtend subject to the rules for "Withhold". The result is not
// decorated: its Commit does not fail by a rule.
func (s Faulty) PrepareExtend(ctx context.Context, ref blob.Ref, e blob.Extend, body blob.Body) (blob.PendingExtend, error) {
	return get(ctx, s.Faults, "Withhold", func() (blob.PendingExtend, error) { return s.Staging.PrepareExtend(ctx, ref, e, body) })
}

// Adopt calls Staging.Adopt subject to the rules for "Adopt".
func (s Faulty) Adopt(ctx context.Context, ref, from blob.Ref) (bool, error) {
	return get(ctx, s.Faults, "Adopt", func() (bool, error) { return s.Staging.Adopt(ctx, ref, from) })
}

// OpenTail calls Staging.OpenTail subject to the rules for "OpenTail". Reads of the result do not
// fail by a rule.
func (s Faulty) OpenTail(ctx context.Context, ref blob.Ref, n int) (io.ReadCloser, error) {
	return get(ctx, s.Faults, "OpenTail", func() (io.ReadCloser, error) { return s.Staging.OpenTail(ctx, ref, n) })
}

// Drop calls Staging.Drop subject to the rules for "Drop".
func (s Faulty) Drop(ctx context.Context, ref blob.Ref, gen int64, n int) error {
	return s.do(ctx, "Drop", func() error { return s.Staging.Drop(ctx, ref, gen, n) })
}

// Load calls Staging.Load subject to the rules for "Load".
func (s Faulty) Load(ctx context.Context, ref blob.Ref) (blob.Staged, error) {
	return get(ctx, s.Faults, "Load", func() (blob.Staged, error) { return s.Staging.Load(ctx, ref) })
}

// Fence calls Staging.Fence subject to the rules for "Fence".
func (s Faulty) Fence(ctx context.Context, ref blob.Ref, gen int64) (blob.Staged, error) {
	return get(ctx, s.Faults, "Fence", func() (blob.Staged, error) { return s.Staging.Fence(ctx, ref, gen) })
}

// Remove calls Staging.Remove subject to the rules for "Remove".
func (s Faulty) Remove(ctx context.Context, ref blob.Ref) error {
	return s.do(ctx, "Remove", func() error { return s.Staging.Remove(ctx, ref) })
}

// Seal calls Staging.Seal subject to the rules for "Seal".
func (s Faulty) Seal(ctx context.Context, ref blob.Ref, size drive.ByteSize) error {
	return s.do(ctx, "Seal", func() error { return s.Staging.Seal(ctx, ref, size) })
}

// Unseal calls Staging.Unseal subject to the rules for "Unseal".
func (s Faulty) Unseal(ctx context.Context, ref blob.Ref) error {
	return s.do(ctx, "Unseal", func() error { return s.Staging.Unseal(ctx, ref) })
}

// OpenStaged calls Staging.OpenStaged subject to the rules for "OpenStaged". Reads of the result do
// not fail by a rule.
func (s Faulty) OpenStaged(ctx context.Context, ref blob.Ref) (blob.Object, error) {
	return get(ctx, s.Faults, "OpenStaged", func() (blob.Object, error) { return s.Staging.OpenStaged(ctx, ref) })
}

// Verify calls Staging.Verify subject to the rules for "Verify".
func (s Faulty) Verify(ctx context.Context, ref blob.Ref, gen int64) (blob.Staged, error) {
	return get(ctx, s.Faults, "Verify", func() (blob.Staged, error) { return s.Staging.Verify(ctx, ref, gen) })
}
