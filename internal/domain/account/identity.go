package account

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Identity is a user at an identity provider. Issuer and subject identify the person permanently,
// even if name and email address change (OpenID Connect Core 1.0 §5.7).
type Identity struct {
	Issuer  string
	Subject string
}

// key returns the hash by which an identity is stored. An issuer contains no NUL.
func (i Identity) key() string {
	sum := sha256.Sum256([]byte(i.Issuer + "\x00" + i.Subject))
	return hex.EncodeToString(sum[:])
}

// FindByIdentity returns the user connected to an identity, or NotFound.
func (u *Users) FindByIdentity(ctx context.Context, q sqldb.Querier, i Identity) (User, error) {
	var id drive.UserID
	if err := q.QueryRow(ctx, "SELECT user_id FROM identities WHERE id = ?", i.key()).Scan(&id); err != nil {
		return User{}, fmt.Errorf("find the user of an identity: %w", err)
	}
	return u.Find(ctx, q, id)
}

// Connect connects an identity to a user, who may have one per issuer. epoch is the password epoch
// under which the user confirmed (see Confirm); 0 for a new user. Repeating it changes nothing. It
// fails with Gone {reason: sign-on} if the password has changed since or the user may not log in,
// and with WrongState {state: connected} if the identity belongs to another user or the user has
// another one.
func (u *Users) Connect(ctx context.Context, tx *sqldb.Tx, user User, epoch int64, i Identity) error {
	var locked drive.UserID // serializes concurrent connects of one user
	err := tx.QueryRow(ctx, "SELECT id FROM users WHERE id = ? AND state = 'active' AND link_epoch = ?"+tx.ForUpdate(), user.ID, epoch).Scan(&locked)
	if drive.IsKind(err, drive.NotFound) {
		return drive.Wrap(err, drive.Gone, "reason", "sign-on")
	}
	if err != nil {
		return fmt.Errorf("find user %s: %w", user.ID, err)
	}
	var n int
	err = tx.QueryRow(ctx, "SELECT COUNT(*) FROM identities WHERE user_id = ? AND issuer = ? AND id <> ?", user.ID, i.Issuer, i.key()).Scan(&n)
	if err != nil {
		return fmt.Errorf("look for identities of %s: %w", user.ID, err)
	}
	if n > 0 {
		return drive.Fail(drive.WrongState, "state", "connected")
	}
	made, err := tx.InsertNew(ctx, "INSERT INTO identities (id, user_id, issuer, subject, created_at) VALUES (?, ?, ?, ?, ?)",
		i.key(), user.ID, i.Issuer, i.Subject, drive.TimeOf(u.opt.Now()))
	if err != nil {
		return fmt.Errorf("connect %s: %w", user.ID, err)
	}
	if made {
		return u.opt.happened(ctx, tx, Effect{What: Connected, Account: user.Account, By: tx.Actor(), Name: i.Issuer})
	}
	have, err := u.FindByIdentity(ctx, tx, i)
	switch {
	case err != nil:
		return err
	case have.ID != user.ID:
		return drive.Fail(drive.WrongState, "state", "connected")
	}
	return nil
}

// Disconnect removes a user's identity of an issuer and ends the logins made through an identity
// provider (see Sessions.Enter). Without an identity only the logins end. It fails with NotFound if
// the user's row does not exist.
func (u *Users) Disconnect(ctx context.Context, tx *sqldb.Tx, user User, issuer string) error {
	var locked drive.UserID // serializes with a login in progress
	if err := tx.QueryRow(ctx, "SELECT id FROM users WHERE id = ?"+tx.ForUpdate(), user.ID).Scan(&locked); err != nil {
		return fmt.Errorf("find user %s: %w", user.ID, err)
	}
	n, err := tx.Exec(ctx, "DELETE FROM identities WHERE user_id = ? AND issuer = ?", user.ID, issuer)
	if err != nil {
		return fmt.Errorf("disconnect %s: %w", user.ID, err)
	}
	if err := u.endProviderLogins(ctx, tx, user); err != nil || n == 0 {
		return err
	}
	return u.opt.happened(ctx, tx, Effect{What: Disconnected, Account: user.Account, By: tx.Actor(), Name: issuer})
}

// EndVouched deletes the logins that a user made through an identity provider, in a transaction of
// its own, and reports LoggedOut if there were any. Tokens and logins by password stay.
func (u *Users) EndVouched(ctx context.Context, user User) error {
	return u.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return u.endProviderLogins(ctx, tx, user) })
}

