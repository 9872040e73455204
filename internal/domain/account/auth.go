package account

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

const (
	maxRowAge        = 5 * time.Second // age up to which a cached row is used; bounds how late a revocation by another process takes effect
	refreshInterval  = 4 * time.Second // shorter than maxRowAge, so that rows in use are refreshed in time
	refreshIdleLimit = time.Minute     // sessions used within it are refreshed, so that slow clients need no database read
	usePrecision     = time.Hour       // precision of seen_at and expires_at
	maxCached        = 16 << 10        // cached sessions, about 4 MiB
)

// Auth authenticates bearer secrets. It caches sessions in memory and is safe for concurrent use.
type Auth struct {
	db  *sqldb.DB
	opt Options

	limit int // maximum of cached

	mu     sync.RWMutex
	cached map[secretHash]*cachedSession // by hash of the secret
	epoch  int64                         // incremented by each revocation; a row read before a revocation is not cached after it
}

// cachedSession is a cached row. All fields except usedAt are guarded by Auth.mu.
type cachedSession struct {
	hash   secretHash
	row    authRow
	readAt time.Time    // start of the query
	usedAt atomic.Int64 // Unix ns of the last authentication
}

// authRow is a session and its user as stored in the database.
type authRow struct {
	session    Session
	hash       []byte // of the secret
	account    drive.AccountID
	name       string // the user's
	slot       string // the folded name
	admin      bool   // the user is an administrator
	state      State
	mustChange bool // the session may only set a new password
}

// NewAuth returns an Auth for the sessions in db.
func NewAuth(db *sqldb.DB, opt Options) *Auth {
	return &Auth{db: db, opt: opt.withDefaults(), limit: maxCached, cached: map[secretHash]*cachedSession{}}
}

// Authenticate returns the identity that a bearer secret acts for at the native API. It fails with
// Unauthenticated {reason: missing, invalid or expired}, with Forbidden {reason: head} for a token
// of other heads, or with a database error. While Run runs, a session in use costs no database
// access.
func (a *Auth) Authenticate(ctx context.Context, bearer string) (drive.Who, error) {
	return a.AuthenticateAt(ctx, bearer, drive.HeadNative)
}

// AuthenticateAt returns the user of a bearer secret that is used at the given head. It fails with
// Unauthenticated {reason}: missing if the secret is empty, expired if the session has ended,
// invalid if the secret is malformed or unknown or its user is not active. It fails with Forbidden
// {head} if the session is not for this head.
func (a *Auth) AuthenticateAt(ctx context.Context, bearer string, head drive.Heads) (drive.Who, error) {
	return a.authenticate(ctx, bearer, head, "")
}

