package link

import (
	"context"
	"database/sql/driver"
	"fmt"
	"math"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/activity"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/domain/vault"
	"smartdrive/internal/engine/sqldb"
)

// ID is the id of a link of some kind.
type ID interface {
	fmt.Stringer
	driver.Valuer
	IsZero() bool
}

// Wish is a link that is to be made.
type Wish struct {
	Made
	Token string
	Code  string                // empty: none
	Fits  func(tree.Node) error // what the node must be
}

// Create makes a link, which insert writes. hook, unless it is nil, runs at the end of the
// transaction, so that an idempotency key commits with it; its error undoes all. Errors: those of
// Enter, mayLead, insert and hook.
func (l *Links[I, T, V]) Create(
	ctx context.Context, who drive.Who, n Wish, insert func(context.Context, *sqldb.Tx, vault.Link) (T, error),
	hook func(context.Context, *sqldb.Tx, V) error,
) (v V, err error) {
	err = l.Write(ctx, n.Account, func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := l.Enter(ctx, tx, who, n.Node); err != nil {
			return err
		}
		if err := l.mayLead(ctx, tx, n.Account, n.Node, n.Fits); err != nil {
			return err
		}
		kept, err := l.opt.Vault.NewLink(ctx, tx, n.ID, n.Token, n.Code)
		if err != nil {
			return err
		}
		link, err := insert(ctx, tx, kept)
		if err == nil {
			err = l.keep(ctx, tx, kept)
		}
		if err != nil {
			return fmt.Errorf("insert %s %s: %w", l.Noun, n.ID, err)
		}
		if err := l.told(tx, who, l.Created, n.Made); err != nil {
			return err
		}
		if v, err = l.Show(ctx, tx, link); err != nil || hook == nil {
			return err
		}
		return hook(ctx, tx, v)
	})
	return v, err
}

// Read reads the link that where says, which names the links l.
func (l *Links[I, T, V]) Read(ctx context.Context, q sqldb.Querier, where string, args ...any) (link T, err error) {
	err = l.Scan(&link, q.QueryRow(ctx, l.selects()+where, args...).Scan)
	return link, err
}

func (l *Links[I, T, V]) selects() string {
	return "SELECT " + l.Columns + " FROM " + l.Table + " l LEFT JOIN " + l.Texts + " t ON t." + l.Key + " = l.id WHERE "
}

// ByToken reads the link of a token.
func (l *Links[I, T, V]) ByToken(ctx context.Context, token string) (T, error) {
	return l.Read(ctx, l.opt.DB, "l.token IN (?, ?)", vault.Lookup(token)...)
}

// Mine reads a link that somebody may see and change: one of their account, or of another that is
// theirs to manage. For everybody else it is NotFound.
func (l *Links[I, T, V]) Mine(ctx context.Context, q sqldb.Querier, who drive.Who, id I) (T, error) {
	where := "l.id = ?"
	if tx, writes := q.(*sqldb.Tx); writes {
		where += tx.ForUpdate()
	}
	link, err := l.Read(ctx, q, where, id)
	if err == nil {
		err = l.may(ctx, q, who, link.Made())
	}
	return link, err
}

// Find shows a link of the caller's account, or one of another that is theirs to manage.
func (l *Links[I, T, V]) Find(ctx context.Context, who drive.Who, id I) (v V, err error) {
	link, err := l.Mine(ctx, l.opt.DB, who, id)
	if err != nil {
		return v, err
	}
	return l.Show(ctx, l.opt.DB.For(link.Made().Account), link)
}

// Query selects a page of links, the newest first.
type Query[I ID] struct {
	Node  drive.NodeID // zero: of all nodes of the caller's account; else it may be another's that the caller may give links to
	In    drive.NodeID // a folder of the caller's account: to what is in it, without what is below that; zero: anywhere
	After I            // the last one of the page before; zero: from the newest on
	Limit int
}

