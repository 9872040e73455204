package sqldbtest

import (
	"database/sql/driver"
	"errors"
	"sync/atomic"
)

// ErrKilled is what every call of a process gets whose Lifeline is cut.
var ErrKilled = errors.New("the process was killed")

// Lifeline is the connection of a process to its database. Once it is cut every call fails, and
// nothing of the process comes through; the call that it is cut at may have reached the engine or
// not.
type Lifeline struct {
	Lost bool         // the last call reaches the engine
	Made atomic.Int64 // calls
	left atomic.Int64 // calls until it is cut; counts down
}

// NewLifeline returns one that is cut at a call; 0: never.
func NewLifeline(calls int64, lost bool) *Lifeline {
	l := &Lifeline{Lost: lost}
	l.CutAt(calls)
	return l
}

// CutAt cuts it at the calls-th call from now; 0: never.
func (l *Lifeline) CutAt(calls int64) {
	if calls == 0 {
		calls = 1 << 40
	}
	l.left.Store(calls)
}

// Cut reports whether it is.
func (l *Lifeline) Cut() bool { return l.left.Load() <= 0 }

// Connector is for sqldb.Options.
func (l *Lifeline) Connector(dsn string) (driver.Connector, error) {
	return Connect(dsn, func(_ Call, do func() error) error {
		l.Made.Add(1)
		switch left := l.left.Add(-1); {
		case left > 0:
			return do()
		case left == 0:
			var err error
			if l.Lost {
				err = do()
			}
			return errors.Join(ErrKilled, err)
		}
		return ErrKilled
	})
}
