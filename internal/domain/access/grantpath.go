package access

import (
	"context"
	"fmt"
	"sync"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// grantPath holds a node's account and the user's grants at the node and above it.
type grantPath struct {
	isOwn   bool // the node is in the user's own account; steps were not read
	account drive.AccountID
	parent  drive.NodeID  // of the node; zero: the node is a root
	space   string        // name of the node's space; empty: a personal account
	state   State         // of the space
	links   SharingPolicy // who may create links; empty: not in a space
	outward SharingPolicy
	trashed bool        // the node, or a folder above it, is trashed
	steps   []grantStep // ordered by level, the node first
}

// findPath returns the user's grants at a node and above it. It uses cached grants above the node's
// folder if they are valid: then it costs one small statement regardless of depth. In a transaction
// it reads everything, because the transaction may have changed grants. It fails with NotFound as
// readPath does.
func (a *Access) findPath(ctx context.Context, q sqldb.Querier, who drive.Who, node drive.NodeID) (grantPath, error) {
	stamp, known := a.Stamp() // taken before the query, so that concurrent changes invalidate the entry
	if _, writes := q.(*sqldb.Tx); writes || !known {
		return a.readPath(ctx, q, who, node, maxLevels)
	}
	path, err := a.readPath(ctx, q, who, node, 0)
	if err != nil || path.isOwn || path.parent.IsZero() {
		return path, err
	}
	key := pathKey{who.User, path.parent}
	above, ok := a.paths.get(stamp, key)
	if ok {
		path.steps = append(path.steps, above...)
		return path, nil
	}
	// A path through the trash is not cached, because restoring a folder does not end the epoch.
	if path, err = a.readPath(ctx, q, who, node, maxLevels); err == nil && path.parent == key.folder && !path.trashed {
		a.paths.put(stamp, key, path.steps)
	}
	return path, err
}

// mineCTE is a common table expression with a user's principals; both parameters are the user. The
// id is read from users, so that it has the column type that MySQL needs to use an index.
const mineCTE = `mine (id, nth) AS (
			SELECT id, 0 FROM users WHERE id = ? UNION ALL SELECT group_id, 1 FROM group_members WHERE user_id = ?)`

// ableQuery selects, in a statement with mineCTE, the user's principals that have a grant anywhere
// in the account of a node, its parameter. It costs the same if the node does not exist, so that
// missing and hidden nodes take the same time (A2).
const ableQuery = `SELECT mine.id, mine.nth FROM mine WHERE EXISTS (
			SELECT 1 FROM grants g WHERE g.principal_id = mine.id AND g.account_id = COALESCE((SELECT account_id FROM nodes WHERE id = ?), ''))`

// readPath reads the user's grants at a node and up to most levels above it. It fails with NotFound
// if the node does not exist or the user has no grant in its account. For the user's own node it
// reads no grants; a guest has no own account.
func (a *Access) readPath(ctx context.Context, q sqldb.Querier, who drive.Who, node drive.NodeID, most int) (grantPath, error) {
	home := who.Account
	if who.Guest {
		home = drive.AccountID{}
	}
	rows, err := q.Query(ctx, `WITH RECURSIVE `+mineCTE+`,
		able (id, nth) AS (`+ableQuery+`),
		up (id, parent_id, account_id, trashed, level) AS (
			SELECT n.id, n.parent_id, n.account_id, n.trashed_at > 0, 0 FROM (SELECT EXISTS (SELECT 1 FROM able) AS able) k CROSS JOIN nodes n
			WHERE n.id = ? AND (k.able OR n.account_id = ?)
			UNION ALL
			SELECT n.id, n.parent_id, n.account_id, n.trashed_at > 0, up.level + 1
			FROM up JOIN nodes n ON n.id = up.parent_id WHERE up.account_id <> ? AND up.level < ?)
		SELECT up.account_id, up.parent_id, up.id, up.level, up.trashed, up.parent_id IS NULL, COALESCE(g.role, ''), COALESCE(g.expires_at, 0),
			COALESCE(s.name, ''), COALESCE(s.state, ''), COALESCE(s.links, ''), COALESCE(s.outward, '')
		FROM up LEFT JOIN able ON 1 = 1 LEFT JOIN grants g ON g.node_id = up.id AND g.principal_id = able.id
		LEFT JOIN spaces s ON s.account_id = up.account_id
		WHERE g.role IS NOT NULL OR up.level = 0 OR up.trashed ORDER BY up.level`,
		who.User.String(), who.User.String(), node, node, home.String(), home.String(), most)
	var path grantPath
	there := false
	all, err := sqldb.Scan(rows, err, func(s *grantStep, scan func(...any) error) error {
		var parent drive.NodeID
		var trashed bool
		err := scan(&path.account, &parent, &s.node, &s.level, &trashed, &s.atRoot, &s.role, &s.expires, &path.space, &path.state, &path.links, &path.outward)
		if s.level == 0 {
			path.parent = parent
		}
		path.trashed = path.trashed || trashed
		there = true
		return err
	})
	switch {
	case err != nil:
		return grantPath{}, fmt.Errorf("look who may see node %v: %w", node, err)
	case !there:
		return grantPath{}, drive.Fail(drive.NotFound)
	}
	path.isOwn = !who.Guest && path.account == who.Account
	for _, s := range all {
		s.atRoot = s.atRoot && path.space != "" // a personal account has no managers
		if s.role != "" {
			path.steps = append(path.steps, s)
		}
	}
	return path, nil
}

// pathCache caches the grants of users at folders and above them, for one epoch. It never caches
// which folder a node is in, because moving a file does not end the epoch.
type pathCache struct {
	mu      sync.Mutex
	stamp   EpochStamp
	entries map[pathKey][]grantStep // levels count from the folder's children
}

// pathKey identifies the grants of a user at a folder and above it.
type pathKey struct {
	user   drive.UserID
	folder drive.NodeID
}

// maxCachedPaths bounds the cached paths, some 200 bytes each.
const maxCachedPaths = 20_000

// get returns the cached grants of a key; false if there are none, or if the cache is of another
// epoch than now. The caller must not change the slice.
func (c *pathCache) get(now EpochStamp, key pathKey) ([]grantStep, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stamp != now {
		return nil, false
	}
	steps, ok := c.entries[key]
	return steps, ok
}

// put caches the grants above a node in the folder key. A full cache is cleared first.
func (c *pathCache) put(now EpochStamp, key pathKey, steps []grantStep) {
	var above []grantStep
	for _, s := range steps {
		if s.level > 0 {
			above = append(above, s)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stamp != now || c.entries == nil || len(c.entries) >= maxCachedPaths {
		c.stamp, c.entries = now, map[pathKey][]grantStep{}
	}
	c.entries[key] = above
}
