package sqldbtest

import (
	"database/sql/driver"
	"sync"

	"smartdrive/internal/base/drive"
)

// ErrFault is what a call fails with by default: the database cannot be reached.
var ErrFault error = drive.Fail(drive.Unavailable, "reason", "fault")

// Faults makes calls to the database fail. The zero value lets everything pass; give its Connector
// to sqldb.Options. It counts as a Counter does, calls that fail included. It is safe for
// concurrent use.
type Faults struct {
	Counter
	mu    sync.Mutex
	rules []*rule
}

type rule struct {
	call  Call // empty: any
	n     int  // which call, counted down
	every bool // all calls from the n-th on
	lost  bool // the call is made, its reply is lost
	err   error
}

// Fail makes the n-th call of a kind from now on fail with err (nil: ErrFault), without reaching
// the engine. An empty kind means any call.
func (f *Faults) Fail(call Call, n int, err error) { f.add(rule{call: call, n: n, err: err}) }

// FailAll makes all calls of a kind fail until Clear.
func (f *Faults) FailAll(call Call, err error) { f.add(rule{call: call, n: 1, every: true, err: err}) }

// LoseReply makes the n-th call of a kind reach the engine and succeed, but report err.
func (f *Faults) LoseReply(call Call, n int, err error) {
	f.add(rule{call: call, n: n, lost: true, err: err})
}

// Clear takes all rules back, and says how many had not come true.
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

func (f *Faults) add(r rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.err == nil {
		r.err = ErrFault
	}
	f.rules = append(f.rules, &r)
}

// Connector opens a data source with faults.
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

// find returns the oldest rule that is due now.
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