// endProviderLogins deletes those logins of a user that an identity provider vouches for until an
// end. If there were any, it reports LoggedOut and evicts the user from the cache of Auth when tx
// commits. Tokens and logins by password stay.
func (u *Users) endProviderLogins(ctx context.Context, tx *sqldb.Tx, user User) error {
	n, err := tx.Exec(ctx, "DELETE FROM sessions WHERE user_id = ? AND kind = 'login' AND ends_at > 0", user.ID)
	if err != nil {
		return fmt.Errorf("end the logins of %s: %w", user.ID, err)
	}
	if n == 0 {
		return nil
	}
	tx.AfterCommit(func() { u.auth.evictUser(user.ID) })
	return u.opt.happened(ctx, tx, Effect{What: LoggedOut, Account: user.Account, By: tx.Actor(), All: true})
}

// IsConnected reports whether a user has an identity of an issuer; false if the user does not
// exist.
func (u *Users) IsConnected(ctx context.Context, q sqldb.Querier, id drive.UserID, issuer string) (is bool, err error) {
	err = q.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM identities WHERE user_id = ? AND issuer = ?)", id, issuer).Scan(&is)
	if err != nil {
		err = fmt.Errorf("look for an identity of %s: %w", id, err)
	}
	return is, err
}

// deleteIdentities deletes all identities of a user and the groups assigned by providers.
func deleteIdentities(ctx context.Context, tx *sqldb.Tx, id drive.UserID) error {
	for _, table := range []string{"identities", "identity_groups"} {
		if _, err := tx.Exec(ctx, "DELETE FROM "+table+" WHERE user_id = ?", id); err != nil { //nolint:gosec // one of the two names above
			return fmt.Errorf("delete the identities of %s: %w", id, err)
		}
	}
	return nil
}

// GroupsOfProvider returns the groups that a user belongs to because of the identity provider.
func (u *Users) GroupsOfProvider(ctx context.Context, q sqldb.Querier, id drive.UserID) ([]drive.GroupID, error) {
	rows, err := q.Query(ctx, "SELECT group_id FROM identity_groups WHERE user_id = ? ORDER BY group_id", id)
	all, err := sqldb.Scan(rows, err, func(g *drive.GroupID, scan func(...any) error) error { return scan(g) })
	if err != nil {
		return nil, fmt.Errorf("read the groups of %s: %w", id, err)
	}
	return all, nil
}

// NoteGroup records that a user belongs to a group because of the identity provider. It fails with
// Gone {reason: sign-on} if the identity is no longer connected to the user.
func (u *Users) NoteGroup(ctx context.Context, tx *sqldb.Tx, id drive.UserID, i Identity, group drive.GroupID) error {
	if err := u.requireIdentity(ctx, tx, id, i); err != nil {
		return err
	}
	if _, err := tx.InsertNew(ctx, "INSERT INTO identity_groups (user_id, group_id) VALUES (?, ?)", id, group); err != nil {
		return fmt.Errorf("record a group of %s: %w", id, err)
	}
	return nil
}

// ForgetGroup deletes the record of NoteGroup that the user is in the group on behalf of an
// identity provider. The membership itself stays. A missing record is no error.
func (u *Users) ForgetGroup(ctx context.Context, tx *sqldb.Tx, id drive.UserID, group drive.GroupID) error {
	if _, err := tx.Exec(ctx, "DELETE FROM identity_groups WHERE user_id = ? AND group_id = ?", id, group); err != nil {
		return fmt.Errorf("forget a group of %s: %w", id, err)
	}
	return nil
}

// requireIdentity locks the row of a user. It fails with Forbidden {reason: sign-on-disabled} if
// the user may not log in, and with Gone {reason: sign-on} if the identity is not connected to the
// user.
func (u *Users) requireIdentity(ctx context.Context, tx *sqldb.Tx, id drive.UserID, i Identity) error {
	var locked drive.UserID
	err := tx.QueryRow(ctx, "SELECT id FROM users WHERE id = ? AND state = 'active'"+tx.ForUpdate(), id).Scan(&locked)
	if drive.IsKind(err, drive.NotFound) {
		return drive.Wrap(err, drive.Forbidden, "reason", "sign-on-disabled")
	}
	if err != nil {
		return fmt.Errorf("find user %s: %w", id, err)
	}
	have, err := u.FindByIdentity(ctx, tx, i)
	if drive.IsKind(err, drive.NotFound) || err == nil && have.ID != id {
		return drive.Fail(drive.Gone, "reason", "sign-on")
	}
	return err
}
