package account

import (
	"context"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Kind distinguishes logins from API tokens.
type Kind string

// The kinds of session.
const (
	KindLogin Kind = "login" // made by a person; ends 30 days after its last use
	KindToken Kind = "token" // made by its user for a program, with its own scopes and expiry
)

// Bounds of sessions.
const (
	loginLife   = 30 * 24 * time.Hour
	maxSessions = 1000 // per kind and user: a further login ends the least recently used one, a further token is refused
	batchSize   = 500  // rows per transaction, well within 50 ms
)

// Session is a login or an API token, without its secret.
type Session struct {
	ID        drive.SessionID
	User      drive.UserID
	Kind      Kind
	Name      string // of a login the client's self-description, of a token its name
	Scopes    drive.Scope
	Heads     drive.Heads
	CreatedAt drive.Time
	SeenAt    drive.Time // last use, exact to an hour
	ExpiresAt drive.Time // zero: never
	EndsAt    drive.Time // of a login: fixed end even if it is used; zero: none
}

// Granted is a new session with its secret, which is returned once and not stored.
type Granted struct {
	Session
	Secret     string
	MustChange bool // of a login: it may only set a new password
}

// Sessions creates, lists and ends logins and tokens.
type Sessions struct {
	db         *sqldb.DB
	users      *Users
	auth       *Auth
	failures   *failures
	knownPairs *knownPairs

	passwords    *passwordCache
	failedLogins *attemptLog // attempts with a wrong password
	basicLogins  *attemptLog // logins of clients that send the password with each request
	opt          Options
}

// NewSessions returns the sessions of db.
func NewSessions(db *sqldb.DB, users *Users, auth *Auth, opt Options) *Sessions {
	return &Sessions{
		db: db, users: users, auth: auth, failures: newFailures(), knownPairs: newKnownPairs(), passwords: newPasswordCache(),
		failedLogins: newAttemptLog(LoginFailed, ""), basicLogins: newAttemptLog(LoggedIn, "dav"), opt: opt.withDefaults(),
	}
}

// sessionColumns are the columns that scanSession reads.
const sessionColumns = "id, user_id, kind, name, scopes, heads, created_at, seen_at, expires_at, ends_at"

// scanSession reads sessionColumns into s.
func scanSession(s *Session, scan func(...any) error) error {
	return scan(&s.ID, &s.User, &s.Kind, &s.Name, &s.Scopes, &s.Heads, &s.CreatedAt, &s.SeenAt, &s.ExpiresAt, &s.EndsAt)
}

// List returns up to maxSessions of the caller's logins or tokens, as kind says, that have not
// expired, newest first. It reads the database, not the cache.
func (s *Sessions) List(ctx context.Context, who drive.Who, kind Kind) ([]Session, error) {
	rows, err := s.db.For(who.Account).Query(ctx, "SELECT "+sessionColumns+` FROM sessions
		WHERE user_id = ? AND kind = ? AND (expires_at = 0 OR expires_at > ?) ORDER BY id DESC LIMIT ?`,
		who.User, kind, drive.TimeOf(s.opt.Now()), maxSessions)
	all, err := sqldb.Scan(rows, err, scanSession)
	if err != nil {
		return nil, fmt.Errorf("list the %ss of %s: %w", kind, who.User, err)
	}
	return all, nil
}

// Delete ends a session of the caller: at once in this process, within five seconds in others. It
// fails with NotFound if there is no such session of that kind of the caller.
func (s *Sessions) Delete(ctx context.Context, who drive.Who, kind Kind, id drive.SessionID) error {
	return s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		e := Effect{What: LoggedOut, Account: who.Account, By: who, Session: id}
		if kind == KindToken {
			e.What = TokenRevoked
		}
		row := tx.QueryRow(ctx, "SELECT name FROM sessions WHERE id = ? AND user_id = ? AND kind = ?"+tx.ForUpdate(), id, who.User, kind)
		if err := row.Scan(&e.Name); err != nil {
			return fmt.Errorf("find session %s: %w", id, err)
		}
		if _, err := tx.Exec(ctx, "DELETE FROM sessions WHERE id = ?", id); err != nil {
			return fmt.Errorf("delete session %s: %w", id, err)
		}
		tx.AfterCommit(func() { s.auth.evictSession(id) })
		return s.opt.happened(ctx, tx, e)
	})
}

// DeleteOthers deletes all logins of the caller except the current one, reports LoggedOut, and
// evicts the user from the cache of Auth; tokens stay. Deleting none is no error.
func (s *Sessions) DeleteOthers(ctx context.Context, who drive.Who) error {
	return s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := tx.Exec(ctx, "DELETE FROM sessions WHERE user_id = ? AND kind = 'login' AND id <> ?",
			who.User, who.Session.String()); err != nil {
			return fmt.Errorf("delete the other sessions of %s: %w", who.User, err)
		}
		tx.AfterCommit(func() { s.auth.evictUser(who.User) })
		return s.opt.happened(ctx, tx, Effect{What: LoggedOut, Account: who.Account, By: who, All: true})
	})
}

// deleteSessions deletes all logins and API tokens of a user except keep; a zero keep spares none.
// The caller must evict the user's cached sessions after the commit (Auth.evictUser).
func deleteSessions(ctx context.Context, tx *sqldb.Tx, user drive.UserID, keep drive.SessionID) error {
	if _, err := tx.Exec(ctx, "DELETE FROM sessions WHERE user_id = ? AND id <> ?", user, keep.String()); err != nil {
		return fmt.Errorf("delete the sessions of %s: %w", user, err)
	}
	return nil
}

// Purge deletes sessions that expired over a day ago, in batches, and returns their number. Until
// then their bearer gets "expired" instead of "invalid".
func (s *Sessions) Purge(ctx context.Context) (int64, error) {
	before := drive.TimeOf(s.opt.Kept()).Add(-24 * time.Hour)
	for total := int64(0); ; {
		var n int64
		err := s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			n, err = tx.DeleteBatch(ctx, sqldb.Batch{
				Table: "sessions", Key: "id", Where: "expires_at > 0 AND expires_at < ?", Args: []any{before}, Limit: batchSize,
			})
			return err
		})
		if err != nil {
			return total, fmt.Errorf("purge sessions: %w", err)
		}
		if total += n; n < batchSize {
			return total, nil
		}
	}
}

// insertSession inserts the row of a login or token with the hash of its secret. The secret itself
// is stored nowhere. The caller checks the limits.
func insertSession(ctx context.Context, tx *sqldb.Tx, s Session, hash secretHash) error {
	if _, err := tx.Exec(ctx, `INSERT INTO sessions (`+sessionColumns+`, secret) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		s.ID, s.User, s.Kind, s.Name, s.Scopes, s.Heads, s.CreatedAt, s.SeenAt, s.ExpiresAt, s.EndsAt, hash[:]); err != nil {
		return fmt.Errorf("insert a %s of %s: %w", s.Kind, s.User, err)
	}
	return nil
}
