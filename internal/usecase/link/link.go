// Package link is what links of all kinds have in common: a token that is kept as a hash and sealed
// for the owner (package vault), an end, a node that they lead to, and an owner who must be
// somebody who may log in. It makes, finds, lists, changes and ends them. Package share has the
// links by which one reads, package collect those by which one sends: what these show and let in is
// theirs, and so are their tables.
package link

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/base/ticket"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/account"
	"smartdrive/internal/domain/activity"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/domain/vault"
	"smartdrive/internal/engine/sqldb"
)

// Row is a link as the database has it.
type Row interface{ Made() Made }

// Made is a link, who has made it, and where it leads.
type Made struct {
	ID      string
	By      drive.UserID
	Account drive.AccountID
	Node    drive.NodeID
}

// Kind describes links of one kind: rows T, which their owner sees as V.
type Kind[T Row, V any] struct {
	Noun  string               // in errors, such as "share"
	Table string               // of the links, with the columns id, account_id and token, and code if they have Codes
	Node  string               // the column of the node that a link leads to
	Texts string               // of what is sealed of them, with the columns Key and sealed
	Key   string               // the id of the link in Texts
	Codes bool                 // a link may ask for a code
	Most  int                  // links of an account
	Full  func(sent int) error // the refusal of one more than Most
	Use   access.Use           // what one must be allowed at a node to make a link to it, and for as long as it is used
	Shows bool                 // a link shows all that is below its node

	Columns string                                                           // what Scan reads, of the links as l and their Texts as t
	Scan    func(link *T, scan func(...any) error) error                     // reads a row
	Show    func(ctx context.Context, q sqldb.Querier, link T) (V, error)    // says how a link stands
	ShowAll func(ctx context.Context, q sqldb.Querier, all []T) ([]V, error) // Show of many links; nil: one after the other

	Created, Changed, Ended activity.Verb // what the activity log calls what is done to one
}

// Options configure New. All but Ledger, Access and Log are required.
type Options struct {
	DB     *sqldb.DB
	Access *access.Access // who may make links to what is not their own; default: one of the database
	Tree   *tree.Tree
	Users  *account.Users
	Ledger quota.Ledger
	Vault  *vault.Vault // has the secret that tickets are signed with, and keeps tokens and codes
	Now    func() time.Time
	Log    *activity.Log
}

// Links are the links of one kind, whose ids are I. It is safe for concurrent use.
type Links[I ID, T Row, V any] struct {
	Kind[T, V]
	opt     Options
	orphans sqldb.Orphans // links to nodes that were deleted for good
}

// New returns the links of a kind.
func New[I ID, T Row, V any](kind Kind[T, V], opt Options) *Links[I, T, V] {
	if opt.Access == nil {
		opt.Access = access.New(access.Options{DB: opt.DB, Now: opt.Now})
	}
	return &Links[I, T, V]{kind, opt, sqldb.Orphans{Table: kind.Table, Key: "id", Owner: kind.Node, Of: "nodes"}}
}

// Now is the time by which links end.
func (l *Links[I, T, V]) Now() drive.Time { return drive.TimeOf(l.opt.Now()) }

const (
	tokenBytes = 16 // nobody guesses 128 bits
	minLife    = time.Minute
	maxLife    = 10 * 365 * 24 * time.Hour
)

// NewToken makes up what a link is found by.
func NewToken() string {
	b := make([]byte, tokenBytes)
	_, _ = rand.Read(b) // does not fail
	return base64.RawURLEncoding.EncodeToString(b)
}

// End is when a link ends that lives so long from now on; zero: never. BadRequest {expires_in}
// unless that is a minute to ten years.
func (l *Links[I, T, V]) End(life time.Duration) (drive.Time, error) {
	switch {
	case life == 0:
		return 0, nil
	case life < minLife || life > maxLife:
		return 0, drive.Bad("expires_in", drive.OutOfRange, "min", int64(minLife.Seconds()), "max", int64(maxLife.Seconds()))
	}
	return l.Now().Add(life), nil
}

// SigningKey signs the tickets of those whom a link has let in. Each purpose has a key of its own.
func (l *Links[I, T, V]) SigningKey(ctx context.Context, purpose string) (ticket.Key, error) {
	secret, err := l.opt.Vault.Links(ctx)
	if err != nil {
		return nil, err
	}
	return ticket.For(secret, purpose), nil
}

