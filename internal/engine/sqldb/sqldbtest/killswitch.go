package sqldbtest

import (
	"database/sql/driver"
	"errors"
	"sync/atomic"
)

// ErrKilled is the error of every call after a KillSwitch is cut.
var ErrKilled = errors.New("the process was killed")

// KillSwitch simulates the death of a process. After the cut every call fails without reaching the
// database. The call at the cut reaches it if Lost is set.
type KillSwitch struct {
	Lost bool         // the call at the cut reaches the engine, and its reply is lost
	Made atomic.Int64 // calls so far
	left atomic.Int64 // calls until the cut
}

// NewKillSwitch returns a KillSwitch that is cut at the given call; 0: never.
func NewKillSwitch(calls int64, lost bool) *KillSwitch {
	l := &KillSwitch{Lost: lost}
	l.CutAt(calls)
	return l
}

// CutAt makes the given call, counted from now and from 1, the one that is cut off; 0 means none.
func (l *KillSwitch) CutAt(calls int64) {
	if calls == 0 {
		calls = 1 << 40
	}
	l.left.Store(calls)
}

// Cut reports whether the KillSwitch is cut.
func (l *KillSwitch) Cut() bool { return l.left.Load() <= 0 }

// Connector opens a data source with the KillSwitch; set it in sqldb.Options.
func (l *KillSwitch) Connector(dsn string) (driver.Connector, error) {
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
