package link

import (
	"context"
	"database/sql/driver"
	"fmt"
	"math"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/domain/vault"
	"example.org/smartdrive/internal/engine/sqldb"
)

// ID is the id type of a kind of links.
type ID interface {
	fmt.Stringer
	driver.Valuer
	// IsZero reports whether the id is unset.
	IsZero() bool
}

// NewLink describes a link to be created.
type NewLink struct {
	Identity
	Token string
	Code  string // empty: no code
	// CheckNode returns an error if a link to the node is not allowed, such as a collect link to a
	// file. Required.
	CheckNode func(tree.Node) error
}

// Create creates a link. insert writes its row. hook (nil: none) runs at the end of the
// transaction, so that an idempotency key commits with it; its error rolls back. It fails with
// NotFound or Forbidden if the caller may not create links to the node, WrongState {state:
// trashed}, TooManyOpen beyond the links that an account may have, and the errors of n.CheckNode,
// insert and hook.
func (l *Links[I, T, V]) Create(
	ctx context.Context, who drive.Who, n NewLink, insert func(context.Context, *sqldb.Tx, vault.Link) (T, error),
	hook func(context.Context, *sqldb.Tx, V) error,
) (v V, err error) {
	err = l.Write(ctx, n.Account, func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := l.Authorize(ctx, tx, who, n.Node); err != nil {
			return err
		}
		if err := l.checkTarget(ctx, tx, n.Account, n.Node, n.CheckNode); err != nil {
			return err
		}
		kept, err := l.opt.Vault.NewLink(ctx, tx, n.ID, n.Token, n.Code)
		if err != nil {
			return err
		}
		link, err := insert(ctx, tx, kept)
		if err == nil {
			err = l.insertSealed(ctx, tx, kept)
		}
		if err != nil {
			return fmt.Errorf("insert %s %s: %w", l.Noun, n.ID, err)
		}
		if err := l.logAction(tx, who, l.Created, n.Identity); err != nil {
			return err
		}
		if v, err = l.Show(ctx, tx, link); err != nil || hook == nil {
			return err
		}
		return hook(ctx, tx, v)
	})
	return v, err
}

// Read reads the link selected by the SQL condition where, in which l is the link table. NotFound
// if there is none.
func (l *Links[I, T, V]) Read(ctx context.Context, q sqldb.Querier, where string, args ...any) (link T, err error) {
	err = l.Scan(&link, q.QueryRow(ctx, l.selectSQL()+where, args...).Scan)
	return link, err
}

// selectSQL returns the SELECT statement up to its condition.
func (l *Links[I, T, V]) selectSQL() string {
	return "SELECT " + l.Columns + " FROM " + l.Table + " l LEFT JOIN " + l.SealedTable + " t ON t." + l.SealedKey + " = l.id WHERE "
}

// ByToken returns the link with a token, whatever its state. It returns NotFound if there is none.
func (l *Links[I, T, V]) ByToken(ctx context.Context, token string) (T, error) {
	return l.Read(ctx, l.opt.DB, "l.token IN (?, ?)", vault.TokenLookup(token)...)
}

// FindManageable reads a link that who may see and change; NotFound otherwise. Within a transaction
// it locks the row.
func (l *Links[I, T, V]) FindManageable(ctx context.Context, q sqldb.Querier, who drive.Who, id I) (T, error) {
	where := "l.id = ?"
	if tx, writes := q.(*sqldb.Tx); writes {
		where += tx.ForUpdate()
	}
	link, err := l.Read(ctx, q, where, id)
	if err == nil {
		err = l.mayManage(ctx, q, who, link.Identity())
	}
	return link, err
}

// Find returns the view of a link that who may see and change. It returns NotFound for others.
func (l *Links[I, T, V]) Find(ctx context.Context, who drive.Who, id I) (v V, err error) {
	link, err := l.FindManageable(ctx, l.opt.DB, who, id)
	if err != nil {
		return v, err
	}
	return l.Show(ctx, l.opt.DB.For(link.Identity().Account), link)
}

// Query selects a page of links, newest first.
type Query[I ID] struct {
	Node       drive.NodeID // links to this node, which may belong to another account; zero: links of the caller's account
	ChildrenOf drive.NodeID // links to the children of this folder of the caller's account; zero: any
	After      I            // cursor: the last link of the previous page; zero: first page
	Limit      int
}

// List returns a page of links of the caller's account, or to in.Node. It is empty, without an
// error, if the caller may not see the links to in.Node.
func (l *Links[I, T, V]) List(ctx context.Context, who drive.Who, in Query[I]) ([]V, error) {
	at := who.Account
	if !in.Node.IsZero() {
		there, err := l.manage(ctx, l.opt.DB, who, in.Node)
		switch {
		case err == nil:
			at = there
		case !drive.IsKind(err, drive.NotFound, drive.Forbidden): // otherwise the caller may see none
			return nil, err
		}
	}
	where, args := "l.account_id = ?", []any{at}
	if !in.Node.IsZero() {
		where, args = where+" AND l."+l.Node+" = ?", append(args, in.Node)
	}
	if !in.ChildrenOf.IsZero() { // "+" keeps SQLite from scanning all links of the account
		where, args = "+l.account_id = ? AND l."+l.Node+" IN (SELECT n.id FROM nodes n WHERE n.parent_id = ? AND n.trashed_at = 0)", append(args, in.ChildrenOf)
	}
	if !in.After.IsZero() {
		where, args = where+" AND l.id < ?", append(args, in.After)
	}
	q := l.opt.DB.For(at)
	rows, err := q.Query(ctx, l.selectSQL()+where+" ORDER BY l.id DESC LIMIT ?", append(args, in.Limit)...)
	all, err := sqldb.Scan(rows, err, l.Scan)
	if err != nil {
		return nil, fmt.Errorf("list the %s of account %s: %w", l.Table, at, err)
	}
	if l.ShowAll != nil {
		return l.ShowAll(ctx, q, all)
	}
	views := make([]V, len(all))
	for i, link := range all {
		if views[i], err = l.Show(ctx, q, link); err != nil {
			return nil, err
		}
	}
	return views, nil
}

