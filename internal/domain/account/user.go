package account

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// State is the state of a user.
type State string

// The states of a user.
const (
	Active   State = "active"
	Disabled State = "disabled" // cannot log in; sessions are refused, signed links are invalid
	Deleted  State = "deleted"  // invisible; the data is purged after DeletedKeep
)

// DeletedKeep is how long the data of a deleted user is kept: 30 days.
const DeletedKeep = 30 * 24 * time.Hour

// User is a person who logs in and acts on an account.
type User struct {
	ID        drive.UserID
	Account   drive.AccountID
	Name      string
	Admin     bool
	State     State
	CreatedAt drive.Time
	UpdatedAt drive.Time
	DeletedAt drive.Time

	MustChange bool       // another person chose the password: a login may only set a new one
	LastLogin  drive.Time // zero: never
}

// Options configures the package. The zero value of each field selects its default.
type Options struct {
	// Cost of hashing a new password. Default: DefaultCost. A login re-hashes a password stored at
	// another cost.
	Cost Cost
	// PasswordChanged is called with the user's name after the commit of a new password; it must
	// not block. Default: no call.
	PasswordChanged func(name string)
	// Happened is called in the transaction of each security event. The user's row is locked. An
	// error rolls the transaction back. Default: no call.
	Happened func(ctx context.Context, tx *sqldb.Tx, e Effect) error
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Kept is the clock that retention periods are measured with; see package retention. Default:
	// Now.
	Kept func() time.Time
	// Log receives errors that no caller gets. Default: slog.Default.
	Log *slog.Logger
}

