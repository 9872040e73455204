package sqldb

import (
	"context"
	"fmt"
)

// defaultConnections is the default of Options.Connections.
const defaultConnections = 32

// MaxServerConnections returns the greatest number of server connections of a DB opened with
// Options.Connections = connections.
func MaxServerConnections(connections int) int {
	if connections == 0 {
		connections = defaultConnections
	}
	return connections + readers(connections)
}

// readers returns the number of connections for reads outside transactions.
func readers(connections int) int { return max(1, connections/2) }

// MaxConnections returns the server's limit on connections for this user, over all its clients; 0:
// no limit.
func (db *DB) MaxConnections(ctx context.Context) (n int, err error) {
	if db.Dialect() == SQLite {
		return 0, nil
	}
	var ofUser int
	if err := db.QueryRow(ctx, "SELECT @@max_connections, @@max_user_connections").Scan(&n, &ofUser); err != nil {
		return 0, fmt.Errorf("ask how many connections the server allows: %w", err)
	}
	if ofUser > 0 {
		n = min(n, ofUser)
	}
	return n, nil
}
