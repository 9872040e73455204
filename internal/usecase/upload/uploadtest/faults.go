package uploadtest

import (
	"context"
	"database/sql/driver"
	"io"
	"strings"
	"sync"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/usecase/upload"
)

// Faults injects faults into the calls that Sessions makes. Each call is named: "read" (outside a
// transaction), "tx.begin", "tx.exec", "tx.query", "tx.commit", "staging.Fence", "store.Put",
// "timers.Arm" and so on. One Rule is active at a time.
type Faults struct {
	mu    sync.Mutex
	rule  Rule
	seen  int  // calls matched by the rule
	fired bool // the rule has taken effect
}

// Rule applies Effect to the n-th call whose name begins with Point. A rule with Do ignores the
// calls of transactions.
type Rule struct {
	Point  string
	N      int // 1 is the next
	Effect Effect
	Err    error  // default: Unavailable
	Do     func() // for RunBefore and RunAfter
}

// Effect says what happens to a call.
type Effect int

// The effects of a rule on a call.
const (
	Pass      Effect = iota // the call is made normally
	Fail                    // the call fails and is not made
	Always                  // like Fail, also for all later matching calls
	LoseReply               // the call is made, but its reply is lost: it returns the error
	Die                     // this and all later calls of any name fail: the process is dead
	DieAfter                // the call is made; all later calls of any name fail
	RunBefore               // Do runs before the call
	RunAfter                // Do runs after the call, before it returns
)

// Set activates a rule. Its default error is Unavailable.
func (f *Faults) Set(r Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Err == nil {
		r.Err = drive.Fail(drive.Unavailable, "reason", "fault")
	}
	f.rule, f.seen, f.fired = r, 0, false
}

// Clear removes the rule, so that all calls pass, and reports whether it took effect. A nil f
// returns false.
func (f *Faults) Clear() bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	came := f.fired
	f.rule, f.fired = Rule{}, false
	return came
}

// Matched returns how many calls have matched since Set.
func (f *Faults) Matched() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen
}

// next counts a call to point if the rule is about it, and returns the effect on this call and the
// rule. After Die or DieAfter took effect, the effect on each call is Fail.
func (f *Faults) next(point string) (Effect, Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.rule
	dead := f.fired && (r.Effect == Die || r.Effect == DieAfter)
	switch {
	case dead:
		return Fail, r
	case !strings.HasPrefix(point, r.Point), r.Do != nil && strings.HasPrefix(point, "tx"):
		return Pass, r
	}
	f.seen++
	if r.Effect == Always && f.seen >= r.N {
		f.fired = true
		return Fail, r
	}
	if f.seen != r.N || f.fired {
		return Pass, r
	}
	f.fired = r.Effect != Pass
	return r.Effect, r
}

// at runs do as the rule demands of a call to point: it may return the rule's error instead of do,
// or after do has succeeded, or run the rule's Do before or after. It returns the error of do
// otherwise.
func (f *Faults) at(point string, do func() error) error {
	how, r := f.next(point)
	switch how {
	case Fail, Die:
		return r.Err
	case LoseReply, DieAfter:
		if err := do(); err != nil {
			return err
		}
		return r.Err
	case RunBefore:
		r.Do()
	case RunAfter:
		defer r.Do()
	case Pass, Always:
	}
	return do()
}

// connector returns a connector to the database dsn without syncs. Its reads are calls to the point
// "read", its writes to "tx." and the call; preparations are not counted. It fails if dsn is not
// valid.
func (f *Faults) connector(dsn string) (driver.Connector, error) {
	reads := sqldbtest.Reads(dsn)
	return sqldbtest.Connect(sqldbtest.Unsynced(dsn), func(call sqldbtest.Call, do func() error) error {
		switch {
		case call == sqldbtest.Prepare, call == sqldbtest.Savepoint && !reads:
			return do() // their number depends on caches
		case reads:
			return f.at("read", do)
		}
		return f.at("tx."+string(call), do)
	})
}

// injected makes the call do as the rule demands and returns its value, or zero with the error.
func injected[V any](f *Faults, point string, do func() (V, error)) (v V, err error) {
	err = f.at(point, func() (err error) {
		v, err = do()
		return err
	})
	if err != nil {
		var none V
		return none, err
	}
	return v, nil
}

