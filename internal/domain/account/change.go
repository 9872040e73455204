package account

import (
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Draft is a user about to be created, made by Users.Draft before the transaction.
type Draft struct {
	user User
	hash Hash
}

// Temporary makes the password one that is good for setting a new one, and for nothing else.
func (d Draft) Temporary() Draft {
	d.user.MustChange = true
	return d
}

// Account returns the account that the user will own.
func (d Draft) Account() drive.AccountID { return d.user.Account }

// User returns the user as Create will store it.
func (d Draft) User() User { return d.user }

// Draft checks the fields of a new user, hashes the password and makes the ids: all that must not
// happen in a transaction.
func (u *Users) Draft(ctx context.Context, name, password string, admin bool) (Draft, error) {
	name, err := parseName(name)
	if err == nil {
		err = checkNewName(name)
	}
	if err != nil {
		return Draft{}, err
	}
	hash, err := u.Hash(ctx, name, password)
	if err != nil {
		return Draft{}, err
	}
	now := drive.TimeOf(u.opt.Now())
	return Draft{hash: hash, user: User{
		ID: drive.NewID[drive.UserID](), Account: drive.NewID[drive.AccountID](), Name: name, Admin: admin,
		State: Active, CreatedAt: now, UpdatedAt: now,
	}}, nil
}

// Create stores the draft and its account. Storing the same draft again changes nothing; another
// user of that name, or of a name that it looks like (lookalikesOf), is NameTaken.
func (u *Users) Create(ctx context.Context, tx *sqldb.Tx, d Draft) (User, error) {
	if slots := lookalikesOf(d.user.Name); len(slots) > 0 {
		taken := 0
		row := tx.QueryRow(ctx, "SELECT COUNT(*) FROM users WHERE slot IN ("+sqldb.Marks(len(slots))+")", slots...)
		if err := row.Scan(&taken); err != nil {
			return User{}, fmt.Errorf("look for names like %q: %w", d.user.Name, err)
		}
		if taken > 0 {
			return User{}, drive.Fail(drive.NameTaken, "name", d.user.Name)
		}
	}
	if _, err := tx.InsertNew(ctx, "INSERT INTO accounts (id, created_at) VALUES (?, ?)",
		d.user.Account, d.user.CreatedAt); err != nil {
		return User{}, fmt.Errorf("create account %s: %w", d.user.Account, err)
	}
	if _, err := tx.InsertNew(ctx, `INSERT INTO users (id, account_id, name, slot, password, admin, state, created_at, updated_at, must_change)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		d.user.ID, d.user.Account, d.user.Name, slotOf(d.user.Name), string(d.hash), d.user.Admin, d.user.State,
		d.user.CreatedAt, d.user.UpdatedAt, d.user.MustChange); err != nil {
		return User{}, fmt.Errorf("create user %s: %w", d.user.ID, err)
	}
	have, err := u.FindByName(ctx, tx, d.user.Name)
	switch {
	case err != nil:
		return User{}, err
	case have.ID != d.user.ID || have.Account != d.user.Account || have.Name != d.user.Name:
		return User{}, drive.Fail(drive.NameTaken, "name", d.user.Name)
	}
	return have, nil
}

// Patch is a change of a user; zero fields stay as they are.
type Patch struct {
	Password  Hash
	Temporary bool            // the password is good for setting a new one only
	State     State           // Active or Disabled
	Admin     *bool           // nil: as it is
	End       bool            // end all sessions and tokens
	Keep      drive.SessionID // the session that outlives a change of the password
}

// Update changes a user. A new password ends all of the user's sessions and tokens except Keep and
// voids the signed links; Disabled stops them until the user is active again. Who is made or is no
// longer an administrator stays logged in, and may do more or less at once. The last active
// administrator can neither be disabled nor stop being one: WrongState.
func (u *Users) Update(ctx context.Context, tx *sqldb.Tx, id drive.UserID, p Patch) (User, error) {
	switch p.State {
	case "", Active, Disabled:
	default:
		return User{}, drive.Bad("state", drive.NotAllowed, "allowed", []State{Active, Disabled}, "sent", p.State)
	}
	n, err := tx.Exec(ctx, `UPDATE users SET updated_at = ?, password = COALESCE(NULLIF(?, ''), password),
		must_change = CASE WHEN ? = '' THEN must_change ELSE ? END,
		link_epoch = link_epoch + CASE WHEN ? = '' THEN 0 ELSE 1 END, state = COALESCE(NULLIF(?, ''), state), admin = COALESCE(?, admin)
		WHERE id = ? AND state <> 'deleted'`, drive.TimeOf(u.opt.Now()), string(p.Password), string(p.Password), p.Temporary, string(p.Password), p.State, p.Admin, id)
	if err != nil {
		return User{}, fmt.Errorf("update user %s: %w", id, err)
	}
	if n == 0 {
		return User{}, drive.Fail(drive.NotFound)
	}
	if p.Password != "" || p.End {
		if err := deleteSessions(ctx, tx, id, p.Keep); err != nil {
			return User{}, err
		}
	}
	if p.Password != "" || p.End || p.State == Disabled || p.Admin != nil {
		tx.AfterCommit(func() { u.auth.forgetUser(id) })
	}
	user, err := u.Find(ctx, tx, id)
	if err != nil {
		return User{}, err
	}
	if p.Password != "" {
		tx.AfterCommit(func() { u.opt.PasswordChanged(user.Name) })
	}
	if err := u.tellChange(ctx, tx, user, p); err != nil {
		return User{}, err
	}
	if p.Admin != nil && !*p.Admin {
		return user, u.anotherAdmin(ctx, tx)
	}
	return user, u.keepAnAdmin(ctx, tx, user)
}

// tellChange tells of a change that ends logins.
func (u *Users) tellChange(ctx context.Context, tx *sqldb.Tx, user User, p Patch) error {
	switch e := (Effect{Account: user.Account, By: tx.Actor(), All: true}); {
	case p.Password != "":
		e.What = PasswordChanged
		return u.opt.happened(ctx, tx, e)
	case p.End:
		e.What = LoggedOut
		return u.opt.happened(ctx, tx, e)
	}
	return nil
}

// keepAnAdmin refuses a change of user after which no administrator could log in.
func (u *Users) keepAnAdmin(ctx context.Context, tx *sqldb.Tx, user User) error {
	if !user.Admin || user.State == Active {
		return nil
	}
	return u.anotherAdmin(ctx, tx)
}

// anotherAdmin fails with WrongState where no administrator is left who could log in. The one who
// is left is locked until the commit, so that two who stop each other do not both succeed.
func (u *Users) anotherAdmin(ctx context.Context, tx *sqldb.Tx) error {
	var left drive.UserID
	err := tx.QueryRow(ctx, "SELECT id FROM users WHERE admin = 1 AND state = 'active' LIMIT 1"+tx.ForUpdate()).Scan(&left)
	switch {
	case drive.IsKind(err, drive.NotFound):
		return drive.Fail(drive.WrongState, "state", "last-admin")
	case err != nil:
		return fmt.Errorf("look for another administrator: %w", err)
	}
	return nil
}

// Delete makes the user unknown at once: name free, sessions ended, links void. The data stays for
// DeletedKeep. Deleting again is NotFound. The last active administrator cannot be deleted:
// WrongState.
func (u *Users) Delete(ctx context.Context, tx *sqldb.Tx, id drive.UserID) error {
	user, err := u.Find(ctx, tx, id)
	if err != nil {
		return err
	}
	now := drive.TimeOf(u.opt.Now())
	n, err := tx.Exec(ctx, `UPDATE users SET state = 'deleted', slot = ?, updated_at = ?, deleted_at = ?
		WHERE id = ? AND state <> 'deleted'`, "/"+id.String(), now, now, id)
	if err != nil {
		return fmt.Errorf("delete user %s: %w", id, err)
	}
	if n == 0 { // by somebody else since it was read
		return drive.Fail(drive.NotFound)
	}
	if err := deleteSessions(ctx, tx, id, drive.SessionID{}); err != nil {
		return err
	}
	if err := deleteIdentities(ctx, tx, id); err != nil {
		return err
	}
	tx.AfterCommit(func() { u.auth.forgetUser(id) })
	user.State = Deleted
	return u.keepAnAdmin(ctx, tx, user)
}

// Purge removes the rows of a deleted user and of its account, the last step of a purge: the ledger
// and the tree, which refer to the account, are gone by then. It does nothing for a user who is not
// deleted or is purged already.
func (u *Users) Purge(ctx context.Context, tx *sqldb.Tx, user User) error {
	if user.State == Deleted {
		if err := deletePreferences(ctx, tx, user.ID); err != nil {
			return err
		}
	}
	n, err := tx.Exec(ctx, "DELETE FROM users WHERE id = ? AND state = 'deleted'", user.ID)
	if err != nil {
		return fmt.Errorf("purge user %s: %w", user.ID, err)
	}
	if n == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, "DELETE FROM accounts WHERE id = ? AND NOT EXISTS (SELECT 1 FROM users WHERE account_id = ?)",
		user.Account, user.Account); err != nil {
		return fmt.Errorf("purge account %s: %w", user.Account, err)
	}
	return nil
}

// CreateAccount makes an account that is nobody's own. One that is there stays as it is.
func (u *Users) CreateAccount(ctx context.Context, tx *sqldb.Tx, id drive.AccountID) error {
	if _, err := tx.InsertNew(ctx, "INSERT INTO accounts (id, created_at) VALUES (?, ?)", id, drive.TimeOf(u.opt.Now())); err != nil {
		return fmt.Errorf("create account %s: %w", id, err)
	}
	return nil
}

// PurgeAccount removes the row of an account that is nobody's own, the last step of its purge.
func (u *Users) PurgeAccount(ctx context.Context, tx *sqldb.Tx, id drive.AccountID) error {
	if _, err := tx.Exec(ctx, "DELETE FROM accounts WHERE id = ? AND NOT EXISTS (SELECT 1 FROM users WHERE account_id = ?)", id, id); err != nil {
		return fmt.Errorf("purge account %s: %w", id, err)
	}
	return nil
}