// withDefaults returns o with its defaults set.
func (o Options) withDefaults() Options {
	if o.PasswordChanged == nil {
		o.PasswordChanged = func(string) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Kept == nil {
		o.Kept = o.Now
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	return o
}

// Users creates, finds and changes users.
type Users struct {
	db     *sqldb.DB
	auth   *Auth
	hasher *hasher
	opt    Options
}

// NewUsers returns the users of db. A change of a user evicts the user's sessions from the cache of
// auth.
func NewUsers(db *sqldb.DB, auth *Auth, opt Options) *Users {
	return &Users{db: db, auth: auth, hasher: newHasher(opt.Cost), opt: opt.withDefaults()}
}

// Hashes returns the number of passwords hashed since the start.
func (u *Users) Hashes() int64 { return u.hasher.count.Load() }

// Hash validates and hashes a new password for the user of that name. It takes tens of
// milliseconds; never call it in a transaction. It fails with BadRequest for an unsuitable
// password, with Rate if too many hashes wait, and with Unavailable if ctx ends.
func (u *Users) Hash(ctx context.Context, name, password string) (Hash, error) {
	password, err := parsePassword("password", password, name)
	if err != nil {
		return "", err
	}
	leave, err := u.hasher.acquire(ctx, requester{known: true})
	if err != nil {
		return "", fmt.Errorf("wait to hash a password: %w", err)
	}
	defer leave()
	return u.hasher.hash(password), nil
}

// userColumns are the columns that scanUser reads.
const userColumns = "id, account_id, name, admin, state, created_at, updated_at, deleted_at, must_change, last_login_at"

// scanUser reads userColumns into u.
func scanUser(u *User, scan func(...any) error) error {
	return scan(&u.ID, &u.Account, &u.Name, &u.Admin, &u.State, &u.CreatedAt, &u.UpdatedAt, &u.DeletedAt, &u.MustChange, &u.LastLogin)
}

// Find returns a user. It fails with NotFound for unknown and deleted users.
func (u *Users) Find(ctx context.Context, q sqldb.Querier, id drive.UserID) (User, error) {
	var user User
	row := q.QueryRow(ctx, "SELECT "+userColumns+" FROM users WHERE id = ? AND state <> 'deleted'", id)
	if err := scanUser(&user, row.Scan); err != nil {
		return User{}, fmt.Errorf("find user %s: %w", id, err)
	}
	return user, nil
}

// FindMany returns users by id. Unknown and deleted users have no entry.
func (u *Users) FindMany(ctx context.Context, q sqldb.Querier, ids ...drive.UserID) (map[drive.UserID]User, error) {
	found := make(map[drive.UserID]User, len(ids))
	for some := range slices.Chunk(ids, usersPerStatement) {
		marks, args := sqldb.ListArgs(some)
		rows, err := q.Query(ctx, "SELECT "+userColumns+" FROM users WHERE id IN ("+marks+") AND state <> 'deleted'", args...)
		all, err := sqldb.Scan(rows, err, scanUser)
		if err != nil {
			return nil, fmt.Errorf("find %d users: %w", len(ids), err)
		}
		for _, user := range all {
			found[user.ID] = user
		}
	}
	return found, nil
}

const usersPerStatement = 500 // users that one statement reads

// Names returns the names of users by id, deleted ones included. Unknown ids have no entry. All ids
// become arguments of one statement.
func (u *Users) Names(ctx context.Context, q sqldb.Querier, ids ...drive.UserID) (map[drive.UserID]string, error) {
	names := make(map[drive.UserID]string, len(ids))
	if len(ids) == 0 {
		return names, nil
	}
	marks, args := sqldb.ListArgs(ids)
	rows, err := q.Query(ctx, "SELECT id, name FROM users WHERE id IN ("+marks+")", args...)
	_, err = sqldb.Scan(rows, err, func(user *User, scan func(...any) error) error {
		err := scan(&user.ID, &user.Name)
		names[user.ID] = user.Name
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the names of %d users: %w", len(ids), err)
	}
	return names, nil
}

// FindByName returns the user of a name, ignoring case, also a disabled one. It fails with NotFound
// if there is none, also if the name could not be one. Deleted users are not found, as their names
// are free.
func (u *Users) FindByName(ctx context.Context, q sqldb.Querier, name string) (User, error) {
	name, err := parseName(name)
	if err != nil {
		return User{}, drive.Wrap(err, drive.NotFound)
	}
	var user User
	row := q.QueryRow(ctx, "SELECT "+userColumns+" FROM users WHERE slot = ?", slotOf(name))
	if err := scanUser(&user, row.Scan); err != nil {
		return User{}, fmt.Errorf("find user %q: %w", name, err)
	}
	return user, nil
}

const maxPage = 1000 // users per page, as the API promises

// List returns up to limit (1 to 1,000) users ordered by folded name, without deleted ones, and the
// cursor of the next page; "" after the last. It fails with CursorInvalid if the cursor is
// malformed.
func (u *Users) List(ctx context.Context, q sqldb.Querier, cursor string, limit int) ([]User, string, error) {
	after, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return nil, "", drive.Wrap(err, drive.CursorInvalid)
	}
	limit = max(1, min(limit, maxPage))
	rows, err := q.Query(ctx, "SELECT "+userColumns+
		" FROM users WHERE slot > ? AND state <> 'deleted' ORDER BY slot LIMIT ?", string(after), limit+1)
	users, err := sqldb.Scan(rows, err, scanUser)
	if err != nil {
		return nil, "", fmt.Errorf("list users: %w", err)
	}
	if len(users) <= limit {
		return users, "", nil
	}
	last := slotOf(users[limit-1].Name)
	return users[:limit], base64.RawURLEncoding.EncodeToString([]byte(last)), nil
}

// ListDeleted returns up to limit users deleted before the given time, oldest deletion first, for
// the purge.
func (u *Users) ListDeleted(ctx context.Context, q sqldb.Querier, before drive.Time, limit int) ([]User, error) {
	rows, err := q.Query(ctx, "SELECT "+userColumns+
		" FROM users WHERE deleted_at > 0 AND deleted_at < ? ORDER BY deleted_at, id LIMIT ?", before, limit)
	users, err := sqldb.Scan(rows, err, scanUser)
	if err != nil {
		return nil, fmt.Errorf("list deleted users: %w", err)
	}
	return users, nil
}

// Any reports whether at least one user exists, deleted ones included.
func (u *Users) Any(ctx context.Context, q sqldb.Querier) (bool, error) {
	var n int
	if err := q.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM users)").Scan(&n); err != nil {
		return false, fmt.Errorf("look for a user: %w", err)
	}
	return n == 1, nil
}

// LinkEpoch returns the number that valid signed links of a user carry. It fails with NotFound
// unless the user is active.
func (u *Users) LinkEpoch(ctx context.Context, user drive.UserID) (int64, error) {
	var epoch int64
	row := u.db.QueryRow(ctx, "SELECT link_epoch FROM users WHERE id = ? AND state = 'active'", user)
	if err := row.Scan(&epoch); err != nil {
		return 0, fmt.Errorf("read the link epoch of %s: %w", user, err)
	}
	return epoch, nil
}

// CheckSession fails with NotFound if a login or token does not exist or has expired. Links created
// by a session depend on it. It reads the database, so that it sees sessions ended by other
// processes.
func (u *Users) CheckSession(ctx context.Context, id drive.SessionID) error {
	var end drive.Time
	if err := u.db.QueryRow(ctx, "SELECT expires_at FROM sessions WHERE id = ?", id).Scan(&end); err != nil {
		return fmt.Errorf("read session %s: %w", id, err)
	}
	if end != 0 && drive.TimeOf(u.opt.Now()) >= end {
		return drive.Fail(drive.NotFound)
	}
	return nil
}