// faultyStaging passes calls to the Staging as the rule of f demands, as point "staging." and the
// name of the method. Methods that it does not define have no faults.
type faultyStaging struct {
	blob.Staging
	f *Faults
}

// Create creates a staging (blob.Staging) subject to the rule.
func (s faultyStaging) Create(ctx context.Context, ref blob.Ref) error {
	return s.f.at("staging.Create", func() error { return s.Staging.Create(ctx, ref) })
}

// Write stores a part (blob.Staging) subject to the rule.
func (s faultyStaging) Write(ctx context.Context, ref blob.Ref, w blob.Write, body blob.Body) (blob.Part, error) {
	return injected(s.f, "staging.Write", func() (blob.Part, error) { return s.Staging.Write(ctx, ref, w, body) })
}

// Extend appends to a tail (blob.Staging) subject to the rule.
func (s faultyStaging) Extend(ctx context.Context, ref blob.Ref, e blob.Extend, body blob.Body) (blob.Part, error) {
	return injected(s.f, "staging.Extend", func() (blob.Part, error) { return s.Staging.Extend(ctx, ref, e, body) })
}

// PrepareExtend stores a piece without journaling it (blob.Staging) subject to the rule for point
// "staging.Withhold". If the rule fails a call that succeeded, the piece is discarded. The Commit
// of the result is subject to the rule as well.
func (s faultyStaging) PrepareExtend(ctx context.Context, ref blob.Ref, e blob.Extend, body blob.Body) (blob.PendingExtend, error) {
	var w blob.PendingExtend
	err := s.f.at("staging.Withhold", func() (err error) {
		w, err = s.Staging.PrepareExtend(ctx, ref, e, body)
		return err
	})
	switch {
	case err == nil:
		return faultyWithheld{w, s.f}, nil
	case w != nil: // the caller would never see the value, so it is discarded
		w.Discard(ctx)
	}
	return nil, err
}

// faultyWithheld is a PendingExtend whose Commit is subject to the rule of f.
type faultyWithheld struct {
	blob.PendingExtend
	f *Faults
}

// Commit journals the piece subject to the rule for point "staging.Enter". If the rule fails the
// call before it is made, Commit discards the piece.
func (w faultyWithheld) Commit(ctx context.Context) error {
	called := false
	err := w.f.at("staging.Enter", func() error {
		called = true
		return w.PendingExtend.Commit(ctx)
	})
	if !called {
		w.Discard(ctx)
	}
	return err
}

// Adopt takes over another staging's parts (blob.Staging) subject to the rule.
func (s faultyStaging) Adopt(ctx context.Context, ref, from blob.Ref) (bool, error) {
	return injected(s.f, "staging.Adopt", func() (bool, error) { return s.Staging.Adopt(ctx, ref, from) })
}

// OpenTail opens a tail for reading (blob.Staging) subject to the rule.
func (s faultyStaging) OpenTail(ctx context.Context, ref blob.Ref, n int) (io.ReadCloser, error) {
	return injected(s.f, "staging.OpenTail", func() (io.ReadCloser, error) { return s.Staging.OpenTail(ctx, ref, n) })
}

// Drop deletes a part (blob.Staging) subject to the rule.
func (s faultyStaging) Drop(ctx context.Context, ref blob.Ref, gen int64, n int) error {
	return s.f.at("staging.Drop", func() error { return s.Staging.Drop(ctx, ref, gen, n) })
}

// Load reads the journal (blob.Staging) subject to the rule.
func (s faultyStaging) Load(ctx context.Context, ref blob.Ref) (blob.Staged, error) {
	return injected(s.f, "staging.Load", func() (blob.Staged, error) { return s.Staging.Load(ctx, ref) })
}

// Fence excludes writers of gen and below (blob.Staging) subject to the rule.
func (s faultyStaging) Fence(ctx context.Context, ref blob.Ref, gen int64) (blob.Staged, error) {
	return injected(s.f, "staging.Fence", func() (blob.Staged, error) { return s.Staging.Fence(ctx, ref, gen) })
}

// Remove deletes a staging (blob.Staging) subject to the rule.
func (s faultyStaging) Remove(ctx context.Context, ref blob.Ref) error {
	return s.f.at("staging.Remove", func() error { return s.Staging.Remove(ctx, ref) })
}

