package app

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// reservedConnections are left to administrators, backups and monitoring.
const reservedConnections = 5

// checkConnections fails if the instances together could need more connections than the database
// server allows. Otherwise instances would fail at peak load. Only instances that started earlier
// count. The error is Unavailable, so the start retries, if fewer instances would fit.
func (p *platform) checkConnections(ctx context.Context) error {
	allowed, err := p.db.MaxConnections(ctx)
	if err != nil || allowed == 0 {
		return err
	}
	alive, err := p.member.Alive(ctx)
	if err != nil {
		return err
	}
	instances := 1
	for _, in := range alive {
		if in.Generation < p.Generation {
			instances++
		}
	}
	each := sqldb.MaxServerConnections(p.cfg.MySQL.Connections)
	if instances*each+reservedConnections <= allowed {
		return nil
	}
	err = fmt.Errorf("%d instances with up to %d connections each, and %d to spare, are more than the %d that the server allows: raise its "+
		"max_connections, or set connections=N in --db (an instance takes N and half as many)", instances, each, reservedConnections, allowed)
	if instances > 1 {
		err = drive.Wrap(err, drive.Unavailable)
	}
	return err
}
