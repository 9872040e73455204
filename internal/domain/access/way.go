package access

import (
	"context"
	"fmt"
	"sync"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// way is what the database says of a node and of the user's grants there and above it.
type way struct {
	own     bool // the node is in the user's own account, and no step was looked for
	account drive.AccountID
	parent  drive.NodeID // of the node; zero: it is a root
	space   string       // the name of the space whose node it is
	state   State
	links   Givers // who may give out links; empty: it is in nobody's space
	outward Givers
	trashed bool // the node, or a folder above it, is in the trash
	steps   []step
}

// way is climb, by what is known of the folder around the node as far as that still holds: then one
// small statement, however deep the node is. A transaction sees what it has written, and asks for
// all.
func (a *Access) way(ctx context.Context, q sqldb.Querier, who drive.Who, node drive.NodeID) (way, error) {
	stamp, known := a.Stamp() // before the question: what changes meanwhile is asked for again
	if _, writes := q.(*sqldb.Tx); writes || !known {
		return a.climb(ctx, q, who, node, maxClimb)
	}
	w, err := a.climb(ctx, q, who, node, 0)
	if err != nil || w.own || w.parent.IsZero() {
		return w, err
	}
	key := wayKey{who.User, w.parent}
	above, ok := a.kept.find(stamp, key)
	if ok {
		w.steps = append(w.steps, above...)
		return w, nil
	}
	// A way that leads through the trash is not kept: a restored folder needs no end of the epoch.
	if w, err = a.climb(ctx, q, who, node, maxClimb); err == nil && w.parent == key.folder && !w.trashed {
		a.kept.keep(stamp, key, w.steps)
	}
	return w, err
}

// mine is, within a statement, the principals of a user, who is its two parameters. The user's id
// is read, so that it has the type of the column that it is compared with: MySQL takes no index
// otherwise.
const mine = `mine (id, nth) AS (
			SELECT id, 0 FROM users WHERE id = ? UNION ALL SELECT group_id, 1 FROM group_members WHERE user_id = ?)`

// ableAt is, within a statement that has mine, those principals that have a grant anywhere in the
// account of a node, which is its parameter. It costs the same where there is no such node: what is
// not there and what is not one's own take the same time (A2).
const ableAt = `SELECT mine.id, mine.nth FROM mine WHERE EXISTS (
			SELECT 1 FROM grants g WHERE g.principal_id = mine.id AND g.account_id = COALESCE((SELECT account_id FROM nodes WHERE id = ?), ''))`

// climb goes up from a node that is not the user's own, and reads the user's grants on the way. A
// node that is not there is NotFound. An account without a user has its nodes, too. Of a guest, who
// has entered an account before, that account is not the own one. It goes most levels up.
func (a *Access) climb(ctx context.Context, q sqldb.Querier, who drive.Who, node drive.NodeID, most int) (way, error) {
	home := who.Account
	if who.Guest {
		home = drive.AccountID{}
	}
	rows, err := q.Query(ctx, `WITH RECURSIVE `+mine+`,
		able (id, nth) AS (`+ableAt+`),
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
	var w way
	there := false
	all, err := sqldb.Scan(rows, err, func(s *step, scan func(...any) error) error {
		var parent drive.NodeID
		var trashed bool
		err := scan(&w.account, &parent, &s.node, &s.level, &trashed, &s.root, &s.role, &s.expires, &w.space, &w.state, &w.links, &w.outward)
		if s.level == 0 {
			w.parent = parent
		}
		w.trashed = w.trashed || trashed
		there = true
		return err
	})
	switch {
	case err != nil:
		return way{}, fmt.Errorf("look who may see node %v: %w", node, err)
	case !there:
		return way{}, drive.Fail(drive.NotFound)
	}
	w.own = !who.Guest && w.account == who.Account
	for _, s := range all {
		s.root = s.root && w.space != "" // the root of a personal account has no managers
		if s.role != "" {
			w.steps = append(w.steps, s)
		}
	}
	return w, nil
}

// ways are the grants of users at folders and above them, as they were in one epoch. What is in the
// folder itself, and so which folder a node is in, is never kept: files move without an end of the
// epoch.
type ways struct {
	mu    sync.Mutex
	epoch Stamp
	kept  map[wayKey][]step // the levels are those of the folder's children
}

type wayKey struct {
	user   drive.UserID
	folder drive.NodeID
}

// maxWays bounds the memory for ways, of some 200 bytes each.
const maxWays = 20_000

func (w *ways) find(now Stamp, key wayKey) ([]step, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.epoch != now {
		return nil, false
	}
	steps, ok := w.kept[key]
	return steps, ok
}

// keep remembers the steps above a node that is in a folder. When there are too many ways all are
// forgotten: they come back one by one.
func (w *ways) keep(now Stamp, key wayKey, steps []step) {
	var above []step
	for _, s := range steps {
		if s.level > 0 {
			above = append(above, s)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.epoch != now || w.kept == nil || len(w.kept) >= maxWays {
		w.epoch, w.kept = now, map[wayKey][]step{}
	}
	w.kept[key] = above
}
