package account

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Login is an attempt to log in.
type Login struct {
	Name     string
	Password string
	Client   netip.Addr // where it comes from; zero (a local socket) is not counted
	Agent    string     // what the client calls itself, shown in the list of sessions
}

// credential is what a password is checked against: a user's hash, or the dummy.
type credential struct {
	user  User
	known bool // a user who may log in
	hash  Hash
	phc   phc
	epoch int64 // raised by every change of the password

	secondFactor bool // the user has one; nothing sets it: there is none
}

// Login checks name and password and makes a session. Unknown, disabled and wrong are one answer
// (Unauthenticated, reason "invalid") after the same work; too many failures are Rate with
// retry_after in seconds. A login whose reply is lost leaves a session that nobody can use; it
// expires.
func (s *Sessions) Login(ctx context.Context, in Login) (Granted, error) {
	cred, err := s.credential(ctx, in.Name)
	if err != nil {
		return Granted{}, err
	}
	better, err := s.check(ctx, cred, in)
	if err != nil {
		return Granted{}, err
	}
	return s.open(ctx, cred.user, in, 0, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := s.stillValid(ctx, tx, cred); err != nil {
			return err
		}
		return improve(ctx, tx, cred, better)
	})
}

// Enter makes a session for a user whom somebody else vouches for, now and at most for life; of in
// it takes where they come from and what they use. Forbidden {reason: sign-on-disabled}: the user
// may not log in; Gone {reason: sign-on}: the identity is no longer theirs.
func (s *Sessions) Enter(ctx context.Context, user User, as Identity, in Login, life time.Duration) (Granted, error) {
	return s.open(ctx, user, in, life, func(ctx context.Context, tx *sqldb.Tx) error { return s.users.mustBe(ctx, tx, user.ID, as) })
}

// Refuses is Rate {retry_after} where too much of what came from an address has failed.
func (s *Sessions) Refuses(client netip.Addr) error {
	if !client.IsValid() {
		return nil
	}
	return s.failures.refuses(s.opt.Now(), counter{addressKey(client), maxAddress})
}

// Failed counts what an address has tried without a name as a failed login; see Refuses.
func (s *Sessions) Failed(client netip.Addr) {
	if client.IsValid() {
		_ = s.failures.take(s.opt.Now(), counter{addressKey(client), maxAddress}) // one that is refused by now is counted enough
	}
}

