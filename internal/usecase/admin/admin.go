package admin

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/idem"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// defaultQuota is the limit of an account created without one, unless Options.DefaultQuota is set.
const defaultQuota = 10 * drive.GiB

// Options configure New. The zero value of each field is its default.
type Options struct {
	// DefaultQuota returns the limit of an account created without one; nil means unlimited.
	// Default: 10 GiB.
	DefaultQuota func() *drive.ByteSize
}

// Parts are the dependencies of the use cases. Those without a default are required.
type Parts struct {
	DB     *sqldb.DB
	Users  *account.Users
	Ledger quota.Ledger
	Trees  *tree.Tree
	Access *access.Access // default: access rights from DB
	Keys   *idem.Keys
	// Busy fails if the account must not be deleted now, as during a handover. Default: it
	// never fails.
	Busy func(ctx context.Context, q sqldb.Querier, account drive.AccountID) error
}

// Admin creates, changes and deletes users for administrators. It is safe for concurrent use.
type Admin struct {
	parts Parts
	opt   Options
}

// New returns an Admin.
func New(parts Parts, opt Options) *Admin {
	if parts.Access == nil {
		parts.Access = access.New(access.Options{DB: parts.DB})
	}
	if parts.Busy == nil {
		parts.Busy = func(context.Context, sqldb.Querier, drive.AccountID) error { return nil }
	}
	if opt.DefaultQuota == nil {
		opt.DefaultQuota = func() *drive.ByteSize { return new(defaultQuota) }
	}
	return &Admin{parts, opt}
}

// Local is the identity of a command on the server's machine: it has all rights of an administrator
// and no user.
func Local() drive.Who {
	return drive.Who{Admin: true, Scopes: drive.ScopeRead | drive.ScopeWrite | drive.ScopeAdmin}
}

// check returns Forbidden if the caller is not an administrator.
func check(who drive.Who) error {
	if !who.Admin {
		return drive.Fail(drive.Forbidden)
	}
	return nil
}

// User is a user with the balance of their account, as administrators see it (Q5).
type User struct {
	account.User
	Balance quota.Balance
}

// FindUser returns a user. It fails with NotFound for an unknown or deleted user, and with
// Forbidden if the caller is not an administrator.
func (a *Admin) FindUser(ctx context.Context, who drive.Who, id drive.UserID) (User, error) {
	if err := check(who); err != nil {
		return User{}, err
	}
	return a.read(ctx, a.parts.DB, id)
}

// read returns a user with the balance of the user's account, reading from q, or NotFound.
func (a *Admin) read(ctx context.Context, q sqldb.Querier, id drive.UserID) (User, error) {
	u, err := a.parts.Users.Find(ctx, q, id)
	if err != nil {
		return User{}, err
	}
	return a.withBalance(ctx, q, u)
}

// withBalance returns u with the balance of its account. It fails if the account has no ledger.
func (a *Admin) withBalance(ctx context.Context, q sqldb.Querier, u account.User) (User, error) {
	b, err := a.parts.Ledger.Get(ctx, q, u.Account)
	if err != nil {
		return User{}, fmt.Errorf("user %s: %w", u.ID, err)
	}
	return User{u, b}, nil
}

// LedgerOf returns the balance of a user's account: finished, unfinished and reserved bytes (Q5).
// It fails with NotFound for an unknown or deleted user, and with Forbidden if the caller is not an
// administrator.
func (a *Admin) LedgerOf(ctx context.Context, who drive.Who, id drive.UserID) (quota.Balance, error) {
	u, err := a.FindUser(ctx, who, id)
	return u.Balance, err
}

// UserQuery selects a page of users.
type UserQuery struct {
	Name   string // only the user with this name, case-insensitive; empty: all
	Cursor string // UserPage.Next of the previous page; empty: the first page
	Limit  int    // users per page, 1 to 1,000
}

// UserPage is a page of users in order of name. Next is the cursor of the next page, "" on the
// last.
type UserPage struct {
	Items []User
	Next  string
}

// ListUsers returns a page of users without deleted ones. It fails with Forbidden if the caller is
// not an administrator.
func (a *Admin) ListUsers(ctx context.Context, who drive.Who, query UserQuery) (UserPage, error) {
	if err := check(who); err != nil {
		return UserPage{}, err
	}
	users, next, err := a.list(ctx, query)
	if err != nil {
		return UserPage{}, err
	}
	page := UserPage{Items: make([]User, 0, len(users)), Next: next}
	for _, u := range users {
		item, err := a.withBalance(ctx, a.parts.DB, u)
		if err != nil {
			return UserPage{}, err
		}
		page.Items = append(page.Items, item)
	}
	return page, nil
}

// list returns a page of users and the cursor of the next, "" after the last. A query by name that
// finds nobody has an empty result.
func (a *Admin) list(ctx context.Context, query UserQuery) ([]account.User, string, error) {
	if query.Name == "" {
		return a.parts.Users.List(ctx, a.parts.DB, query.Cursor, query.Limit)
	}
	u, err := a.parts.Users.FindByName(ctx, a.parts.DB, query.Name)
	if drive.IsKind(err, drive.NotFound) {
		return nil, "", nil
	}
	return []account.User{u}, "", err
}