// List returns a page of the links of the caller's account, or to a node.
func (l *Links[I, T, V]) List(ctx context.Context, who drive.Who, in Query[I]) ([]V, error) {
	at := who.Account
	if !in.Node.IsZero() {
		there, err := l.manage(ctx, l.opt.DB, who, in.Node)
		switch {
		case err == nil:
			at = there
		case !drive.IsKind(err, drive.NotFound, drive.Forbidden): // else there are none that they may see
			return nil, err
		}
	}
	where, args := "l.account_id = ?", []any{at}
	if !in.Node.IsZero() {
		where, args = where+" AND l."+l.Node+" = ?", append(args, in.Node)
	}
	if !in.In.IsZero() { // + keeps SQLite from reading all links of the account
		where, args = "+l.account_id = ? AND l."+l.Node+" IN (SELECT n.id FROM nodes n WHERE n.parent_id = ? AND n.trashed_at = 0)", append(args, in.In)
	}
	if !in.After.IsZero() {
		where, args = where+" AND l.id < ?", append(args, in.After)
	}
	q := l.opt.DB.For(at)
	rows, err := q.Query(ctx, l.selects()+where+" ORDER BY l.id DESC LIMIT ?", append(args, in.Limit)...)
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

// Change changes a link that somebody may change, as change does it.
func (l *Links[I, T, V]) Change(ctx context.Context, who drive.Who, id I, change func(context.Context, *sqldb.Tx, *T) error) (v V, err error) {
	found, err := l.Mine(ctx, l.opt.DB, who, id)
	if err != nil {
		return v, err
	}
	err = l.Write(ctx, found.Made().Account, func(ctx context.Context, tx *sqldb.Tx) error {
		link, err := l.Mine(ctx, tx, who, id)
		if err != nil {
			return err
		}
		if err := change(ctx, tx, &link); err != nil {
			return err
		}
		if err := l.told(tx, who, l.Changed, link.Made()); err != nil {
			return err
		}
		v, err = l.Show(ctx, tx, link)
		return err
	})
	return v, err
}

// Delete ends a link that Find would show: it is then one that never was. NotFound when there is
// none.
func (l *Links[I, T, V]) Delete(ctx context.Context, who drive.Who, id I) error {
	return l.DeleteWith(ctx, who, id, func(context.Context, *sqldb.Tx) error { return nil })
}

// DeleteWith is Delete, and runs also in the same transaction.
func (l *Links[I, T, V]) DeleteWith(ctx context.Context, who drive.Who, id I, also func(context.Context, *sqldb.Tx) error) error {
	found, err := l.Mine(ctx, l.opt.DB, who, id)
	if err != nil {
		return err
	}
	return l.Write(ctx, found.Made().Account, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.ActFor(who)
		if _, err := l.Mine(ctx, tx, who, id); err != nil {
			return err
		}
		if err := l.Remove(ctx, tx, found.Made().Account, id); err != nil {
			return err
		}
		return also(ctx, tx)
	})
}

// Remove deletes a link of an account: it is then one that never was. NotFound when there is none.
func (l *Links[I, T, V]) Remove(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, id I) error {
	n, err := tx.Exec(ctx, "DELETE FROM "+l.Table+" WHERE id = ? AND account_id = ?", id, account)
	if err == nil && n == 0 {
		err = drive.Fail(drive.NotFound)
	}
	if err != nil {
		return err
	}
	return l.opt.Log.Note(tx, activity.Entry{Account: account, Verb: l.Ended}, map[string]string{"link": id.String()})
}

// RemoveAll ends all links of an account within a transaction.
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

// IDs returns the ids of up to limit links of an account.
func (l *Links[I, T, V]) IDs(ctx context.Context, q sqldb.Querier, account drive.AccountID, limit int) ([]I, error) {
	rows, err := q.Query(ctx, "SELECT id FROM "+l.Table+" WHERE account_id = ? ORDER BY id LIMIT ?", account, limit)
	return sqldb.Scan(rows, err, func(id *I, scan func(...any) error) error { return scan(id) })
}

// Forget drops the links of an account that is being purged.
func (l *Links[I, T, V]) Forget(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	if _, err := tx.Exec(ctx, "DELETE FROM "+l.Table+" WHERE account_id = ?", account); err != nil {
		return fmt.Errorf("forget the %s of account %s: %w", l.Table, account, err)
	}
	return nil
}

// Purge drops links to nodes that were deleted for good, some in each call (sqldb.Orphans).
func (l *Links[I, T, V]) Purge(ctx context.Context) error {
	_, err := l.orphans.Delete(ctx, l.opt.DB)
	return err
}

// told notes in the activity log what somebody did to a link. The caller has the lock on the
// ledger.
func (l *Links[I, T, V]) told(tx *sqldb.Tx, who drive.Who, verb activity.Verb, m Made) error {
	return l.opt.Log.Note(tx, activity.Entry{Account: m.Account, Verb: verb, By: who, Node: m.Node}, map[string]string{"link": m.ID})
}
