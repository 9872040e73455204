package account

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"example.org/smartdrive/internal/base/drive"
)

// Basic is the credential of a request with HTTP Basic authentication (RFC 7617).
type Basic struct {
	Name     string
	Password string      // an app password, or the account's password
	Head     drive.Heads // the head that received the request
	Client   netip.Addr  // address of the client; zero (a local socket) is not rate limited
}

// Bounds of passwordCache.
const (
	maxPasswords      = 4096             // cached passwords, less than 1 MiB
	passwordIdleLimit = 15 * time.Minute // a cached password that is unused for this long is checked again
)

// passwordCache caches the results of checking account passwords, so that a client that sends its
// password with each request does not cost a 50 ms hash each time. A key is an HMAC under a key of
// this process. Every five seconds (maxRowAge) the database is asked again whether the user may
// act. An entry only serves the address it came from and only below the failure limit; otherwise
// the cache would let an attacker test guesses without limit. Wrong passwords are cached, too: a
// client with an outdated password is refused again without using up the failures of others.
type passwordCache struct {
	key      []byte             // of the HMAC
	inFlight singleflight.Group // merges concurrent checks of one password into one hash

	mu      sync.Mutex
	entries map[passwordKey]*cachedPassword
}

// passwordKey is the HMAC of user, address and password.
type passwordKey [sha256.Size]byte

// cachedPassword is the result of a password check and the state of its user at that time.
type cachedPassword struct {
	wrong  bool // the password was refused
	user   drive.UserID
	epoch  int64 // the user's link_epoch; each change of the password increments it
	who    drive.Who
	readAt time.Time // when the user's state was read
	usedAt time.Time // when a request used the result last
}

// newPasswordCache returns an empty cache with a random key.
func newPasswordCache() *passwordCache {
	return &passwordCache{key: random(sha256.Size), entries: map[passwordKey]*cachedPassword{}}
}

// keyOf returns the key of an entry. slot is the folded user name, source the client's address.
func (p *passwordCache) keyOf(slot, source, password string) (key passwordKey) {
	mac := hmac.New(sha256.New, p.key)
	mac.Write([]byte(slot + "\x00" + source + "\x00" + password)) // neither a name nor an address contains NUL
	mac.Sum(key[:0])
	return key
}

// find returns the entry of a key and marks it as used at now. It returns false if there is none,
// and deletes one that was not used for passwordIdleLimit.
func (p *passwordCache) find(key passwordKey, now time.Time) (cachedPassword, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k, ok := p.entries[key]
	if !ok {
		return cachedPassword{}, false
	}
	if now.Sub(k.usedAt) >= passwordIdleLimit {
		delete(p.entries, key)
		return cachedPassword{}, false
	}
	k.usedAt = now
	return *k, true
}

// put stores an entry. A full cache is cleared first.
func (p *passwordCache) put(key passwordKey, k cachedPassword) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.entries) >= maxPasswords {
		clear(p.entries) // each evicted entry costs one more hash
	}
	p.entries[key] = &k
}

// evict deletes an entry.
func (p *passwordCache) evict(key passwordKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.entries, key)
}

// Basic returns the identity that a name and a password act for. The password is an app password
// for the head (a token; see NewToken.Heads), or the account's own if credential.usableForBasic
// allows it. With the account's password the identity has no session and no administrator rights.
//
// Errors: Unauthenticated; Forbidden {reason: head} for a token of other heads; Rate.
func (s *Sessions) Basic(ctx context.Context, in Basic) (drive.Who, error) {
	name, err := parseName(in.Name)
	if err != nil {
		return drive.Who{}, unauthenticated("invalid")
	}
	if _, ok := parseSecret(in.Password); ok {
		return s.auth.authenticate(ctx, in.Password, in.Head, slotOf(name))
	}
	return s.basicByPassword(ctx, slotOf(name), in)
}

