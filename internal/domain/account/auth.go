package account

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

const (
	trustFor    = 5 * time.Second // how long a row that was read may be acted on: the latency of a foreign revocation
	checkEvery  = 4 * time.Second // so that a row in use is read again before trustFor is over
	recentlyFor = time.Minute     // a session used this recently is kept fresh, so that a slow sender needs no database
	touchAfter  = time.Hour       // seen_at and expires_at are exact to this
	maxCached   = 16 << 10        // sessions in memory, about 4 MiB
)

// Auth says who a bearer secret acts for. It is safe for concurrent use.
type Auth struct {
	db  *sqldb.DB
	opt Options

	limit int // of cached

	mu     sync.RWMutex
	cached map[secretHash]*cachedSession
	epoch  int64 // raised by every revocation: what was read before it is not put into the cache after it
}

// cachedSession is a session as read; all but the atomic is written under the lock.
type cachedSession struct {
	hash   secretHash
	row    authRow
	readAt time.Time    // before the query began
	usedAt atomic.Int64 // Unix ns of the last Authenticate
}

// authRow is what the database says of a session and its user.
type authRow struct {
	session Session
	hash    []byte
	account drive.AccountID
	name    string // the user's
	slot    string // that name, folded
	admin   bool
	state   State
	renew   bool // nothing but setting a new password
}

// NewAuth returns the authentication of db's sessions.
func NewAuth(db *sqldb.DB, opt Options) *Auth {
	return &Auth{db: db, opt: opt.withDefaults(), limit: maxCached, cached: map[secretHash]*cachedSession{}}
}

// Authenticate returns who the bearer secret acts for at the native head. The error is
// Unauthenticated with reason "missing", "invalid" or "expired", Forbidden with reason "head" for a
// token of other heads, or the database's where it had to be asked. A session in use costs no
// database access while Run runs.
func (a *Auth) Authenticate(ctx context.Context, bearer string) (drive.Who, error) {
	return a.AuthenticateAt(ctx, bearer, drive.HeadNative)
}

// AuthenticateAt is Authenticate for another head.
func (a *Auth) AuthenticateAt(ctx context.Context, bearer string, head drive.Heads) (drive.Who, error) {
	return a.authenticate(ctx, bearer, head, "")
}

// authenticate is AuthenticateAt for a secret that must be of the user whose folded name is slot;
// empty: anybody.
func (a *Auth) authenticate(ctx context.Context, bearer string, head drive.Heads, slot string) (drive.Who, error) {
	if bearer == "" {
		return drive.Who{}, unauthenticated("missing")
	}
	hash, ok := parseSecret(bearer)
	if !ok {
		return drive.Who{}, unauthenticated("invalid")
	}
	now := a.opt.Now()
	row, ok := a.fresh(hash, now)
	if !ok {
		var err error
		if row, err = a.load(ctx, hash); err != nil {
			return drive.Who{}, err
		}
	}
	who, err := row.who(drive.TimeOf(now))
	switch {
	case err != nil:
		return drive.Who{}, err
	case slot != "" && slot != row.slot:
		return drive.Who{}, unauthenticated("invalid")
	case !row.session.Heads.Has(head):
		return drive.Who{}, drive.Fail(drive.Forbidden, "reason", "head")
	}
	return who, nil
}

func unauthenticated(reason string) error { return drive.Fail(drive.Unauthenticated, "reason", reason) }

// fresh returns the cached row of a session if it may still be acted on.
func (a *Auth) fresh(hash secretHash, now time.Time) (authRow, bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	c, ok := a.cached[hash]
	if !ok || now.Sub(c.readAt) >= trustFor {
		return authRow{}, false
	}
	c.usedAt.Store(now.UnixNano())
	return c.row, true
}

// load reads a session and keeps it.
func (a *Auth) load(ctx context.Context, hash secretHash) (authRow, error) {
	r, err := a.look(ctx, []secretHash{hash})
	if err != nil {
		return authRow{}, err
	}
	a.keep(hash, r)
	row, ok := r.rows[hash]
	if !ok {
		return authRow{}, unauthenticated("invalid")
	}
	return row, nil
}

// reading is what the database said of some sessions, and when it was asked.
type reading struct {
	rows  map[secretHash]authRow
	at    time.Time // before the query began
	epoch int64
}