// authenticate does what AuthenticateAt does. If slot, a folded name, is not empty, it also fails
// with Unauthenticated {invalid} if the secret belongs to a user of another name.
func (a *Auth) authenticate(ctx context.Context, bearer string, head drive.Heads, slot string) (drive.Who, error) {
	if bearer == "" {
		return drive.Who{}, unauthenticated("missing")
	}
	hash, ok := parseSecret(bearer)
	if !ok {
		return drive.Who{}, unauthenticated("invalid")
	}
	now := a.opt.Now()
	row, ok := a.cachedRow(hash, now)
	if !ok {
		var err error
		if row, err = a.loadRow(ctx, hash); err != nil {
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

// unauthenticated returns the error Unauthenticated {reason}.
func unauthenticated(reason string) error { return drive.Fail(drive.Unauthenticated, "reason", reason) }

// cachedRow returns the cached row of a session, and false if there is none or it is older than
// maxRowAge.
func (a *Auth) cachedRow(hash secretHash, now time.Time) (authRow, bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	c, ok := a.cached[hash]
	if !ok || now.Sub(c.readAt) >= maxRowAge {
		return authRow{}, false
	}
	c.usedAt.Store(now.UnixNano())
	return c.row, true
}

// loadRow reads the row of a session and caches it. It fails with Unauthenticated if there is none.
func (a *Auth) loadRow(ctx context.Context, hash secretHash) (authRow, error) {
	r, err := a.readSnapshot(ctx, []secretHash{hash})
	if err != nil {
		return authRow{}, err
	}
	a.cacheRow(hash, r)
	row, ok := r.rows[hash]
	if !ok {
		return authRow{}, unauthenticated("invalid")
	}
	return row, nil
}

// snapshot is the result of reading some sessions; a session that does not exist has no row.
type snapshot struct {
	rows  map[secretHash]authRow // by hash of the secret
	at    time.Time              // start of the query
	epoch int64                  // Auth.epoch at that time
}

// readSnapshot reads the rows of sessions by the hashes of their secrets; one that does not exist
// has no row. It notes time and epoch before reading, so that cacheRow can reject rows that were
// evicted meanwhile.
func (a *Auth) readSnapshot(ctx context.Context, hashes []secretHash) (snapshot, error) {
	a.mu.RLock()
	r := snapshot{at: a.opt.Now(), epoch: a.epoch, rows: make(map[secretHash]authRow, len(hashes))}
	a.mu.RUnlock()
	rows, err := a.read(ctx, hashes)
	if err != nil {
		return snapshot{}, err
	}
	for _, row := range rows {
		r.rows[secretHash(row.hash)] = row
	}
	return r, nil
}

// cacheRow caches the session's row in r, or evicts it if r has none. It does nothing if a
// revocation happened since the query began, because the row may be stale.
func (a *Auth) cacheRow(hash secretHash, r snapshot) {
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

// putLocked caches a row. The caller holds a.mu.
func (a *Auth) putLocked(hash secretHash, row authRow, now time.Time) {
	c, ok := a.cached[hash]
	if !ok {
		if len(a.cached) >= a.limit {
			a.evictLocked()
		}
		c = &cachedSession{hash: hash}
		a.cached[hash] = c
	}
	if now.After(c.readAt) { // a slow query must not replace a newer row
		c.row, c.readAt = row, now
	}
	c.usedAt.Store(now.UnixNano())
}

// evictLocked evicts the least recently used of 16 random sessions, so that a use needs no list of
// all sessions in order. The caller holds a.mu.
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

// evictUser evicts the sessions of a user, so that their next use reads the database.
func (a *Auth) evictUser(id drive.UserID) {
	a.evict(func(s *Session) bool { return s.User == id })
}

// evictSession evicts a session, so that its next use reads the database.
func (a *Auth) evictSession(id drive.SessionID) {
	a.evict(func(s *Session) bool { return s.ID == id })
}

// evict evicts matching sessions and invalidates reads in flight.
func (a *Auth) evict(match func(*Session) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.epoch++
	for hash, c := range a.cached {
		if match(&c.row.session) {
			delete(a.cached, hash)
		}
	}
}

// authColumns are the columns of a session that Auth.read selects, for scanSession.
const authColumns = "s.id, s.user_id, s.kind, s.name, s.scopes, s.heads, s.created_at, s.seen_at, s.expires_at, s.ends_at"

// read returns the sessions, with their users, whose secrets have these hashes, in any order;
// missing ones are left out. It reads the database, not the cache, and checks neither expiry nor
// state.
func (a *Auth) read(ctx context.Context, hashes []secretHash) ([]authRow, error) {
	args := make([]any, len(hashes))
	for i := range hashes {
		args[i] = hashes[i][:]
	}
	rows, err := a.db.Query(ctx, "SELECT "+authColumns+`, s.secret, u.account_id, u.name, u.slot, u.admin, u.state, u.must_change
		FROM sessions s JOIN users u ON u.id = s.user_id WHERE s.secret IN (`+sqldb.Placeholders(len(args))+")", args...)
	all, err := sqldb.Scan(rows, err, func(r *authRow, scan func(...any) error) error {
		return scanSession(&r.session, func(dest ...any) error {
			return scan(append(dest, &r.hash, &r.account, &r.name, &r.slot, &r.admin, &r.state, &r.mustChange)...)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read sessions: %w", err)
	}
	return all, nil
}

// who returns the identity that the session acts for. It fails with Unauthenticated if the user is
// not active or the session has expired.
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
	if r.mustChange {
		scopes = 0
	}
	return drive.Who{
		User: r.session.User, Account: r.account, Session: r.session.ID,
		Admin: scopes.Has(drive.ScopeAdmin), Scopes: scopes, MustChangePassword: r.mustChange,
	}, nil
}
