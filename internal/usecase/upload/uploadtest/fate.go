package uploadtest

import (
	"context"
	"database/sql/driver"
	"io"
	"strings"
	"sync"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb/sqldbtest"
	"smartdrive/internal/engine/timer"
	"smartdrive/internal/usecase/upload"
)

// Fate decides what befalls the calls that Sessions makes. A call is a point, named "read" (outside
// a transaction), "tx.begin", "tx.exec", "tx.query", "tx.commit", "staging.Fence", "store.Put",
// "timers.Arm" and so on. One rule holds at a time.
type Fate struct {
	mu   sync.Mutex
	rule Rule
	seen int // points that the rule is about
	came bool
}

// Rule says what happens at the n-th point whose name begins with Point.
type Rule struct {
	Point string
	N     int // 1 is the next
	How   How
	Err   error  // default: Unavailable
	Do    func() // of Meanwhile and Afterwards
}

// How a call ends.
type How int

// The ways.
const (
	Pass       How = iota
	Fail           // it is not made, and fails
	Always         // so do all later ones of the name
	Lose           // it is made, its reply is lost
	Die            // it and every later one is not made: the process is dead
	DieAfter       // it is made, and every later one is not
	Meanwhile      // Do runs before it
	Afterwards     // Do runs when it is made, before its reply is seen
)

// Set makes a rule hold from now on.
func (f *Fate) Set(r Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Err == nil {
		r.Err = drive.Fail(drive.Unavailable, "reason", "fault")
	}
	f.rule, f.seen, f.came = r, 0, false
}

// Clear lets everything pass again, and says whether the rule came true.
func (f *Fate) Clear() bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	came := f.came
	f.rule, f.came = Rule{}, false
	return came
}

// Seen returns how many points the rule was asked about since Set.
func (f *Fate) Seen() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen
}

// next counts a point and returns what happens to it.
func (f *Fate) next(point string) (How, Rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.rule
	dead := f.came && (r.How == Die || r.How == DieAfter)
	switch {
	case dead:
		return Fail, r
	case !strings.HasPrefix(point, r.Point), r.Do != nil && strings.HasPrefix(point, "tx"):
		return Pass, r
	}
	f.seen++
	if r.How == Always && f.seen >= r.N {
		f.came = true
		return Fail, r
	}
	if f.seen != r.N || f.came {
		return Pass, r
	}
	f.came = r.How != Pass
	return r.How, r
}

func (f *Fate) at(point string, do func() error) error {
	how, r := f.next(point)
	switch how {
	case Fail, Die:
		return r.Err
	case Lose, DieAfter:
		if err := do(); err != nil {
			return err
		}
		return r.Err
	case Meanwhile:
		r.Do()
	case Afterwards:
		defer r.Do()
	case Pass, Always:
	}
	return do()
}

func (f *Fate) connector(dsn string) (driver.Connector, error) {
	reads := sqldbtest.Reads(dsn)
	return sqldbtest.Connect(sqldbtest.Unsynced(dsn), func(call sqldbtest.Call, do func() error) error {
		switch {
		case call == sqldbtest.Prepare, call == sqldbtest.Savepoint && !reads:
			return do() // how many there are depends on caches
		case reads:
			return f.at("read", do)
		}
		return f.at("tx."+string(call), do)
	})
}

