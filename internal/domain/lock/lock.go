// Package lock keeps the locks that clients of WebDAV take on files and folders (RFC 4918 §6), in
// the database: they hold for all instances, and for every head.
//
// # Rules
//
// A lock belongs to a user. It keeps others from giving the node another content, from moving it
// and from taking it away, whichever head they come by: Check and Leave, which package tree asks in
// the transaction that does it. A deep lock on a folder holds for what is below, too. What the
// owner's own programs may do to one another is WebDAV's to say, by tokens: package dav.
//
// A lock has ended when its time is over, whether or not its row is still there; Purge only makes
// room. It is on the node and not on its address, and goes with what is moved or trashed (RFC 4918
// §7.5, §7.6): Leave.
//
// The package owns the table dav_locks. It reads nodes and users.
package lock

import (
	"context"
	"fmt"
	"slices"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Lock is a lock that holds.
type Lock struct {
	ID        drive.LockID
	Node      drive.NodeID
	Account   drive.AccountID // that of the node
	User      drive.UserID
	Exclusive bool
	Deep      bool
	Made      bool   // the node is a file that the lock has made
	Owner     string // what the client says of itself: XML
	Lasts     time.Duration
	Expires   drive.Time

	By string // the user's name, as it is now; written by nobody
}

const (
	maxOfAccount = 5000
	// maxClimb bounds the way up to the root, as in package tree.
	maxClimb = 4096
	// manyAtOnce is how many nodes one statement asks for: SQLite takes 32,766 parameters.
	manyAtOnce = 500
)

const columns = "l.id, l.node_id, l.account_id, l.user_id, l.scope = 'exclusive', l.deep, l.made, l.owner, l.lasts, l.expires_at, COALESCE(u.name, '')"

func scan(l *Lock, scan func(...any) error) error {
	var lasts int64
	err := scan(&l.ID, &l.Node, &l.Account, &l.User, &l.Exclusive, &l.Deep, &l.Made, &l.Owner, &lasts, &l.Expires, &l.By)
	l.Lasts = time.Duration(lasts) * time.Millisecond
	return err
}

// up is, within a statement, a node and the folders above it.
const up = `WITH RECURSIVE up (id, parent_id, level) AS (
			SELECT id, parent_id, 0 FROM nodes WHERE id = ?
			UNION ALL
			SELECT n.id, n.parent_id, up.level + 1 FROM up JOIN nodes n ON n.id = up.parent_id WHERE up.level < ?) `

// At lists the locks that hold at a node: its own, and the deep ones above it.
func At(ctx context.Context, q sqldb.Querier, now drive.Time, node drive.NodeID) ([]Lock, error) {
	rows, err := q.Query(ctx, up+`SELECT `+columns+` FROM up CROSS JOIN dav_locks l ON l.node_id = up.id LEFT JOIN users u ON u.id = l.user_id
		WHERE l.expires_at > ? AND (up.level = 0 OR l.deep = 1) ORDER BY up.level, l.id`, node, maxClimb, now)
	all, err := sqldb.Scan(rows, err, scan)
	if err != nil {
		return nil, fmt.Errorf("list the locks at node %v: %w", node, err)
	}
	return all, nil
}

// On lists the locks on nodes, without those that hold there from above. A statement for
// every 500.
func On(ctx context.Context, q sqldb.Querier, now drive.Time, nodes []drive.NodeID) (all []Lock, err error) {
	for some := range slices.Chunk(nodes, manyAtOnce) {
		args := make([]any, 0, len(some)+1)
		for _, id := range some {
			args = append(args, id)
		}
		rows, err := q.Query(ctx, `SELECT `+columns+` FROM dav_locks l LEFT JOIN users u ON u.id = l.user_id
		WHERE l.node_id IN (`+sqldb.Marks(len(some))+`) AND l.expires_at > ? ORDER BY l.id`, append(args, now)...)
		locks, err := sqldb.Scan(rows, err, scan)
		if err != nil {
			return nil, fmt.Errorf("list the locks on %d nodes: %w", len(nodes), err)
		}
		all = append(all, locks...)
	}
	return all, nil
}

// Below lists the locks on nodes below a folder, itself excepted. It is asked of an account that
// has locks: it goes up from each of them.
func Below(ctx context.Context, q sqldb.Querier, now drive.Time, account drive.AccountID, folder drive.NodeID) ([]Lock, error) {
	rows, err := q.Query(ctx, `WITH RECURSIVE up (lock_id, id, parent_id, level) AS (
			SELECT l.id, n.id, n.parent_id, 0 FROM dav_locks l JOIN nodes n ON n.id = l.node_id WHERE l.account_id = ? AND l.expires_at > ?
			UNION ALL
			SELECT up.lock_id, n.id, n.parent_id, up.level + 1 FROM up JOIN nodes n ON n.id = up.parent_id WHERE up.level < ?)
		SELECT `+columns+` FROM up JOIN dav_locks l ON l.id = up.lock_id LEFT JOIN users u ON u.id = l.user_id
		WHERE up.id = ? AND up.level > 0 ORDER BY l.id`, account, now, maxClimb, folder)
	all, err := sqldb.Scan(rows, err, scan)
	if err != nil {
		return nil, fmt.Errorf("list the locks below node %v: %w", folder, err)
	}
	return all, nil
}

// Any reports whether an account has locks. One look at an index, before all that costs more.
func Any(ctx context.Context, q sqldb.Querier, now drive.Time, account drive.AccountID) (bool, error) {
	var any bool
	err := q.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM dav_locks WHERE account_id = ? AND expires_at > ?)`, account, now).Scan(&any)
	if err != nil {
		return false, fmt.Errorf("look for locks of account %v: %w", account, err)
	}
	return any, nil
}

// Check is Locked {by, until} when somebody else has locked a node, or, with below, something in
// it.
func Check(ctx context.Context, q sqldb.Querier, now drive.Time, account drive.AccountID, node drive.NodeID, by drive.UserID, below bool) error {
	any, err := Any(ctx, q, now, account)
	if err != nil || !any {
		return err
	}
	all, err := At(ctx, q, now, node)
	if err == nil && below {
		var more []Lock
		more, err = Below(ctx, q, now, account, node)
		all = append(all, more...)
	}
	if err != nil {
		return err
	}
	for _, l := range all {
		if l.User != by {
			return l.Refusal()
		}
	}
	return nil
}

// Refusal is the error for whoever the lock keeps out.
func (l Lock) Refusal() *drive.Error {
	if l.By == "" {
		return drive.Fail(drive.Locked, "until", l.Expires)
	}
	return drive.Fail(drive.Locked, "by", l.By, "until", l.Expires)
}

// Take makes a lock. The caller has the lock on the account's ledger, so that two do not take one
// at once. Locked: another one is in the way (RFC 4918 §6.2): at the node, deep above it, or below
// where this one is deep. TooManyOpen: the account has as many as it may have.
func Take(ctx context.Context, tx *sqldb.Tx, now drive.Time, l Lock) (Lock, error) {
	there, err := At(ctx, tx, now, l.Node)
	if err == nil && l.Deep {
		var below []Lock
		below, err = Below(ctx, tx, now, l.Account, l.Node)
		there = append(there, below...)
	}
	if err != nil {
		return Lock{}, err
	}
	for _, other := range there {
		if l.Exclusive || other.Exclusive {
			return Lock{}, other.Refusal()
		}
	}
	var n int
	if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM dav_locks WHERE account_id = ?`, l.Account).Scan(&n); err != nil {
		return Lock{}, fmt.Errorf("count the locks of account %v: %w", l.Account, err)
	}
	if n >= maxOfAccount {
		return Lock{}, drive.Fail(drive.TooManyOpen, "reason", "locks", "limit", maxOfAccount, "sent", n+1)
	}
	l.ID, l.Expires = drive.NewID[drive.LockID](), now.Add(l.Lasts)
	scope := "shared"
	if l.Exclusive {
		scope = "exclusive"
	}
	_, err = tx.Exec(ctx, `INSERT INTO dav_locks (id, node_id, account_id, user_id, scope, deep, made, owner, lasts, created_at, expires_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, l.ID, l.Node, l.Account, l.User, scope, l.Deep, l.Made, l.Owner, l.Lasts.Milliseconds(), now, l.Expires)
	if err != nil {
		return Lock{}, fmt.Errorf("lock node %v: %w", l.Node, err)
	}
	return l, nil
}

// Refresh lets a lock of the user last from now on. NotFound: it is not there any more, or not
// theirs.
func Refresh(ctx context.Context, tx *sqldb.Tx, now drive.Time, id drive.LockID, user drive.UserID, lasts time.Duration) error {
	n, err := tx.Exec(ctx, `UPDATE dav_locks SET lasts = ?, expires_at = ? WHERE id = ? AND user_id = ? AND expires_at > ?`,
		lasts.Milliseconds(), now.Add(lasts), id, user, now)
	if err == nil && n == 0 {
		return drive.Fail(drive.NotFound)
	}
	if err != nil {
		return fmt.Errorf("refresh lock %v: %w", id, err)
	}
	return nil
}

// Release ends locks.
func Release(ctx context.Context, tx *sqldb.Tx, ids ...drive.LockID) error {
	if len(ids) == 0 {
		return nil
	}
	marks, args := sqldb.In(ids)
	if _, err := tx.Exec(ctx, "DELETE FROM dav_locks WHERE id IN ("+marks+")", args...); err != nil {
		return fmt.Errorf("release %d locks: %w", len(ids), err)
	}
	return nil
}

// Leave ends the locks on a node that goes away, and those below it (RFC 4918 §7.6). Locked {by,
// until}: somebody else than by has one of them, or a deep one above; by zero, which is the program
// itself, is never refused.
func Leave(ctx context.Context, tx *sqldb.Tx, now drive.Time, account drive.AccountID, node drive.NodeID, by drive.UserID) error {
	any, err := Any(ctx, tx, now, account)
	if err != nil || !any {
		return err
	}
	all, err := At(ctx, tx, now, node)
	if err != nil {
		return err
	}
	below, err := Below(ctx, tx, now, account, node)
	if err != nil {
		return err
	}
	above := map[drive.NodeID]bool{}
	for _, l := range all {
		above[l.Node] = l.Node != node
	}
	var ids []drive.LockID
	for _, l := range append(all, below...) {
		if l.User != by && !by.IsZero() {
			return l.Refusal()
		}
		if !above[l.Node] {
			ids = append(ids, l.ID)
		}
	}
	for some := range slices.Chunk(ids, releaseBatch) {
		if err := Release(ctx, tx, some...); err != nil {
			return err
		}
	}
	return nil
}

// releaseBatch is how many locks one statement ends.
const releaseBatch = 200

// purgeBatch is how many rows one transaction deletes.
const purgeBatch = 500

// Purge deletes the rows of locks that have ended.
func Purge(ctx context.Context, db *sqldb.DB, now drive.Time) error {
	for n := int64(purgeBatch); n >= purgeBatch; {
		err := db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			n, err = tx.DeleteBatch(ctx, sqldb.Batch{Table: "dav_locks", Key: "id", Where: "expires_at < ?", Args: []any{now}, Limit: purgeBatch})
			return err
		})
		if err != nil {
			return fmt.Errorf("purge locks: %w", err)
		}
	}
	return nil
}

// Forget deletes the locks of an account.
func Forget(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	if _, err := tx.Exec(ctx, "DELETE FROM dav_locks WHERE account_id = ?", account); err != nil {
		return fmt.Errorf("forget the locks of account %v: %w", account, err)
	}
	return nil
}