// basicByPassword authenticates a request of HTTP Basic by the account's own password; slot is the
// folded name. A cached result, right or wrong, counts only after it has been revalidated;
// concurrent requests with the same password share one check. It fails with Unauthenticated
// {invalid} if the password is wrong or not usable here, and with Rate after too many failures.
func (s *Sessions) basicByPassword(ctx context.Context, slot string, in Basic) (drive.Who, error) {
	key := s.passwords.keyOf(slot, source(in.Client), in.Password)
	k, ok := s.passwords.find(key, s.opt.Now())
	if ok && k.wrong {
		if err := s.revalidatePassword(ctx, key, &k); !drive.IsKind(err, drive.Unauthenticated) {
			return drive.Who{}, cmp.Or(err, unauthenticated("invalid"))
		}
		ok = false
	}
	tried := s.newAttempt(Login{Name: in.Name, Client: in.Client}, s.opt.Now())
	if err := s.failures.check(s.opt.Now(), tried.counters...); err != nil {
		return drive.Who{}, err
	}
	if ok {
		if err := s.revalidatePassword(ctx, key, &k); !drive.IsKind(err, drive.Unauthenticated) {
			return k.who, err
		}
	}
	for {
		who, err, shared := s.passwords.inFlight.Do(string(key[:]), func() (any, error) { return s.checkUncached(ctx, key, in) })
		if shared && err != nil && ctx.Err() == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
			continue // the request that ran the check was canceled; run it again
		}
		if err != nil {
			return drive.Who{}, err
		}
		return who.(drive.Who), nil
	}
}

// revalidatePassword checks that a cached result still holds: the password is unchanged and the
// user may log in. It fails with Unauthenticated if the password must be checked again.
func (s *Sessions) revalidatePassword(ctx context.Context, key passwordKey, k *cachedPassword) error {
	now := s.opt.Now()
	if !k.wrong && now.Sub(k.readAt) < maxRowAge && !now.Before(k.readAt) {
		return nil
	}
	c, err := s.readCredential(ctx, "id = ?", k.user)
	switch {
	case drive.IsKind(err, drive.NotFound), err == nil && (!c.usableForBasic() || c.epoch != k.epoch):
		s.passwords.evict(key)
		return unauthenticated("invalid")
	case err != nil:
		return err
	}
	k.readAt, k.usedAt = now, now
	s.passwords.put(key, *k)
	return nil
}

// checkUncached hashes and checks the password of a user and caches the result: a right one, and a
// wrong one if the user is known. A failure counts as an attempt; a success is recorded among the
// logins. It fails as check does: Unauthenticated for a wrong password or a user who may not use
// Basic, Rate after too many failures.
func (s *Sessions) checkUncached(ctx context.Context, key passwordKey, in Basic) (drive.Who, error) {
	now := s.opt.Now()
	cred, err := s.credential(ctx, in.Name)
	if err != nil {
		return drive.Who{}, err
	}
	cred.known = cred.usableForBasic() // a password not accepted here fails like a wrong one, after the same work
	if _, err := s.check(ctx, cred, Login{Name: in.Name, Password: in.Password, Client: in.Client}); err != nil {
		if cred.known && drive.IsKind(err, drive.Unauthenticated) {
			s.passwords.put(key, cachedPassword{wrong: true, user: cred.user.ID, epoch: cred.epoch, readAt: now, usedAt: now})
		}
		return drive.Who{}, fmt.Errorf("check a password: %w", err)
	}
	who := drive.Who{User: cred.user.ID, Account: cred.user.Account, Scopes: drive.ScopeRead | drive.ScopeWrite}
	s.passwords.put(key, cachedPassword{user: cred.user.ID, epoch: cred.epoch, who: who, readAt: now, usedAt: now})
	s.basicLogins.add(cred.user, in.Client)
	return who, nil
}

// usableForBasic reports whether the account's password is accepted by HTTP Basic. It is not if the
// user has a second factor, which Basic cannot ask for, or must change a password chosen by
// somebody else, which Basic cannot do. App passwords still work.
func (c credential) usableForBasic() bool { return c.known && !c.secondFactor && !c.user.MustChange }