// Write runs fn in a transaction under the lock on the account's ledger.
func (l *Links[I, T, V]) Write(ctx context.Context, account drive.AccountID, fn func(context.Context, *sqldb.Tx) error) error {
	return l.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := l.opt.Ledger.Lock(ctx, tx, account); err != nil {
			return err
		}
		return fn(ctx, tx)
	})
}

// Enter lets somebody make a link to a node, or change one: it is the account's of the node. A link
// shows what its maker sees: one to a folder with something below that is hidden from them is
// Forbidden.
func (l *Links[I, T, V]) Enter(ctx context.Context, q sqldb.Querier, who drive.Who, node drive.NodeID) (drive.AccountID, error) {
	p, err := l.opt.Access.Enter(ctx, q, who, node, l.Use)
	if err != nil || !p.Who.Guest || !l.Shows {
		return p.Who.Account, err
	}
	lens, err := l.opt.Access.Lens(ctx, q, p)
	if err != nil {
		return drive.AccountID{}, err
	}
	hidden, err := l.opt.Tree.AnyWithin(ctx, q, p.Who.Account, node, lens.Hidden())
	if err == nil && hidden {
		err = drive.Fail(drive.Forbidden, "reason", "role", "role", string(p.Rights.Role()), "needs", string(access.Manager))
	}
	if err != nil {
		return drive.AccountID{}, err
	}
	return p.Who.Account, nil
}

// manage lets somebody see the links to a node: who may make one, and who manages the node, who
// ends them also where nobody makes any.
func (l *Links[I, T, V]) manage(ctx context.Context, q sqldb.Querier, who drive.Who, node drive.NodeID) (drive.AccountID, error) {
	account, err := l.Enter(ctx, q, who, node)
	if !drive.IsKind(err, drive.Forbidden) {
		return account, err
	}
	p, err := l.opt.Access.Enter(ctx, q, who, node, access.SetAccess)
	return p.Who.Account, err
}

// may lets somebody see and change a link: whose account it is, who has made it and still may, and
// who manages the node. For everybody else it is not there.
func (l *Links[I, T, V]) may(ctx context.Context, q sqldb.Querier, who drive.Who, m Made) error {
	if m.Account == who.Account {
		return nil
	}
	_, err := l.opt.Access.Enter(ctx, q, who, m.Node, access.SetAccess)
	if drive.IsKind(err, drive.Forbidden) && m.By == who.User {
		_, err = l.opt.Access.Enter(ctx, q, who, m.Node, l.Use)
	}
	if drive.IsKind(err, drive.Forbidden) {
		err = drive.Fail(drive.NotFound)
	}
	return err
}

// mayLead checks under the lock on the ledger that one more link of the account may lead to a node:
// that is there, not in the trash, and what fits says it must be. Errors: NotFound, WrongState
// {state: trashed}, TooManyOpen, and those of fits.
func (l *Links[I, T, V]) mayLead(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, node drive.NodeID, fits func(tree.Node) error) error {
	n, err := l.opt.Tree.Find(ctx, tx, account, node)
	if err == nil {
		err = fits(n)
	}
	if err != nil {
		return err
	}
	if _, live, err := l.opt.Tree.PathOf(ctx, tx, node); err != nil {
		return err
	} else if !live {
		return drive.Fail(drive.WrongState, "state", "trashed")
	}
	var have int
	if err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM "+l.Table+" WHERE account_id = ?", account).Scan(&have); err != nil {
		return fmt.Errorf("count the %s: %w", l.Table, err)
	}
	if have >= l.Most {
		return l.Full(have + 1)
	}
	return nil
}

// Live reports whether a link may be used: its node is not in the trash or gone, and the user who
// has made it may log in, and may still make it.
func (l *Links[I, T, V]) Live(ctx context.Context, q sqldb.Querier, m Made) (bool, error) {
	_, live, err := l.opt.Tree.PathOf(ctx, q, m.Node)
	if err == nil && live {
		var maker account.User
		maker, err = l.opt.Users.Find(ctx, q, m.By)
		live = maker.State == account.Active
		if err == nil && live && maker.Account != m.Account {
			_, err = l.Enter(ctx, q, drive.Who{User: m.By, Account: maker.Account}, m.Node)
		}
	}
	if drive.IsKind(err, drive.NotFound, drive.Forbidden) {
		return false, nil
	}
	return live, err
}