// open makes the session of a login. In its transaction valid locks the user's row and says whether
// they may still log in. The session ends after life, however much it is used; zero: it goes on.
func (s *Sessions) open(ctx context.Context, user User, in Login, life time.Duration, valid func(context.Context, *sqldb.Tx) error) (Granted, error) {
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
		if err := dropStale(ctx, tx, user.ID); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "UPDATE users SET last_login_at = ? WHERE id = ?", now, user.ID); err != nil {
			return fmt.Errorf("note the login of %s: %w", user.ID, err)
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

// credential reads the user of that name; for a name that nobody has it returns the dummy, after
// the same query.
func (s *Sessions) credential(ctx context.Context, name string) (credential, error) {
	slot := "/" // no user's
	if name, err := parseName(name); err == nil {
		slot = slotOf(name)
	}
	c, err := s.readCredential(ctx, "slot = ?", slot)
	if drive.IsKind(err, drive.NotFound) {
		return credential{phc: s.users.hasher.dummy}, nil
	}
	return c, err
}

func (s *Sessions) readCredential(ctx context.Context, where string, arg any) (credential, error) {
	var c credential
	row := s.db.QueryRow(ctx, "SELECT "+userColumns+", password, link_epoch FROM users WHERE "+where, arg)
	err := scanUser(&c.user, func(dest ...any) error { return row.Scan(append(dest, &c.hash, &c.epoch)...) })
	if err != nil {
		return credential{}, fmt.Errorf("read a credential: %w", err)
	}
	c.known = c.user.State == Active
	if c.phc, err = parsePHC(string(c.hash)); err != nil {
		return credential{}, fmt.Errorf("read the password of %s: %w", c.user.ID, err)
	}
	return c, nil
}

// check compares the password, counting the attempt, and returns a hash at the current cost if the
// stored one has another. The attempt is counted while it has its turn to hash: at most maxHashing
// honest ones are counted as failures meanwhile. One that will be refused does not stand in line
// for it.
func (s *Sessions) check(ctx context.Context, cred credential, in Login) (better Hash, err error) {
	a := s.attempt(in, s.opt.Now())
	if err := s.failures.refuses(s.opt.Now(), a.counters...); err != nil {
		return "", err
	}
	leave, err := s.users.hasher.enter(ctx, a.visitor)
	if err != nil {
		return "", fmt.Errorf("wait to check a password: %w", err)
	}
	defer leave()
	if err := s.failures.take(s.opt.Now(), a.counters...); err != nil {
		return "", err
	}
	password, possible := normalPassword(in.Password)
	if !possible {
		password = ""
	}
	if !s.users.hasher.verify(cred.phc, password) || !possible || !cred.known {
		s.wrong.add(cred.user, in.Client)
		return "", drive.Fail(drive.Unauthenticated, "reason", "invalid")
	}
	s.failures.undo(a.counters...)
	s.failures.forget(a.pair)
	s.known.add(a.pair, s.opt.Now())
	if cred.phc.cost != s.users.hasher.cost {
		better = s.users.hasher.make(password)
	}
	return better, nil
}

// stillValid makes sure that the password was not changed and the user not stopped while the hash
// was computed: such a session would outlive the change. It locks the user's row: sessions come and
// go by turns.
func (s *Sessions) stillValid(ctx context.Context, tx *sqldb.Tx, cred credential) error {
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

// improve replaces a hash by one of the same password at the current cost, unless another login
// did.
func improve(ctx context.Context, tx *sqldb.Tx, cred credential, better Hash) error {
	if better == "" {
		return nil
	}
	if _, err := tx.Exec(ctx, "UPDATE users SET password = ? WHERE id = ? AND password = ?",
		string(better), cred.user.ID, string(cred.hash)); err != nil {
		return fmt.Errorf("re-hash the password of %s: %w", cred.user.ID, err)
	}
	return nil
}

// dropStale makes room for one more login: a program that logs in at every run must not grow the
// table without end.
func dropStale(ctx context.Context, tx *sqldb.Tx, user drive.UserID) error {
	var n int
	err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM sessions WHERE user_id = ? AND kind = 'login'", user).Scan(&n)
	if err == nil && n >= maxSessions {
		_, err = tx.DeleteBatch(ctx, sqldb.Batch{
			Table: "sessions", Key: "id", Where: "user_id = ? AND kind = 'login'", Args: []any{user}, Order: "seen_at, id",
			Limit: min(n-maxSessions+1, purgeBatch),
		})
	}
	if err != nil {
		return fmt.Errorf("drop stale logins of %s: %w", user, err)
	}
	return nil
}

// addressOf is the address of a client as the activity log has it; empty: a local socket.
func addressOf(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.Unmap().WithZone("").String()
}

// agentName cuts what a client says of itself to something that can be shown.
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

// Confirm checks the caller's own password before something that a stolen login must not do. A
// wrong one is Forbidden {reason: password} and counts as a failed login. The epoch is the
// password's: it is another one once that was changed.
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

// ChangePassword sets the caller's own password after checking the current one, and ends the
// caller's other sessions and tokens. A wrong current password is Forbidden and counts as a failed
// login.
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
	if cred.user.MustChange && next == current { // whoever gave it knows it
		return drive.Bad("password", drive.NotAllowed, "allowed", "another one than the current password")
	}
	hash, err := s.users.Hash(ctx, cred.user.Name, next)
	if err != nil {
		return err
	}
	return s.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		tx.ActFor(who)
		if err := s.stillValid(ctx, tx, cred); err != nil {
			return err
		}
		_, err := s.users.Update(ctx, tx, who.User, Patch{Password: hash, Keep: who.Session})
		return err
	})
}
