package sqldb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
)

// Warm opens half of the allowed connections, so that a burst of requests does not wait for
// connections. internal/move/migrate calls it before it moves all requests to the new database.
func (db *DB) Warm(ctx context.Context) error {
	err := warm(ctx, db.reads)
	if p, ok := db.writer.(*pool); ok {
		err = errors.Join(err, warm(ctx, p.db))
	}
	if err != nil {
		return fmt.Errorf("open connections: %w", classify(err))
	}
	return nil
}

// warm opens half of the pool's connections at the same time and returns them to the pool, so that
// the first requests need not wait for connections. It holds each until all are open, because a
// released one would be reused. It joins the errors of those that failed.
func warm(ctx context.Context, db *sql.DB) error {
	conns := make([]*sql.Conn, max(1, db.Stats().MaxOpenConnections/2))
	errs := make([]error, len(conns))
	var all sync.WaitGroup
	for i := range conns {
		all.Go(func() { conns[i], errs[i] = db.Conn(ctx) })
	}
	all.Wait()
	for i, c := range conns {
		if c != nil {
			errs[i] = errors.Join(errs[i], c.Close())
		}
	}
	return errors.Join(errs...)
}
