package app

import (
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// spareConnections are left to people, backups and whoever watches the server.
const spareConnections = 5

// checkConnections refuses a start with which the instances could want more connections than the
// database's server has: none of them would notice until all are busy, and then any of them is
// refused in the middle of its work. Those that were here first stay; one that is about to leave is
// waited for.
func (g *ground) checkConnections(ctx context.Context) error {
	allowed, err := g.db.MaxConnections(ctx)
	if err != nil || allowed == 0 {
		return err
	}
	alive, err := g.member.Alive(ctx)
	if err != nil {
		return err
	}
	instances := 1
	for _, in := range alive {
		if in.Generation < g.Generation {
			instances++
		}
	}
	each := sqldb.Budget(g.cfg.MySQL.Connections)
	if instances*each+spareConnections <= allowed {
		return nil
	}
	err = fmt.Errorf("%d instances with up to %d connections each, and %d to spare, are more than the %d that the server allows: raise its "+
		"max_connections, or set connections=N in --db (an instance takes N and half as many)", instances, each, spareConnections, allowed)
	if instances > 1 {
		err = drive.Wrap(err, drive.Unavailable)
	}
	return err
}