func (a *Auth) look(ctx context.Context, hashes []secretHash) (reading, error) {
	a.mu.RLock()
	r := reading{at: a.opt.Now(), epoch: a.epoch, rows: make(map[secretHash]authRow, len(hashes))}
	a.mu.RUnlock()
	rows, err := a.read(ctx, hashes)
	if err != nil {
		return reading{}, err
	}
	for _, row := range rows {
		r.rows[secretHash(row.hash)] = row
	}
	return r, nil
}

// keep puts a session into memory. What was read before a revocation that is known now is dropped:
// it may be older than it.
func (a *Auth) keep(hash secretHash, r reading) {
	a.mu.Lock()
	defer a.mu.Unlock()
	row, ok := r.rows[hash]
	switch {
	case a.epoch != r.epoch:
	case !ok:
		delete(a.cached, hash)
	default:
		a.putLocked(hash, row, r.at)
	}
}

func (a *Auth) putLocked(hash secretHash, row authRow, now time.Time) {
	c, ok := a.cached[hash]
	if !ok {
		if len(a.cached) >= a.limit {
			a.evictLocked()
		}
		c = &cachedSession{hash: hash}
		a.cached[hash] = c
	}
	if now.After(c.readAt) { // a slower reader must not make the row older
		c.row, c.readAt = row, now
	}
	c.usedAt.Store(now.UnixNano())
}

// evictLocked drops the least recently used of a few sessions taken at random, as Redis does: no
// order to maintain on every use.
func (a *Auth) evictLocked() {
	var victim *cachedSession
	sampled := 0
	for _, c := range a.cached {
		if victim == nil || c.usedAt.Load() < victim.usedAt.Load() {
			victim = c
		}
		if sampled++; sampled == 16 {
			break
		}
	}
	delete(a.cached, victim.hash)
}

// forgetUser and forgetSession make the next use ask the database.
func (a *Auth) forgetUser(id drive.UserID) {
	a.forget(func(s *Session) bool { return s.User == id })
}

func (a *Auth) forgetSession(id drive.SessionID) {
	a.forget(func(s *Session) bool { return s.ID == id })
}

func (a *Auth) forget(match func(*Session) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.epoch++
	for hash, c := range a.cached {
		if match(&c.row.session) {
			delete(a.cached, hash)
		}
	}
}

const authColumns = "s.id, s.user_id, s.kind, s.name, s.scopes, s.heads, s.created_at, s.seen_at, s.expires_at, s.ends_at"

// read returns the rows of those secrets that exist, in any order.
func (a *Auth) read(ctx context.Context, hashes []secretHash) ([]authRow, error) {
	args := make([]any, len(hashes))
	for i := range hashes {
		args[i] = hashes[i][:]
	}
	rows, err := a.db.Query(ctx, "SELECT "+authColumns+`, s.secret, u.account_id, u.name, u.slot, u.admin, u.state, u.must_change
		FROM sessions s JOIN users u ON u.id = s.user_id WHERE s.secret IN (`+sqldb.Marks(len(args))+")", args...)
	all, err := sqldb.Scan(rows, err, func(r *authRow, scan func(...any) error) error {
		return scanSession(&r.session, func(dest ...any) error {
			return scan(append(dest, &r.hash, &r.account, &r.name, &r.slot, &r.admin, &r.state, &r.renew)...)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read sessions: %w", err)
	}
	return all, nil
}

// who returns whom the row acts for now.
func (r *authRow) who(now drive.Time) (drive.Who, error) {
	switch {
	case r.state != Active:
		return drive.Who{}, unauthenticated("invalid")
	case r.session.ExpiresAt != 0 && now >= r.session.ExpiresAt, r.session.EndsAt != 0 && now >= r.session.EndsAt:
		return drive.Who{}, unauthenticated("expired")
	}
	scopes := r.session.Scopes
	if !r.admin {
		scopes &^= drive.ScopeAdmin
	}
	if r.renew {
		scopes = 0
	}
	return drive.Who{
		User: r.session.User, Account: r.account, Session: r.session.ID,
		Admin: scopes.Has(drive.ScopeAdmin), Scopes: scopes, Renew: r.renew,
	}, nil
}
