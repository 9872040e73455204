package account

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Login is an attempt to log in.
type Login struct {
	Name     string
	Password string
	Client   netip.Addr // address of the client; zero (a local socket) is not rate limited
	Agent    string     // self-description of the client, shown in the list of sessions
}

// credential is what a password is checked against: a user's hash, or a dummy for unknown names.
type credential struct {
	user   User
	known  bool // an existing user who may log in
	hash   Hash
	parsed phc
	epoch  int64 // incremented by every change of the password

	secondFactor bool // the user has a second factor; currently always false
}

// Login checks name and password and creates a session. An unknown name, a disabled user and a
// wrong password all fail with Unauthenticated {reason: invalid} after the same work. Too many
// failures, or too many waiting clients, are Rate {retry_after}, in seconds. If ctx ends while the
// client waits, it is Unavailable. If the reply is lost, the unused session expires.
func (s *Sessions) Login(ctx context.Context, in Login) (Granted, error) {
	cred, err := s.credential(ctx, in.Name)
	if err != nil {
		return Granted{}, err
	}
	better, err := s.check(ctx, cred, in)
	if err != nil {
		return Granted{}, err
	}
	return s.createLogin(ctx, cred.user, in, 0, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := s.recheckCredential(ctx, tx, cred); err != nil {
			return err
		}
		return storeRehash(ctx, tx, cred, better)
	})
}

// Enter creates a session for a user authenticated by an identity provider, which ends after life
// at the latest. Of in it uses Client and Agent. It fails with Forbidden {reason: sign-on-disabled}
// if the user may not log in, and with Gone {reason: sign-on} if the identity is no longer
// connected to the user.
func (s *Sessions) Enter(ctx context.Context, user User, as Identity, in Login, life time.Duration) (Granted, error) {
	return s.createLogin(ctx, user, in, life, func(ctx context.Context, tx *sqldb.Tx) error { return s.users.requireIdentity(ctx, tx, user.ID, as) })
}

// Refuses fails with Rate {retry_after} if an address has too many failures.
func (s *Sessions) Refuses(client netip.Addr) error {
	if !client.IsValid() {
		return nil
	}
	return s.failures.check(s.opt.Now(), counter{addressKey(client), maxAddress})
}

// Failed counts an attempt of an address that names no user, such as a sign-on with a wrong reply,
// as a failed login; see Refuses.
func (s *Sessions) Failed(client netip.Addr) {
	if client.IsValid() {
		_ = s.failures.record(s.opt.Now(), counter{addressKey(client), maxAddress}) // an error means that the limit is reached already
	}
}

// createLogin creates the session of a login. valid runs first in the transaction: it locks the
// user's row and checks that the user may still log in. The session ends after life even if it is
// used; zero: no limit.
func (s *Sessions) createLogin(ctx context.Context, user User, in Login, life time.Duration, valid func(context.Context, *sqldb.Tx) error) (Granted, error) {
	secret, hash := newSecret()
	now := drive.TimeOf(s.opt.Now())
	session := Session{
		ID: drive.NewID[drive.SessionID](), User: user.ID, Kind: KindLogin, Name: agentName(in.Agent),
		Scopes:    drive.ScopeRead | drive.ScopeWrite | drive.ScopeAdmin,
		Heads:     drive.HeadNative,
		CreatedAt: now, SeenAt: now, ExpiresAt: now.Add(loginLife),
	}
	if life > 0 {
		session.EndsAt = now.Add(life)
		session.ExpiresAt = min(session.ExpiresAt, session.EndsAt)
	}
	err := s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := valid(ctx, tx); err != nil {
			return err
		}
		if err := dropIdlestLogin(ctx, tx, user.ID); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "UPDATE users SET last_login_at = ? WHERE id = ?", now, user.ID); err != nil {
			return fmt.Errorf("record the login of %s: %w", user.ID, err)
		}
		if err := insertSession(ctx, tx, session, hash); err != nil {
			return err
		}
		by := drive.Who{User: user.ID, Session: session.ID, Head: "api", Address: addressOf(in.Client)}
		return s.opt.happened(ctx, tx, Effect{What: LoggedIn, Account: user.Account, By: by, Session: session.ID, Name: session.Name})
	})
	if err != nil {
		return Granted{}, fmt.Errorf("log in: %w", err)
	}
	return Granted{Session: session, Secret: secret, MustChange: user.MustChange}, nil
}

