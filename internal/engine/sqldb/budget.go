package sqldb

import (
	"context"
	"fmt"
)

// defaultConnections is Options.Connections of who does not say.
const defaultConnections = 32

// Budget is how many connections to a server a DB takes at most that was opened with so many; 0:
// the default.
func Budget(connections int) int {
	if connections == 0 {
		connections = defaultConnections
	}
	return connections + readers(connections)
}

// readers is how many connections there are for reading beside those for transactions.
func readers(connections int) int { return max(1, connections/2) }

// MaxConnections is how many connections the server allows this user, all of its clients together;
// 0: there is no bound.
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
