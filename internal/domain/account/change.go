package account

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Draft is a user about to be created, prepared by Users.Draft before the transaction.
type Draft struct {
	user User
	hash Hash
}

// Temporary returns a copy of d whose password only allows setting a new one.
func (d Draft) Temporary() Draft {
	d.user.MustChange = true
	return d
}

// Account returns the id of the account that the user will own.
func (d Draft) Account() drive.AccountID { return d.user.Account }

// User returns the user as Create will store it.
func (d Draft) User() User { return d.user }

// Draft validates the fields of a new user, hashes the password and creates the ids. It stores
// nothing. It is slow; call it outside of transactions. It fails with BadRequest if a field is not
// valid, with Rate if too many hashes wait, and with Unavailable if ctx ends.
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

// Create stores the user and the account of a draft. Storing the same draft again changes nothing.
// It fails with NameTaken if another user has the name or one that looks like it (lookalikeSlots).
func (u *Users) Create(ctx context.Context, tx *sqldb.Tx, d Draft) (User, error) {
	if slots := lookalikeSlots(d.user.Name); len(slots) > 0 {
		taken := 0
		row := tx.QueryRow(ctx, "SELECT COUNT(*) FROM users WHERE slot IN ("+sqldb.Placeholders(len(slots))+")", slots...)
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

// Patch lists changes of a user; a zero field leaves its property unchanged.
type Patch struct {
	Password  Hash            // new password
	Temporary bool            // Password only allows setting a new one
	State     State           // Active or Disabled
	Admin     *bool           // nil: unchanged
	End       bool            // end all sessions and tokens
	Keep      drive.SessionID // session that survives a change of the password
}

// Update changes a user. A new password ends all sessions and tokens of the user except Keep, and
// invalidates signed links. A disabled user's sessions are refused until the user is active again.
// A change of Admin applies to existing sessions at once. It fails with BadRequest for another
// state than Active and Disabled, with NotFound for a deleted user, and with WrongState {state:
// last-admin} if no active administrator would be left.
func (u *Users) Update(ctx context.Context, tx *sqldb.Tx, id drive.UserID, p Patch) (User, error) {
	switch p.State {
	case "", Active, Disabled:
	default:
		return User{}, drive.BadField("state", drive.NotAllowed, "allowed", []State{Active, Disabled}, "sent", p.State)
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
		tx.AfterCommit(func() { u.auth.evictUser(id) })
	}
	user, err := u.Find(ctx, tx, id)
	if err != nil {
		return User{}, err
	}
	if p.Password != "" {
		tx.AfterCommit(func() { u.opt.PasswordChanged(user.Name) })
	}
	if err := u.reportChange(ctx, tx, user, p); err != nil {
		return User{}, err
	}
	if p.Admin != nil && !*p.Admin {
		return user, u.requireAdmin(ctx, tx)
	}
	return user, u.checkAdminRemains(ctx, tx, user)
}

// reportChange passes a change that ends all sessions of a user to Options.Happened:
// PasswordChanged for a new password, else LoggedOut if p.End. It does nothing for other changes.
func (u *Users) reportChange(ctx context.Context, tx *sqldb.Tx, user User, p Patch) error {
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

// checkAdminRemains fails with WrongState if user was an active administrator, no longer is, and no
// other is left.
func (u *Users) checkAdminRemains(ctx context.Context, tx *sqldb.Tx, user User) error {
	if !user.Admin || user.State == Active {
		return nil
	}
	return u.requireAdmin(ctx, tx)
}

// requireAdmin fails with WrongState if no active administrator is left. It locks the one it finds
// until commit, so that two administrators cannot demote each other concurrently.
func (u *Users) requireAdmin(ctx context.Context, tx *sqldb.Tx) error {
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

// Delete deletes a user: the name is free, sessions end, and links are invalid at once. The data
// stays for DeletedKeep. It fails with NotFound if the user is already deleted, and with WrongState
// for the last active administrator.
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
	if n == 0 { // deleted concurrently
		return drive.Fail(drive.NotFound)
	}
	if err := deleteSessions(ctx, tx, id, drive.SessionID{}); err != nil {
		return err
	}
	if err := deleteIdentities(ctx, tx, id); err != nil {
		return err
	}
	tx.AfterCommit(func() { u.auth.evictUser(id) })
	user.State = Deleted
	return u.checkAdminRemains(ctx, tx, user)
}

// Purge deletes the rows of a deleted user and of its account. Call it last: ledger and tree, which
// refer to the account, must be deleted before. It does nothing unless the user is deleted.
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

// CreateAccount creates an account without an owner, for a space. An existing one stays.
func (u *Users) CreateAccount(ctx context.Context, tx *sqldb.Tx, id drive.AccountID) error {
	if _, err := tx.InsertNew(ctx, "INSERT INTO accounts (id, created_at) VALUES (?, ?)", id, drive.TimeOf(u.opt.Now())); err != nil {
		return fmt.Errorf("create account %s: %w", id, err)
	}
	return nil
}

// PurgeAccount deletes the row of an account that no user owns, such as that of a space; it does
// nothing for another account. Call it after everything else of the account has been deleted.
func (u *Users) PurgeAccount(ctx context.Context, tx *sqldb.Tx, id drive.AccountID) error {
	if _, err := tx.Exec(ctx, "DELETE FROM accounts WHERE id = ? AND NOT EXISTS (SELECT 1 FROM users WHERE account_id = ?)", id, id); err != nil {
		return fmt.Errorf("purge account %s: %w", id, err)
	}
	return nil
}
