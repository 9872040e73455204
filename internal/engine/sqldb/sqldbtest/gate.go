package sqldbtest

import (
	"context"
	"sync/atomic"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Gate holds write transactions at their start, so that a competitor acts after all that a request
// has read before its transaction, and before the transaction itself.
type Gate struct {
	db      *sqldb.DB
	meet    atomic.Pointer[func()]
	skip    atomic.Int64
	arrived atomic.Int64
}

// NewGate puts a gate before the transactions of a database; it is open.
func NewGate(db *sqldb.DB) *Gate {
	g := &Gate{db: db.Direct()}
	db.Route(g)
	return g
}

// Meet runs competitor, once, when the next transaction but skip is about to begin. Transactions of
// the competitor pass.
func (g *Gate) Meet(skip int, competitor func()) {
	g.arrived.Store(0)
	g.skip.Store(int64(skip))
	g.meet.Store(&competitor)
}

// Open lets everything pass, and reports how many transactions came to the gate and whether the
// competitor has run.
func (g *Gate) Open() (arrived int, met bool) {
	return int(g.arrived.Load()), g.meet.Swap(nil) == nil
}

// Write is sqldb.Router's.
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

// Primary is sqldb.Router's.
func (g *Gate) Primary() *sqldb.DB { return g.db }

// Reader is sqldb.Router's.
func (g *Gate) Reader(context.Context, drive.AccountID) (from, again *sqldb.DB, err error) {
	return g.db, nil, nil
}

// Read is sqldb.Router's.
func (g *Gate) Read(context.Context, *sqldb.DB, string, []any, error) {}
