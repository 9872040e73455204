package sqldbtest

import (
	"context"
	"sync/atomic"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Gate intercepts write transactions at their start, so that a test can run a competitor between
// the earlier reads of a request and its transaction.
type Gate struct {
	db      *sqldb.DB
	meet    atomic.Pointer[func()]
	skip    atomic.Int64
	arrived atomic.Int64
}

// NewGate installs an open gate on the database.
func NewGate(db *sqldb.DB) *Gate {
	g := &Gate{db: db.Direct()}
	db.Route(g)
	return g
}

// Intercept runs competitor once, at the start of the next transaction after skip others.
// Transactions of the competitor are not intercepted.
func (g *Gate) Intercept(skip int, competitor func()) {
	g.arrived.Store(0)
	g.skip.Store(int64(skip))
	g.meet.Store(&competitor)
}

// Open removes the competitor. It returns the number of transactions since Intercept, and whether
// the competitor has run.
func (g *Gate) Open() (arrived int, met bool) {
	return int(g.arrived.Load()), g.meet.Swap(nil) == nil
}

// Write runs the transaction (sqldb.Router). If a competitor is registered and as many writes as
// asked have passed, it first runs the competitor, once.
func (g *Gate) Write(ctx context.Context, fn func(context.Context, *sqldb.Tx) error) error {
	if g.meet.Load() != nil {
		if g.arrived.Add(1) > g.skip.Load() {
			if competitor := g.meet.Swap(nil); competitor != nil {
				(*competitor)()
			}
		}
	}
	return g.db.Write(ctx, fn)
}

// Primary returns the database behind the gate (sqldb.Router).
func (g *Gate) Primary() *sqldb.DB { return g.db }

// Reader returns the database behind the gate for every read (sqldb.Router).
func (g *Gate) Reader(context.Context, drive.AccountID) (from, again *sqldb.DB, err error) {
	return g.db, nil, nil
}

// OnRead ignores the notification of a read (sqldb.Router).
func (g *Gate) OnRead(context.Context, *sqldb.DB, string, []any, error) {}