// credential returns the credential of a user name; for an unknown name a dummy, after the same
// query.
func (s *Sessions) credential(ctx context.Context, name string) (credential, error) {
	slot := "/" // no user has this slot
	if name, err := parseName(name); err == nil {
		slot = slotOf(name)
	}
	c, err := s.readCredential(ctx, "slot = ?", slot)
	if drive.IsKind(err, drive.NotFound) {
		return credential{parsed: s.users.hasher.dummy}, nil
	}
	return c, err
}

// readCredential returns the user that the condition where with arg selects, with the parsed
// password hash. known is false unless the user is active. It fails with NotFound if there is no
// such user, and with another error if the stored hash is damaged.
func (s *Sessions) readCredential(ctx context.Context, where string, arg any) (credential, error) {
	var c credential
	row := s.db.QueryRow(ctx, "SELECT "+userColumns+", password, link_epoch FROM users WHERE "+where, arg)
	err := scanUser(&c.user, func(dest ...any) error { return row.Scan(append(dest, &c.hash, &c.epoch)...) })
	if err != nil {
		return credential{}, fmt.Errorf("read a credential: %w", err)
	}
	c.known = c.user.State == Active
	if c.parsed, err = parsePHC(string(c.hash)); err != nil {
		return credential{}, fmt.Errorf("read the password of %s: %w", c.user.ID, err)
	}
	return c, nil
}

// check verifies a password and counts the attempt. If the stored hash has another cost, it returns
// a new one. An attempt counts as failed while it is hashed: at most maxConcurrentHashes honest
// attempts are affected. An attempt over the limit is refused before it queues. It fails with
// Unauthenticated or Rate.
func (s *Sessions) check(ctx context.Context, cred credential, in Login) (better Hash, err error) {
	a := s.newAttempt(in, s.opt.Now())
	if err := s.failures.check(s.opt.Now(), a.counters...); err != nil {
		return "", err
	}
	leave, err := s.users.hasher.acquire(ctx, a.requester)
	if err != nil {
		return "", fmt.Errorf("wait to check a password: %w", err)
	}
	defer leave()
	if err := s.failures.record(s.opt.Now(), a.counters...); err != nil {
		return "", err
	}
	password, possible := normalPassword(in.Password)
	if !possible {
		password = ""
	}
	if !s.users.hasher.verify(cred.parsed, password) || !possible || !cred.known {
		s.failedLogins.add(cred.user, in.Client)
		return "", drive.Fail(drive.Unauthenticated, "reason", "invalid")
	}
	s.failures.unrecord(a.counters...)
	s.failures.clear(a.pairKey)
	s.knownPairs.add(a.pairKey, s.opt.Now())
	if cred.parsed.cost != s.users.hasher.cost {
		better = s.users.hasher.hash(password)
	}
	return better, nil
}

// recheckCredential checks that the password was not changed and the user not disabled during
// hashing, because the new session would survive the change. It locks the user's row, which
// serializes changes of the user's sessions.
func (s *Sessions) recheckCredential(ctx context.Context, tx *sqldb.Tx, cred credential) error {
	var id drive.UserID
	err := tx.QueryRow(ctx, "SELECT id FROM users WHERE id = ? AND state = 'active' AND link_epoch = ?"+tx.ForUpdate(),
		cred.user.ID, cred.epoch).Scan(&id)
	switch {
	case drive.IsKind(err, drive.NotFound):
		return drive.Fail(drive.Unauthenticated, "reason", "invalid")
	case err != nil:
		return fmt.Errorf("read user %s: %w", cred.user.ID, err)
	}
	return nil
}

