// Package lock keeps the locks that clients of WebDAV take on files and folders (RFC 4918 §6), in
// the database: they hold for all instances, and for every head.
//
// # Rules
//
// A lock belongs to a user. It keeps others from giving the node another content, from moving it
// and from taking it away, and where it is on a folder, from putting something into it or taking
// something out of it, whichever head they come by: Rules.Check and Rules.Leave, which package tree
// asks in the transaction that does it. A deep lock on a folder holds for what is below, too. A
// request of the user's own passes, unless it comes by WebDAV and does not submit the lock's token
// (drive.Tokens).
//
// A lock has expired when its timeout has passed or its owner may no longer write to the node, even
// if its row still exists; Purge deletes such rows to free space. A lock is on the node and not on
// its address, and goes with what is moved or trashed (RFC 4918 §7.5, §7.6): Rules.Leave.
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

	By  string // the user's name, as it is now; written by nobody
	Own bool   // the account is the user's own; written by nobody
}

const (
	maxOfAccount = 5000
	// maxClimb bounds the way up to the root, as in package tree.
	maxClimb = 4096
	// manyAtOnce is how many nodes one statement asks for: SQLite takes 32,766 parameters.
	manyAtOnce = 500
)

const columns = "l.id, l.node_id, l.account_id, l.user_id, l.scope = 'exclusive', l.deep, l.made, l.owner, l.lasts, l.expires_at, COALESCE(u.name, ''), COALESCE(u.account_id = l.account_id, 0)"

func scan(l *Lock, scan func(...any) error) error {
	var lasts int64
	err := scan(&l.ID, &l.Node, &l.Account, &l.User, &l.Exclusive, &l.Deep, &l.Made, &l.Owner, &lasts, &l.Expires, &l.By, &l.Own)
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

// Rules decide which locks hold, and whom they keep out.
type Rules struct {
	Now func() time.Time
	// Lost returns the locks whose owners may no longer write to their nodes; they count as
	// expired. If Lost is nil, locks end by time alone.
	Lost func(ctx context.Context, q sqldb.Querier, all []Lock) (map[drive.LockID]bool, error)
}

// now is the time by the clock of the rules.
func (r Rules) now() drive.Time { return drive.TimeOf(r.Now()) }

// Holding returns those of some locks that were read whose users have not lost their right. Within
// a transaction it ends the others, so that none holds again when its user gets the right back.
func (r Rules) Holding(ctx context.Context, q sqldb.Querier, all []Lock) ([]Lock, error) {
	if r.Lost == nil || len(all) == 0 {
		return all, nil
	}
	lost, err := r.Lost(ctx, q, all)
	if err != nil {
		return nil, fmt.Errorf("ask for the rights of %d locks: %w", len(all), err)
	}
	var holding []Lock
	var ended []drive.LockID
	for _, l := range all {
		if lost[l.ID] {
			ended = append(ended, l.ID)
		} else {
			holding = append(holding, l)
		}
	}
	if tx, ok := q.(*sqldb.Tx); ok {
		return holding, releaseAll(ctx, tx, ended)
	}
	return holding, nil
}

// At lists the locks that hold at a node of an account, its own and the deep ones above it, and
// with below those in it.
func (r Rules) At(ctx context.Context, q sqldb.Querier, account drive.AccountID, node drive.NodeID, below bool) ([]Lock, error) {
	now := r.now()
	any, err := Any(ctx, q, now, account)
	if err != nil || !any {
		return nil, err
	}
	all, err := At(ctx, q, now, node)
	if err == nil && below {
		var more []Lock
		more, err = Below(ctx, q, now, account, node)
		all = append(all, more...)
	}
	if err != nil {
		return nil, err
	}
	return r.Holding(ctx, q, all)
}

// Check is Locked {by, until} when the request may not change a node, or, with below, something in
// it. Of the locks on each node one suffices that is the user's and whose token the request submits
// if it must (RFC 4918 §7); a request of nobody, which is the program itself, passes all.
func (r Rules) Check(ctx context.Context, q sqldb.Querier, account drive.AccountID, node drive.NodeID, by drive.Who, below bool) error {
	_, err := r.pass(ctx, q, account, node, by, below)
	return err
}

func (r Rules) pass(ctx context.Context, q sqldb.Querier, account drive.AccountID, node drive.NodeID, by drive.Who, below bool) ([]Lock, error) {
	all, err := r.At(ctx, q, account, node, below)
	if err != nil {
		return nil, err
	}
	passed := map[drive.NodeID]bool{}
	for _, l := range all {
		passed[l.Node] = passed[l.Node] || by.User.IsZero() || l.User == by.User && by.Tokens.Pass(l.ID)
	}
	for _, l := range all {
		if !passed[l.Node] {
			return nil, l.Refusal()
		}
	}
	return all, nil
}

// Held reports whether all of some locks still hold.
func (r Rules) Held(ctx context.Context, q sqldb.Querier, ids []drive.LockID) (bool, error) {
	var held []Lock
	for some := range slices.Chunk(ids, manyAtOnce) {
		marks, args := sqldb.In(some)
		rows, err := q.Query(ctx, "SELECT "+columns+" FROM dav_locks l LEFT JOIN users u ON u.id = l.user_id WHERE l.id IN ("+marks+") AND l.expires_at > ?",
			append(args, r.now())...)
		locks, err := sqldb.Scan(rows, err, scan)
		if err != nil {
			return false, fmt.Errorf("look for %d locks: %w", len(ids), err)
		}
		held = append(held, locks...)
	}
	held, err := r.Holding(ctx, q, held)
	for _, id := range ids {
		if !slices.ContainsFunc(held, func(l Lock) bool { return l.ID == id }) {
			return false, err
		}
	}
	return true, err
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
func (r Rules) Take(ctx context.Context, tx *sqldb.Tx, l Lock) (Lock, error) {
	now := r.now()
	there, err := r.At(ctx, tx, l.Account, l.Node, l.Deep)
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

// Leave ends the locks on a node that leaves its folder, and those below it (RFC 4918 §7.6). It is
// refused as Check refuses to change the node with what is in it, or the folder (§7.4).
func (r Rules) Leave(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, folder, node drive.NodeID, by drive.Who) error {
	any, err := Any(ctx, tx, r.now(), account)
	if err != nil || !any {
		return err
	}
	if err := r.Check(ctx, tx, account, folder, by, false); err != nil {
		return err
	}
	passed, err := r.pass(ctx, tx, account, node, by, true)
	if err != nil || len(passed) == 0 {
		return err
	}
	above, err := At(ctx, tx, r.now(), node)
	if err != nil {
		return err
	}
	var ids []drive.LockID
	for _, l := range passed {
		if l.Node == node || !slices.ContainsFunc(above, func(a Lock) bool { return a.ID == l.ID }) {
			ids = append(ids, l.ID)
		}
	}
	return releaseAll(ctx, tx, ids)
}

func releaseAll(ctx context.Context, tx *sqldb.Tx, ids []drive.LockID) error {
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
