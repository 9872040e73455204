package account

import (
	"context"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Kind tells logins from tokens.
type Kind string

// The kinds of session.
const (
	KindLogin Kind = "login" // made by a person, for 30 days after it was last used
	KindToken Kind = "token" // made by its user for a program, with scopes and an end of its own
)

const (
	loginLife   = 30 * 24 * time.Hour
	maxSessions = 1000 // of each kind a user: a login beyond it ends the one unused for longest, a token is refused
	purgeBatch  = 500  // rows a transaction, well within its 50 ms
)

// Session is a login or a token, without its secret.
type Session struct {
	ID        drive.SessionID
	User      drive.UserID
	Kind      Kind
	Name      string // of a login the client's own description, of a token the name its user gave it
	Scopes    drive.Scope
	Heads     drive.Heads
	CreatedAt drive.Time
	SeenAt    drive.Time // exact to an hour
	ExpiresAt drive.Time // zero: never
	EndsAt    drive.Time // of a login: however much it is used, it ends then; zero: it goes on
}

// Granted is a new session and its secret, which is shown once and not kept.
type Granted struct {
	Session
	Secret     string
	MustChange bool // of a login: it is good for setting a new password only
}

// Sessions makes, lists and ends logins and tokens.
type Sessions struct {
	db       *sqldb.DB
	users    *Users
	auth     *Auth
	failures *failures
	known    *knownPairs

	passwords *passwords
	wrong     *gathered // passwords
	basic     *gathered // logins of clients that send the password with each request
	opt       Options
}

// NewSessions returns the sessions of db.
func NewSessions(db *sqldb.DB, users *Users, auth *Auth, opt Options) *Sessions {
	return &Sessions{
		db: db, users: users, auth: auth, failures: newFailures(), known: newKnownPairs(), passwords: newPasswords(),
		wrong: newGathered(LoginFailed, ""), basic: newGathered(LoggedIn, "dav"), opt: opt.withDefaults(),
	}
}

const sessionColumns = "id, user_id, kind, name, scopes, heads, created_at, seen_at, expires_at, ends_at"

func scanSession(s *Session, scan func(...any) error) error {
	return scan(&s.ID, &s.User, &s.Kind, &s.Name, &s.Scopes, &s.Heads, &s.CreatedAt, &s.SeenAt, &s.ExpiresAt, &s.EndsAt)
}

// List returns the caller's living logins or tokens, the newest first.
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

// Delete ends a session of the caller's, at once in this process and within five seconds elsewhere.
// What is not there, not of that kind or not the caller's is NotFound.
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
		tx.AfterCommit(func() { s.auth.forgetSession(id) })
		return s.opt.happened(ctx, tx, e)
	})
}

// DeleteOthers ends all logins of the caller's but the one that asks; tokens stay.
func (s *Sessions) DeleteOthers(ctx context.Context, who drive.Who) error {
	return s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := tx.Exec(ctx, "DELETE FROM sessions WHERE user_id = ? AND kind = 'login' AND id <> ?",
			who.User, who.Session.String()); err != nil {
			return fmt.Errorf("delete the other sessions of %s: %w", who.User, err)
		}
		tx.AfterCommit(func() { s.auth.forgetUser(who.User) })
		return s.opt.happened(ctx, tx, Effect{What: LoggedOut, Account: who.Account, By: who, All: true})
	})
}

// deleteSessions ends all sessions and tokens of a user but one. The zero id is not a session's,
// and as text it is not NULL.
func deleteSessions(ctx context.Context, tx *sqldb.Tx, user drive.UserID, keep drive.SessionID) error {
	if _, err := tx.Exec(ctx, "DELETE FROM sessions WHERE user_id = ? AND id <> ?", user, keep.String()); err != nil {
		return fmt.Errorf("delete the sessions of %s: %w", user, err)
	}
	return nil
}

// Purge removes sessions that expired over a day ago, in batches, and returns how many. Until then
// their bearer is told "expired" and not "invalid".
func (s *Sessions) Purge(ctx context.Context) (int64, error) {
	before := drive.TimeOf(s.opt.Kept()).Add(-24 * time.Hour)
	for total := int64(0); ; {
		var n int64
		err := s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			n, err = tx.DeleteBatch(ctx, sqldb.Batch{
				Table: "sessions", Key: "id", Where: "expires_at > 0 AND expires_at < ?", Args: []any{before}, Limit: purgeBatch,
			})
			return err
		})
		if err != nil {
			return total, fmt.Errorf("purge sessions: %w", err)
		}
		if total += n; n < purgeBatch {
			return total, nil
		}
	}
}

func insertSession(ctx context.Context, tx *sqldb.Tx, s Session, hash secretHash) error {
	if _, err := tx.Exec(ctx, `INSERT INTO sessions (`+sessionColumns+`, secret) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		s.ID, s.User, s.Kind, s.Name, s.Scopes, s.Heads, s.CreatedAt, s.SeenAt, s.ExpiresAt, s.EndsAt, hash[:]); err != nil {
		return fmt.Errorf("insert a %s of %s: %w", s.Kind, s.User, err)
	}
	return nil
}