// storeRehash replaces the hash of a password by one at the current cost, unless it has changed.
func storeRehash(ctx context.Context, tx *sqldb.Tx, cred credential, better Hash) error {
	if better == "" {
		return nil
	}
	if _, err := tx.Exec(ctx, "UPDATE users SET password = ? WHERE id = ? AND password = ?",
		string(better), cred.user.ID, string(cred.hash)); err != nil {
		return fmt.Errorf("re-hash the password of %s: %w", cred.user.ID, err)
	}
	return nil
}

// dropIdlestLogin deletes the least recently used logins if the user has maxSessions, so that a
// program that logs in at every run does not grow the table without bound.
func dropIdlestLogin(ctx context.Context, tx *sqldb.Tx, user drive.UserID) error {
	var n int
	err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM sessions WHERE user_id = ? AND kind = 'login'", user).Scan(&n)
	if err == nil && n >= maxSessions {
		_, err = tx.DeleteBatch(ctx, sqldb.Batch{
			Table: "sessions", Key: "id", Where: "user_id = ? AND kind = 'login'", Args: []any{user}, Order: "seen_at, id",
			Limit: min(n-maxSessions+1, batchSize),
		})
	}
	if err != nil {
		return fmt.Errorf("drop stale logins of %s: %w", user, err)
	}
	return nil
}

// addressOf returns an address as stored in the activity log; empty: a local socket.
func addressOf(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.Unmap().WithZone("").String()
}

// agentName removes control characters from a client's self-description and shortens it to 200
// bytes.
func agentName(s string) string {
	const limit = 200
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "")
	}
	return s
}

// Confirm checks the caller's own password before an action that a stolen session must not perform.
// A wrong password is Forbidden {reason: password} and counts as a failed login; too many failures
// are Rate {retry_after}. The returned epoch changes with the password.
func (s *Sessions) Confirm(ctx context.Context, who drive.Who, password string, client netip.Addr) (epoch int64, err error) {
	cred, err := s.readCredential(ctx, "id = ?", who.User)
	if err != nil {
		return 0, err
	}
	_, err = s.check(ctx, cred, Login{Name: cred.user.Name, Password: password, Client: client})
	if drive.IsKind(err, drive.Unauthenticated) {
		return 0, drive.Wrap(err, drive.Forbidden, "reason", "password")
	}
	return cred.epoch, err
}

// ChangePassword sets the caller's password after checking the current one, and ends the caller's
// other sessions and tokens. A wrong current password is Forbidden {reason: password} and counts as
// a failed login. It fails with BadRequest if the new password is unsuitable, with Rate after too
// many failures, and with Unauthenticated if the password changed meanwhile.
func (s *Sessions) ChangePassword(ctx context.Context, who drive.Who, current, next string, client netip.Addr) error {
	cred, err := s.readCredential(ctx, "id = ?", who.User)
	if err != nil {
		return err
	}
	if _, err := parsePassword("password", next, cred.user.Name); err != nil {
		return err
	}
	_, err = s.check(ctx, cred, Login{Name: cred.user.Name, Password: current, Client: client})
	if drive.IsKind(err, drive.Unauthenticated) {
		return drive.Wrap(err, drive.Forbidden, "reason", "password")
	} else if err != nil {
		return err
	}
	if cred.user.MustChange && next == current { // the administrator who chose it knows it
		return drive.BadField("password", drive.NotAllowed, "allowed", "another one than the current password")
	}
	hash, err := s.users.Hash(ctx, cred.user.Name, next)
	if err != nil {
		return err
	}
	return s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.SetActor(who)
		if err := s.recheckCredential(ctx, tx, cred); err != nil {
			return err
		}
		_, err := s.users.Update(ctx, tx, who.User, Patch{Password: hash, Keep: who.Session})
		return err
	})
}
