// Package lock stores the WebDAV locks on files and folders (RFC 4918 §6) in the database. They
// apply to all instances and all heads.
//
// # Rules
//
// A lock belongs to a user. Other users cannot change the content of the locked node, move it or
// delete it, through any head. If the node is a folder, they cannot add or remove children. A deep
// lock on a folder also applies to everything below it. Package tree enforces this with Rules.Check
// and Rules.ReleaseForMove in the transaction of the change. Requests of the lock's user pass,
// except WebDAV requests that do not submit the lock's token (drive.Tokens).
//
// A lock has expired when its timeout has passed or its owner may no longer write to the node, even
// if its row still exists; Purge deletes such rows to free space. A lock is on the node, not on its
// path, and ends when the node is moved or trashed (RFC 4918 §7.5, §7.6): Rules.ReleaseForMove.
//
// The package owns the table dav_locks. It reads nodes and users.
package lock

import (
	"context"
	"fmt"
	"slices"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Lock is a lock as stored, plus UserName and OwnAccount.
type Lock struct {
	ID          drive.LockID
	Node        drive.NodeID
	Account     drive.AccountID // account of the node
	User        drive.UserID
	Exclusive   bool          // no other lock may be on the node
	Deep        bool          // also locks everything below the node
	CreatedFile bool          // the lock request created the file
	Owner       string        // the client's description of the owner: XML
	Timeout     time.Duration // timeout of the lock, from its creation or last refresh
	Expires     drive.Time    // when the lock ends unless refreshed

	UserName   string // present name of the user; read only
	OwnAccount bool   // the account is the user's own; read only
}

const (
	maxPerAccount = 5000 // locks per account
	// maxDepth bounds the levels up to the root, as in package tree.
	maxDepth = 4096
	// chunkSize is the number of nodes per statement; SQLite allows 32,766 parameters.
	chunkSize = 500
)

// columns lists the columns that scan reads.
const columns = "l.id, l.node_id, l.account_id, l.user_id, l.scope = 'exclusive', l.deep, l.made, l.owner, l.lasts, l.expires_at, COALESCE(u.name, ''), COALESCE(u.account_id = l.account_id, 0)"

// scan reads a row of columns into l by calling the function scan. The timeout is stored in
// milliseconds.
func scan(l *Lock, scan func(...any) error) error {
	var lasts int64
	err := scan(&l.ID, &l.Node, &l.Account, &l.User, &l.Exclusive, &l.Deep, &l.CreatedFile, &l.Owner, &lasts, &l.Expires, &l.UserName, &l.OwnAccount)
	l.Timeout = time.Duration(lasts) * time.Millisecond
	return err
}

// up is the prefix of a statement that selects from a node and its ancestors.
const up = `WITH RECURSIVE up (id, parent_id, level) AS (
			SELECT id, parent_id, 0 FROM nodes WHERE id = ?
			UNION ALL
			SELECT n.id, n.parent_id, up.level + 1 FROM up JOIN nodes n ON n.id = up.parent_id WHERE up.level < ?) `

// At returns the unexpired locks that apply to a node: its own and the deep ones of its ancestors.
// It does not check Rules.WithoutRights.
func At(ctx context.Context, q sqldb.Querier, now drive.Time, node drive.NodeID) ([]Lock, error) {
	rows, err := q.Query(ctx, up+`SELECT `+columns+` FROM up CROSS JOIN dav_locks l ON l.node_id = up.id LEFT JOIN users u ON u.id = l.user_id
		WHERE l.expires_at > ? AND (up.level = 0 OR l.deep = 1) ORDER BY up.level, l.id`, node, maxDepth, now)
	all, err := sqldb.Scan(rows, err, scan)
	if err != nil {
		return nil, fmt.Errorf("list the locks at node %v: %w", node, err)
	}
	return all, nil
}

// On returns the unexpired locks on the nodes themselves, by one statement per 500 nodes.
func On(ctx context.Context, q sqldb.Querier, now drive.Time, nodes []drive.NodeID) (all []Lock, err error) {
	for some := range slices.Chunk(nodes, chunkSize) {
		args := make([]any, 0, len(some)+1)
		for _, id := range some {
			args = append(args, id)
		}
		rows, err := q.Query(ctx, `SELECT `+columns+` FROM dav_locks l LEFT JOIN users u ON u.id = l.user_id
		WHERE l.node_id IN (`+sqldb.Placeholders(len(some))+`) AND l.expires_at > ? ORDER BY l.id`, append(args, now)...)
		locks, err := sqldb.Scan(rows, err, scan)
		if err != nil {
			return nil, fmt.Errorf("list the locks on %d nodes: %w", len(nodes), err)
		}
		all = append(all, locks...)
	}
	return all, nil
}

// Below returns the unexpired locks on nodes below a folder. It walks up from each lock of the
// account; check Any first.
func Below(ctx context.Context, q sqldb.Querier, now drive.Time, account drive.AccountID, folder drive.NodeID) ([]Lock, error) {
	rows, err := q.Query(ctx, `WITH RECURSIVE up (lock_id, id, parent_id, level) AS (
			SELECT l.id, n.id, n.parent_id, 0 FROM dav_locks l JOIN nodes n ON n.id = l.node_id WHERE l.account_id = ? AND l.expires_at > ?
			UNION ALL
			SELECT up.lock_id, n.id, n.parent_id, up.level + 1 FROM up JOIN nodes n ON n.id = up.parent_id WHERE up.level < ?)
		SELECT `+columns+` FROM up JOIN dav_locks l ON l.id = up.lock_id LEFT JOIN users u ON u.id = l.user_id
		WHERE up.id = ? AND up.level > 0 ORDER BY l.id`, account, now, maxDepth, folder)
	all, err := sqldb.Scan(rows, err, scan)
	if err != nil {
		return nil, fmt.Errorf("list the locks below node %v: %w", folder, err)
	}
	return all, nil
}

// Any reports whether an account has unexpired locks, by one index look-up.
func Any(ctx context.Context, q sqldb.Querier, now drive.Time, account drive.AccountID) (bool, error) {
	var any bool
	err := q.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM dav_locks WHERE account_id = ? AND expires_at > ?)`, account, now).Scan(&any)
	if err != nil {
		return false, fmt.Errorf("look for locks of account %v: %w", account, err)
	}
	return any, nil
}

// Rules decide which locks are valid and which requests they block.
type Rules struct {
	Now func() time.Time
	// WithoutRights returns the locks whose owners may no longer write to their nodes; they count
	// as expired. If WithoutRights is nil, locks expire only by time.
	WithoutRights func(ctx context.Context, q sqldb.Querier, all []Lock) (map[drive.LockID]bool, error)
}

// now returns the current time.
func (r Rules) now() drive.Time { return drive.TimeOf(r.Now()) }

// Valid returns those locks whose owners may still write. Inside a transaction it deletes the
// others, so that they do not become valid again with the owner's permission.
func (r Rules) Valid(ctx context.Context, q sqldb.Querier, all []Lock) ([]Lock, error) {
	if r.WithoutRights == nil || len(all) == 0 {
		return all, nil
	}
	lost, err := r.WithoutRights(ctx, q, all)
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

// At returns the valid locks that apply to a node of an account: its own, the deep ones of its
// ancestors and, with below, those on its descendants.
func (r Rules) At(ctx context.Context, q sqldb.Querier, account drive.AccountID, node drive.NodeID, below bool) ([]Lock, error) {
	now := r.now()
	has, err := Any(ctx, q, now, account)
	if err != nil || !has {
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
	return r.Valid(ctx, q, all)
}

// Check fails with Locked {by, until} if the request may not change a node or, with below, one of
// its descendants. A request passes the locks on a node if one of them is its user's and, for
// WebDAV, its token is submitted (RFC 4918 §7). Requests without a user, from the program itself,
// always pass.
func (r Rules) Check(ctx context.Context, q sqldb.Querier, account drive.AccountID, node drive.NodeID, by drive.Who, below bool) error {
	_, err := r.check(ctx, q, account, node, by, below)
	return err
}

// check returns all valid locks at a node, above it, and with below also beneath it. It fails with
// the Refusal of a lock if a locked node has no lock that by owns and presents the token of; the
// zero user passes all.
func (r Rules) check(ctx context.Context, q sqldb.Querier, account drive.AccountID, node drive.NodeID, by drive.Who, below bool) ([]Lock, error) {
	all, err := r.At(ctx, q, account, node, below)
	if err != nil {
		return nil, err
	}
	passed := map[drive.NodeID]bool{}
	for _, l := range all {
		passed[l.Node] = passed[l.Node] || by.User.IsZero() || l.User == by.User && by.Tokens.Passes(l.ID)
	}
	for _, l := range all {
		if !passed[l.Node] {
			return nil, l.Refusal()
		}
	}
	return all, nil
}

// AllValid reports whether all locks with these ids exist, have not expired, and are valid by
// Valid; true without ids. It reads the database and changes nothing.
func (r Rules) AllValid(ctx context.Context, q sqldb.Querier, ids []drive.LockID) (bool, error) {
	var held []Lock
	for some := range slices.Chunk(ids, chunkSize) {
		marks, args := sqldb.ListArgs(some)
		rows, err := q.Query(ctx, "SELECT "+columns+" FROM dav_locks l LEFT JOIN users u ON u.id = l.user_id WHERE l.id IN ("+marks+") AND l.expires_at > ?",
			append(args, r.now())...)
		locks, err := sqldb.Scan(rows, err, scan)
		if err != nil {
			return false, fmt.Errorf("look for %d locks: %w", len(ids), err)
		}
		held = append(held, locks...)
	}
	held, err := r.Valid(ctx, q, held)
	for _, id := range ids {
		if !slices.ContainsFunc(held, func(l Lock) bool { return l.ID == id }) {
			return false, err
		}
	}
	return true, err
}

// Refusal returns the Locked error for a request that the lock blocks.
func (l Lock) Refusal() *drive.Error {
	if l.UserName == "" {
		return drive.Fail(drive.Locked, "until", l.Expires)
	}
	return drive.Fail(drive.Locked, "by", l.UserName, "until", l.Expires)
}

// Acquire creates a lock. The caller must hold the lock on the account's ledger, so that concurrent
// calls are serialized. It fails with Locked if a conflicting lock exists (RFC 4918 §6.2): on the
// node, deep on an ancestor or, for a deep lock, on a descendant. It fails with TooManyOpen if the
// account has maxPerAccount locks.
func (r Rules) Acquire(ctx context.Context, tx *sqldb.Tx, l Lock) (Lock, error) {
	now := r.now()
	existing, err := r.At(ctx, tx, l.Account, l.Node, l.Deep)
	if err != nil {
		return Lock{}, err
	}
	for _, other := range existing {
		if l.Exclusive || other.Exclusive {
			return Lock{}, other.Refusal()
		}
	}
	var n int
	if err := tx.QueryRow(ctx, `SELECT COUNT(*) FROM dav_locks WHERE account_id = ?`, l.Account).Scan(&n); err != nil {
		return Lock{}, fmt.Errorf("count the locks of account %v: %w", l.Account, err)
	}
	if n >= maxPerAccount {
		return Lock{}, drive.Fail(drive.TooManyOpen, "reason", "locks", "limit", maxPerAccount, "sent", n+1)
	}
	l.ID, l.Expires = drive.NewID[drive.LockID](), now.Add(l.Timeout)
	scope := "shared"
	if l.Exclusive {
		scope = "exclusive"
	}
	_, err = tx.Exec(ctx, `INSERT INTO dav_locks (id, node_id, account_id, user_id, scope, deep, made, owner, lasts, created_at, expires_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, l.ID, l.Node, l.Account, l.User, scope, l.Deep, l.CreatedFile, l.Owner, l.Timeout.Milliseconds(), now, l.Expires)
	if err != nil {
		return Lock{}, fmt.Errorf("lock node %v: %w", l.Node, err)
	}
	return l, nil
}

