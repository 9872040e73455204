package admin

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Change lists the changes to a user. Absent fields leave the user unchanged.
type Change struct {
	Total    Total
	Password *string
	State    account.State // Active or Disabled; "": unchanged
	Admin    *bool         // nil: unchanged

	MustChange bool // with Password only: the user must set another password at the next sign-in
}

// SetUser applies c completely or not at all and returns the user. A limit below the current usage
// is allowed; uploads then fail (Q4). A new password ends the user's sessions and tokens, except
// the caller's own session. It fails with Forbidden if the caller is not an administrator, with
// NotFound, and with BadRequest for MustChange without a Password.
func (a *Admin) SetUser(ctx context.Context, who drive.Who, id drive.UserID, c Change) (User, error) {
	if err := check(who); err != nil {
		return User{}, err
	}
	if err := c.Total.check(); err != nil {
		return User{}, err
	}
	patch := account.Patch{State: c.State, Admin: c.Admin, Keep: who.Session, Temporary: c.MustChange}
	if c.MustChange && c.Password == nil {
		return User{}, drive.BadField("password", drive.Required)
	}
	if c.Password != nil {
		named, err := a.parts.Users.Find(ctx, a.parts.DB, id)
		if err != nil {
			return User{}, err
		}
		if patch.Password, err = a.parts.Users.Hash(ctx, named.Name, *c.Password); err != nil {
			return User{}, err
		}
	}
	var user User
	err := a.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.SetActor(who)
		if c.State == account.Active {
			if err := a.open(ctx, tx, id); err != nil {
				return err
			}
		}
		changed, err := a.parts.Users.Update(ctx, tx, id, patch)
		if err != nil {
			return err
		}
		if c.Total.Given {
			if err := a.parts.Ledger.SetTotal(ctx, tx, changed.Account, c.Total.Bytes); err != nil {
				return err
			}
		}
		user, err = a.withBalance(ctx, tx, changed)
		return err
	})
	return user, err
}

// open reopens the tree of a user who is enabled again. A handover closes it.
func (a *Admin) open(ctx context.Context, tx *sqldb.Tx, id drive.UserID) error {
	user, err := a.parts.Users.Find(ctx, tx, id) // before the lock: the account of a user never changes
	if err != nil {
		return err
	}
	if err := a.parts.Ledger.Lock(ctx, tx, user.Account); err != nil {
		return err
	}
	return a.parts.Trees.Open(ctx, tx, user.Account)
}

// DeleteUser hides a user at once; the data is purged after account.DeletedKeep. It fails with
// Forbidden if the caller is not an administrator, with WrongState for the last administrator, and
// with WrongState {state: handing-over} while the account is either side of a handover.
func (a *Admin) DeleteUser(ctx context.Context, who drive.Who, id drive.UserID) error {
	if err := check(who); err != nil {
		return err
	}
	found, err := a.parts.Users.Find(ctx, a.parts.DB, id)
	if err != nil {
		return err
	}
	return a.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := a.parts.Ledger.Lock(ctx, tx, found.Account); err != nil {
			return err
		}
		user, err := a.parts.Users.Find(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := a.parts.Busy(ctx, tx, user.Account); err != nil {
			return err
		}
		if err := a.parts.Users.Delete(ctx, tx, id); err != nil {
			return err
		}
		// What was shared with them, and of theirs, is shared no more.
		if err := a.parts.Access.DeletePrincipal(ctx, tx, drive.PrincipalID(id)); err != nil {
			return err
		}
		return a.parts.Access.DeleteAccount(ctx, tx, user.Account)
	})
}