func fated[V any](f *Fate, point string, do func() (V, error)) (v V, err error) {
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

type fatedStaging struct {
	blob.Staging
	f *Fate
}

func (s fatedStaging) Create(ctx context.Context, ref blob.Ref) error {
	return s.f.at("staging.Create", func() error { return s.Staging.Create(ctx, ref) })
}

func (s fatedStaging) Write(ctx context.Context, ref blob.Ref, w blob.Write, body blob.Body) (blob.Part, error) {
	return fated(s.f, "staging.Write", func() (blob.Part, error) { return s.Staging.Write(ctx, ref, w, body) })
}

func (s fatedStaging) Extend(ctx context.Context, ref blob.Ref, e blob.Extend, body blob.Body) (blob.Part, error) {
	return fated(s.f, "staging.Extend", func() (blob.Part, error) { return s.Staging.Extend(ctx, ref, e, body) })
}

func (s fatedStaging) Withhold(ctx context.Context, ref blob.Ref, e blob.Extend, body blob.Body) (blob.Withheld, error) {
	var w blob.Withheld
	err := s.f.at("staging.Withhold", func() (err error) {
		w, err = s.Staging.Withhold(ctx, ref, e, body)
		return err
	})
	switch {
	case err == nil:
		return fatedWithheld{w, s.f}, nil
	case w != nil: // no fate loses an answer that is a value in memory
		w.Discard(ctx)
	}
	return nil, err
}

type fatedWithheld struct {
	blob.Withheld
	f *Fate
}

func (w fatedWithheld) Enter(ctx context.Context) error {
	called := false
	err := w.f.at("staging.Enter", func() error {
		called = true
		return w.Withheld.Enter(ctx)
	})
	if !called {
		w.Discard(ctx)
	}
	return err
}

func (s fatedStaging) Adopt(ctx context.Context, ref, from blob.Ref) (bool, error) {
	return fated(s.f, "staging.Adopt", func() (bool, error) { return s.Staging.Adopt(ctx, ref, from) })
}

func (s fatedStaging) OpenTail(ctx context.Context, ref blob.Ref, n int) (io.ReadCloser, error) {
	return fated(s.f, "staging.OpenTail", func() (io.ReadCloser, error) { return s.Staging.OpenTail(ctx, ref, n) })
}

func (s fatedStaging) Drop(ctx context.Context, ref blob.Ref, gen int64, n int) error {
	return s.f.at("staging.Drop", func() error { return s.Staging.Drop(ctx, ref, gen, n) })
}

func (s fatedStaging) Load(ctx context.Context, ref blob.Ref) (blob.Staged, error) {
	return fated(s.f, "staging.Load", func() (blob.Staged, error) { return s.Staging.Load(ctx, ref) })
}

func (s fatedStaging) Fence(ctx context.Context, ref blob.Ref, gen int64) (blob.Staged, error) {
	return fated(s.f, "staging.Fence", func() (blob.Staged, error) { return s.Staging.Fence(ctx, ref, gen) })
}

func (s fatedStaging) Remove(ctx context.Context, ref blob.Ref) error {
	return s.f.at("staging.Remove", func() error { return s.Staging.Remove(ctx, ref) })
}

func (s fatedStaging) Seal(ctx context.Context, ref blob.Ref, size drive.ByteSize) error {
	return s.f.at("staging.Seal", func() error { return s.Staging.Seal(ctx, ref, size) })
}

func (s fatedStaging) Unseal(ctx context.Context, ref blob.Ref) error {
	return s.f.at("staging.Unseal", func() error { return s.Staging.Unseal(ctx, ref) })
}

func (s fatedStaging) OpenStaged(ctx context.Context, ref blob.Ref) (blob.Object, error) {
	return fated(s.f, "staging.OpenStaged", func() (blob.Object, error) { return s.Staging.OpenStaged(ctx, ref) })
}

func (s fatedStaging) Verify(ctx context.Context, ref blob.Ref, gen int64) (blob.Staged, error) {
	return fated(s.f, "staging.Verify", func() (blob.Staged, error) { return s.Staging.Verify(ctx, ref, gen) })
}

type fatedStore struct {
	blob.Store
	f *Fate
}

// Caps has small contents laid also where a directory in memory would rather have them put.
func (s fatedStore) Caps() blob.StoreCaps {
	caps := s.Store.Caps()
	caps.Little = 32 * drive.KiB
	return caps
}

func (s fatedStore) Put(ctx context.Context, name string, body blob.Body) (blob.Part, error) {
	return fated(s.f, "store.Put", func() (blob.Part, error) { return s.Store.Put(ctx, name, body) })
}

func (s fatedStore) Lay(ctx context.Context, name string, body blob.Body, many bool) (blob.Part, error) {
	return fated(s.f, "store.Lay", func() (blob.Part, error) { return s.Store.Lay(ctx, name, body, many) })
}

func (s fatedStore) Settle(ctx context.Context, names []string) error {
	return s.f.at("store.Settle", func() error { return s.Store.Settle(ctx, names) })
}

func (s fatedStore) Open(ctx context.Context, name string) (blob.Object, error) {
	return fated(s.f, "store.Open", func() (blob.Object, error) { return s.Store.Open(ctx, name) })
}

func (s fatedStore) Remove(ctx context.Context, name string) error {
	return s.f.at("store.Remove", func() error { return s.Store.Remove(ctx, name) })
}

func (s fatedStore) RemoveAll(ctx context.Context, names []string) ([]string, error) {
	return blob.RemoveEach(ctx, names, s.Remove)
}

func (s fatedStore) Reclaim(ctx context.Context, names []string) ([]string, error) {
	return s.RemoveAll(ctx, names)
}

type fatedTimers struct {
	upload.Timers
	f *Fate
}

func (t fatedTimers) Arm(ctx context.Context, entries ...timer.Entry) error {
	return t.f.at("timers.Arm", func() error { return t.Timers.Arm(ctx, entries...) })
}

func (t fatedTimers) Cancel(ctx context.Context, key timer.Key, gen int64) error {
	return t.f.at("timers.Cancel", func() error { return t.Timers.Cancel(ctx, key, gen) })
}