// Refresh restarts the timeout of a user's lock. It fails with NotFound if the lock has ended or
// belongs to another user.
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

// Release deletes locks by id. Missing ids are ignored. All ids become arguments of one statement;
// releaseAll splits larger lists.
func Release(ctx context.Context, tx *sqldb.Tx, ids ...drive.LockID) error {
	if len(ids) == 0 {
		return nil
	}
	marks, args := sqldb.ListArgs(ids)
	if _, err := tx.Exec(ctx, "DELETE FROM dav_locks WHERE id IN ("+marks+")", args...); err != nil {
		return fmt.Errorf("release %d locks: %w", len(ids), err)
	}
	return nil
}

// ReleaseForMove prepares to move a node out of its folder or delete it: it ends the locks on the
// node and its descendants (RFC 4918 §7.6). It fails like Check if the node, its descendants or the
// folder is locked for the request (§7.4).
func (r Rules) ReleaseForMove(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, folder, node drive.NodeID, by drive.Who) error {
	any, err := Any(ctx, tx, r.now(), account)
	if err != nil || !any {
		return err
	}
	if err := r.Check(ctx, tx, account, folder, by, false); err != nil {
		return err
	}
	passed, err := r.check(ctx, tx, account, node, by, true)
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

// releaseAll deletes any number of locks in statements of releaseBatch ids, all in tx. Missing ids
// are ignored.
func releaseAll(ctx context.Context, tx *sqldb.Tx, ids []drive.LockID) error {
	for some := range slices.Chunk(ids, releaseBatch) {
		if err := Release(ctx, tx, some...); err != nil {
			return err
		}
	}
	return nil
}

// releaseBatch is the number of locks per statement.
const releaseBatch = 200

// purgeBatch is the number of rows per transaction.
const purgeBatch = 500

// Purge deletes the rows of locks that expired before now, in transactions of purgeBatch rows,
// until a batch is not full. After an error it may be called again.
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

// DeleteAccount deletes all locks of an account.
func DeleteAccount(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	if _, err := tx.Exec(ctx, "DELETE FROM dav_locks WHERE account_id = ?", account); err != nil {
		return fmt.Errorf("forget the locks of account %v: %w", account, err)
	}
	return nil
}