// Change runs change on a link that who may change, in a transaction, and returns the new view.
// NotFound if there is none.
func (l *Links[I, T, V]) Change(ctx context.Context, who drive.Who, id I, change func(context.Context, *sqldb.Tx, *T) error) (v V, err error) {
	found, err := l.FindManageable(ctx, l.opt.DB, who, id)
	if err != nil {
		return v, err
	}
	err = l.Write(ctx, found.Identity().Account, func(ctx context.Context, tx *sqldb.Tx) error {
		link, err := l.FindManageable(ctx, tx, who, id)
		if err != nil {
			return err
		}
		if err := change(ctx, tx, &link); err != nil {
			return err
		}
		if err := l.logAction(tx, who, l.Changed, link.Identity()); err != nil {
			return err
		}
		v, err = l.Show(ctx, tx, link)
		return err
	})
	return v, err
}

// Delete deletes a link that Find would return; NotFound if there is none.
func (l *Links[I, T, V]) Delete(ctx context.Context, who drive.Who, id I) error {
	return l.DeleteWith(ctx, who, id, func(context.Context, *sqldb.Tx) error { return nil })
}

// DeleteWith deletes a link that Find would return and runs also in the same transaction, whose
// error keeps the link. NotFound if there is none.
func (l *Links[I, T, V]) DeleteWith(ctx context.Context, who drive.Who, id I, also func(context.Context, *sqldb.Tx) error) error {
	found, err := l.FindManageable(ctx, l.opt.DB, who, id)
	if err != nil {
		return err
	}
	return l.Write(ctx, found.Identity().Account, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.SetActor(who)
		if _, err := l.FindManageable(ctx, tx, who, id); err != nil {
			return err
		}
		if err := l.Remove(ctx, tx, found.Identity().Account, id); err != nil {
			return err
		}
		return also(ctx, tx)
	})
}

// Remove deletes a link of the account within tx; NotFound if there is none.
func (l *Links[I, T, V]) Remove(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, id I) error {
	n, err := tx.Exec(ctx, "DELETE FROM "+l.Table+" WHERE id = ? AND account_id = ?", id, account)
	if err == nil && n == 0 {
		err = drive.Fail(drive.NotFound)
	}
	if err != nil {
		return err
	}
	return l.opt.Log.Record(tx, activity.Entry{Account: account, Verb: l.Ended}, map[string]string{"link": id.String()})
}

// RemoveAll deletes the links of an account one by one within tx. On an error the caller must roll
// tx back.
func (l *Links[I, T, V]) RemoveAll(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	ids, err := l.IDs(ctx, tx, account, math.MaxInt32)
	for _, id := range ids {
		if err == nil {
			err = l.Remove(ctx, tx, account, id)
		}
	}
	if err != nil {
		return fmt.Errorf("end the %s of account %s: %w", l.Table, account, err)
	}
	return nil
}

// IDs returns the ids of up to limit links of an account, in ascending order.
func (l *Links[I, T, V]) IDs(ctx context.Context, q sqldb.Querier, account drive.AccountID, limit int) ([]I, error) {
	rows, err := q.Query(ctx, "SELECT id FROM "+l.Table+" WHERE account_id = ? ORDER BY id LIMIT ?", account, limit)
	return sqldb.Scan(rows, err, func(id *I, scan func(...any) error) error { return scan(id) })
}

// DeleteAccount deletes the links of an account that is being purged, without logging.
func (l *Links[I, T, V]) DeleteAccount(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	if _, err := tx.Exec(ctx, "DELETE FROM "+l.Table+" WHERE account_id = ?", account); err != nil {
		return fmt.Errorf("forget the %s of account %s: %w", l.Table, account, err)
	}
	return nil
}

// Purge deletes links to deleted nodes, a limited number per call (sqldb.Orphans). A nil error does
// not mean that none are left: housekeeping calls Purge again.
func (l *Links[I, T, V]) Purge(ctx context.Context) error {
	_, err := l.orphans.Delete(ctx, l.opt.DB)
	return err
}

// logAction records a change of a link in the activity log. The caller holds the lock on the
// ledger.
func (l *Links[I, T, V]) logAction(tx *sqldb.Tx, who drive.Who, verb activity.Verb, m Identity) error {
	return l.opt.Log.Record(tx, activity.Entry{Account: m.Account, Verb: verb, By: who, Node: m.Node}, map[string]string{"link": m.ID})
}
