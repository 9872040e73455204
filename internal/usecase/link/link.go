// Package link implements the common parts of share links and collect links: a token that is stored
// as a hash and sealed for the owner (package vault), an expiry, the node that the link leads to,
// and an owner who may sign in. It creates, finds, lists, changes and deletes links. Package share
// adds the links for reading, package collect those for uploading; each owns its tables and decides
// what its links show and accept.
package link

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/ticket"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/domain/vault"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Row is a link as stored in the database.
type Row interface{ Identity() Identity }

// Identity identifies a link, its creator, and the node that it leads to.
type Identity struct {
	ID      string
	By      drive.UserID
	Account drive.AccountID
	Node    drive.NodeID
}

// Kind describes a kind of links, with rows T that their owner sees as V.
type Kind[T Row, V any] struct {
	Noun         string               // used in errors, such as "share"
	Table        string               // table of the links; columns id, account_id, token, and code if Codes
	Node         string               // column with the node that a link leads to
	SealedTable  string               // table of the sealed tokens; columns SealedKey and sealed
	SealedKey    string               // column of SealedTable with the link's id
	Codes        bool                 // a link may require a code
	MaxLinks     int                  // most links per account
	LimitError   func(sent int) error // returns the error for more than MaxLinks links
	Use          access.Use           // right at the node that creating the link, and every use of it, requires
	ShowsSubtree bool                 // a link shows everything below its node

	Columns string                                                           // columns that Scan reads; l is the link, t its row in SealedTable
	Scan    func(link *T, scan func(...any) error) error                     // reads a row
	Show    func(ctx context.Context, q sqldb.Querier, link T) (V, error)    // builds the owner's view of a link
	ShowAll func(ctx context.Context, q sqldb.Querier, all []T) ([]V, error) // Show for many links; nil: Show is called for each

	Created, Changed, Ended activity.Verb // verbs in the activity log
}

// Options configure New. Ledger, Access and Log are optional.
type Options struct {
	DB     *sqldb.DB
	Access *access.Access // who may create links to nodes of other accounts; default: one over DB
	Tree   *tree.Tree
	Users  *account.Users
	Ledger quota.Ledger
	Vault  *vault.Vault // holds the ticket signing secret, tokens and codes
	Now    func() time.Time
	Log    *activity.Log
}

// Links manages the links of one kind, with ids of type I. It is safe for concurrent use.
type Links[I ID, T Row, V any] struct {
	Kind[T, V]
	opt     Options
	orphans sqldb.Orphans // links to deleted nodes
}

// New returns the links of a kind.
func New[I ID, T Row, V any](kind Kind[T, V], opt Options) *Links[I, T, V] {
	if opt.Access == nil {
		opt.Access = access.New(access.Options{DB: opt.DB, Now: opt.Now})
	}
	return &Links[I, T, V]{kind, opt, sqldb.Orphans{Table: kind.Table, Key: "id", Owner: kind.Node, OwnerTable: "nodes"}}
}

// Now returns the time that expiries are compared with.
func (l *Links[I, T, V]) Now() drive.Time { return drive.TimeOf(l.opt.Now()) }

const (
	tokenBytes = 16 // 128 bits cannot be guessed
	// minLife is the shortest life of a link.
	minLife = time.Minute
	// maxLife is the longest life of a link that expires.
	maxLife = 10 * 365 * 24 * time.Hour
)

// NewToken returns a new random link token.
func NewToken() string {
	b := make([]byte, tokenBytes)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// ExpiryAfter returns the expiry of a link that lives for the given time; zero for zero (never).
// BadRequest {expires_in} unless life is between a minute and ten years.
func (l *Links[I, T, V]) ExpiryAfter(life time.Duration) (drive.Time, error) {
	switch {
	case life == 0:
		return 0, nil
	case life < minLife || life > maxLife:
		return 0, drive.BadField("expires_in", drive.OutOfRange, "min", int64(minLife.Seconds()), "max", int64(maxLife.Seconds()))
	}
	return l.Now().Add(life), nil
}

// SigningKey returns the key for signing the tickets of visitors; each purpose has its own. It
// fails as Vault.LinkSecret does.
func (l *Links[I, T, V]) SigningKey(ctx context.Context, purpose string) (ticket.Key, error) {
	secret, err := l.opt.Vault.LinkSecret(ctx)
	if err != nil {
		return nil, err
	}
	return ticket.DeriveKey(secret, purpose), nil
}

// Write runs fn in a transaction that holds the lock on the account's ledger. fn may run several
// times; its error rolls back and is returned.
func (l *Links[I, T, V]) Write(ctx context.Context, account drive.AccountID, fn func(context.Context, *sqldb.Tx) error) error {
	return l.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := l.opt.Ledger.Lock(ctx, tx, account); err != nil {
			return err
		}
		return fn(ctx, tx)
	})
}

// Authorize checks that who may create or change a link to a node, and returns the node's account.
// If links of the kind show the whole subtree (ShowsSubtree), a guest gets Forbidden for a folder
// that contains something hidden from the guest. Errors: NotFound, Forbidden.
func (l *Links[I, T, V]) Authorize(ctx context.Context, q sqldb.Querier, who drive.Who, node drive.NodeID) (drive.AccountID, error) {
	p, err := l.opt.Access.Enter(ctx, q, who, node, l.Use)
	if err != nil || !p.Who.Guest || !l.ShowsSubtree {
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

// manage checks that who may see the links to a node: a user who may create one, or who manages the
// node and may therefore delete its links. It returns the node's account.
func (l *Links[I, T, V]) manage(ctx context.Context, q sqldb.Querier, who drive.Who, node drive.NodeID) (drive.AccountID, error) {
	account, err := l.Authorize(ctx, q, who, node)
	if !drive.IsKind(err, drive.Forbidden) {
		return account, err
	}
	p, err := l.opt.Access.Enter(ctx, q, who, node, access.SetAccess)
	return p.Who.Account, err
}

// mayManage checks that who may see and change a link: the account's own user, its creator while
// still permitted, or a manager of the node. NotFound for everybody else.
func (l *Links[I, T, V]) mayManage(ctx context.Context, q sqldb.Querier, who drive.Who, m Identity) error {
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

// checkTarget checks, under the lock on the ledger, that the account may have one more link to the
// node. Errors: NotFound, WrongState {state: trashed}, TooManyOpen, and those of fits.
func (l *Links[I, T, V]) checkTarget(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, node drive.NodeID, fits func(tree.Node) error) error {
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
	if have >= l.MaxLinks {
		return l.LimitError(have + 1)
	}
	return nil
}

// IsUsable reports whether a link may be used: its node exists outside the trash, and its creator
// may sign in and still has the right to create it.
func (l *Links[I, T, V]) IsUsable(ctx context.Context, q sqldb.Querier, m Identity) (bool, error) {
	_, live, err := l.opt.Tree.PathOf(ctx, q, m.Node)
	if err == nil && live {
		var maker account.User
		maker, err = l.opt.Users.Find(ctx, q, m.By)
		live = maker.State == account.Active
		if err == nil && live && maker.Account != m.Account {
			_, err = l.Authorize(ctx, q, drive.Who{User: m.By, Account: maker.Account}, m.Node)
		}
	}
	if drive.IsKind(err, drive.NotFound, drive.Forbidden) {
		return false, nil
	}
	return live, err
}