// Seal turns the parts into content (blob.Staging) subject to the rule.
func (s faultyStaging) Seal(ctx context.Context, ref blob.Ref, size drive.ByteSize) error {
	return s.f.at("staging.Seal", func() error { return s.Staging.Seal(ctx, ref, size) })
}

// Unseal turns content into parts again (blob.Staging) subject to the rule.
func (s faultyStaging) Unseal(ctx context.Context, ref blob.Ref) error {
	return s.f.at("staging.Unseal", func() error { return s.Staging.Unseal(ctx, ref) })
}

// OpenStaged opens sealed content for reading (blob.Staging) subject to the rule.
func (s faultyStaging) OpenStaged(ctx context.Context, ref blob.Ref) (blob.Object, error) {
	return injected(s.f, "staging.OpenStaged", func() (blob.Object, error) { return s.Staging.OpenStaged(ctx, ref) })
}

// Verify checks the parts (blob.Staging) subject to the rule.
func (s faultyStaging) Verify(ctx context.Context, ref blob.Ref, gen int64) (blob.Staged, error) {
	return injected(s.f, "staging.Verify", func() (blob.Staged, error) { return s.Staging.Verify(ctx, ref, gen) })
}

// faultyStore passes calls to the Store as the rule of f demands, as point "store." and the name of
// the method unless stated otherwise. Methods that it does not define have no faults.
type faultyStore struct {
	blob.Store
	f *Faults
}

// Caps makes Sessions use PutUnsynced for small contents, also over a directory that prefers Put.
func (s faultyStore) Caps() blob.StoreCaps {
	caps := s.Store.Caps()
	caps.SmallMax = 32 * drive.KiB
	return caps
}

// Put stores content (blob.Store) subject to the rule.
func (s faultyStore) Put(ctx context.Context, name string, body blob.Body) (blob.Part, error) {
	return injected(s.f, "store.Put", func() (blob.Part, error) { return s.Store.Put(ctx, name, body) })
}

// PutUnsynced stores content that Sync makes durable (blob.Store) subject to the rule for point
// "store.Lay".
func (s faultyStore) PutUnsynced(ctx context.Context, name string, body blob.Body, many bool) (blob.Part, error) {
	return injected(s.f, "store.Lay", func() (blob.Part, error) { return s.Store.PutUnsynced(ctx, name, body, many) })
}

// Sync makes contents durable (blob.Store) subject to the rule for point "store.Settle".
func (s faultyStore) Sync(ctx context.Context, names []string) error {
	return s.f.at("store.Settle", func() error { return s.Store.Sync(ctx, names) })
}

// Open opens content for reading (blob.Store) subject to the rule.
func (s faultyStore) Open(ctx context.Context, name string) (blob.Object, error) {
	return injected(s.f, "store.Open", func() (blob.Object, error) { return s.Store.Open(ctx, name) })
}

// Remove deletes content (blob.Store) subject to the rule.
func (s faultyStore) Remove(ctx context.Context, name string) error {
	return s.f.at("store.Remove", func() error { return s.Store.Remove(ctx, name) })
}

// RemoveAll deletes contents one by one; the rule applies to each Remove. It returns the names that
// are gone, and the first errors joined.
func (s faultyStore) RemoveAll(ctx context.Context, names []string) ([]string, error) {
	return blob.RemoveEach(ctx, names, s.Remove)
}

// Reclaim is RemoveAll: each deletion is subject to the rule.
func (s faultyStore) Reclaim(ctx context.Context, names []string) ([]string, error) {
	return s.RemoveAll(ctx, names)
}

// faultyTimers passes Arm and Cancel to the Timers as the rule of f demands.
type faultyTimers struct {
	upload.Timers
	f *Faults
}

// Arm arms timers subject to the rule for point "timers.Arm".
func (t faultyTimers) Arm(ctx context.Context, entries ...timer.Entry) error {
	return t.f.at("timers.Arm", func() error { return t.Timers.Arm(ctx, entries...) })
}

// Cancel removes a timer subject to the rule for point "timers.Cancel".
func (t faultyTimers) Cancel(ctx context.Context, key timer.Key, gen int64) error {
	return t.f.at("timers.Cancel", func() error { return t.Timers.Cancel(ctx, key, gen) })
}
