package sqldbtest

import (
	"database/sql/driver"
	"sync"

	"example.org/smartdrive/internal/base/drive"
)

// ErrFault is the default error of an injected fault: the database is unreachable.
var ErrFault error = drive.Fail(drive.Unavailable, "reason", "fault")

// Faults makes calls to the database fail by rules. Set its Connector in sqldb.Options. It counts
// all calls, failed ones included. The zero value has no rules; it is safe for concurrent use.
type Faults struct {
	Counter
	mu    sync.Mutex
	rules []*rule
}

// rule makes one or more calls to the database engine fail.
type rule struct {
	call  Call  // empty: any
	n     int   // matching calls until the fault, inclusive; 0 = done
	every bool  // stays active after the n-th call
	lost  bool  // the call is made, but its reply is lost
	err   error // returned instead of the result
}

// Fail makes the n-th call of a kind from now on fail with err (nil: ErrFault) without reaching the
// engine. An empty kind means any call.
func (f *Faults) Fail(call Call, n int, err error) { f.add(rule{call: call, n: n, err: err}) }

// FailAll makes all calls of a kind fail with err (nil: ErrFault) until Clear.
func (f *Faults) FailAll(call Call, err error) { f.add(rule{call: call, n: 1, every: true, err: err}) }

// LoseReply lets the n-th call of a kind succeed in the engine but returns err (nil: ErrFault).
func (f *Faults) LoseReply(call Call, n int, err error) {
	f.add(rule{call: call, n: n, lost: true, err: err})
}

// Clear removes all rules and returns the number of those that were still pending.
func (f *Faults) Clear() (left int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules {
		if r.n > 0 {
			left++
		}
	}
	f.rules = nil
	return left
}

// add adds a rule.
func (f *Faults) add(r rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.err == nil {
		r.err = ErrFault
	}
	f.rules = append(f.rules, &r)
}

// Connector returns a connector whose calls are counted and subject to the rules of f, for
// sqldb.Options: a rule fails a call without executing it, or after it if the reply is lost.
func (f *Faults) Connector(dsn string) (driver.Connector, error) {
	return Connect(dsn, func(call Call, do func() error) error {
		f.Counter.add(call)
		r := f.find(call)
		switch {
		case r == nil:
			return do()
		case r.lost:
			if err := do(); err != nil {
				return err
			}
		}
		return r.err
	})
}

// find returns the oldest rule that applies to a call and counts the call in all rules.
func (f *Faults) find(call Call) (due *rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules {
		if r.n == 0 || r.call != "" && r.call != call {
			continue
		}
		if r.n > 1 {
			r.n--
			continue
		}
		if due == nil {
			due = r
			if !r.every {
				r.n = 0
			}
		}
	}
	return due
}
