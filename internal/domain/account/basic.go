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

	"smartdrive/internal/base/drive"
)

// Basic is what a head whose clients know nothing but a name and a password gets with each request
// (RFC 7617).
type Basic struct {
	Name     string
	Password string      // an app password, or that of the account
	Head     drive.Heads // the head that asks
	Client   netip.Addr  // where the request comes from; zero (a local socket) is not counted
}

const (
	maxPasswords = 4096             // account passwords remembered, less than 1 MiB
	passwordIdle = 15 * time.Minute // after which one that is not used is checked again
)

// passwords remember which passwords of accounts were right, so that a client that sends one with
// each request does not cost a hash of 50 ms each time. What is kept is an HMAC under a key of this
// process; who may act on it is asked of the database every five seconds (see trustFor). One is
// remembered for the address that it came from: elsewhere, and where too many others were tried,
// memory would tell a guesser without end what is right. A wrong one is remembered, too: a client
// that goes on with an old password is told so as often as it asks, and keeps nobody else out.
type passwords struct {
	key    []byte
	flight singleflight.Group // many requests with one password are one hash

	mu    sync.Mutex
	known map[passwordKey]*knownPassword
}

type passwordKey [sha256.Size]byte

// knownPassword is a password that was right, or wrong, and what its user was then.
type knownPassword struct {
	wrong  bool
	user   drive.UserID
	epoch  int64 // the users' link_epoch: a change of the password raises it
	who    drive.Who
	readAt time.Time
	usedAt time.Time
}

func newPasswords() *passwords {
	return &passwords{key: random(sha256.Size), known: map[passwordKey]*knownPassword{}}
}

func (p *passwords) keyOf(slot, source, password string) (key passwordKey) {
	mac := hmac.New(sha256.New, p.key)
	mac.Write([]byte(slot + "\x00" + source + "\x00" + password)) // no name and no address has a NUL
	mac.Sum(key[:0])
	return key
}

func (p *passwords) find(key passwordKey, now time.Time) (knownPassword, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k, ok := p.known[key]
	if !ok {
		return knownPassword{}, false
	}
	if now.Sub(k.usedAt) >= passwordIdle {
		delete(p.known, key)
		return knownPassword{}, false
	}
	k.usedAt = now
	return *k, true
}

func (p *passwords) keep(key passwordKey, k knownPassword) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.known) >= maxPasswords {
		clear(p.known) // each costs one more hash
	}
	p.known[key] = &k
}

func (p *passwords) forget(key passwordKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.known, key)
}

// Basic returns whom a name and a password act for at a head. The password is an app password for
// that head (a token, see NewToken.Heads), or the account's own where that is taken: see
// credential.atHeads. Who comes with the account's password has no session and is not an
// administrator.
//
// Errors: Unauthenticated, Forbidden {reason head} (a token for other heads), Rate.
func (s *Sessions) Basic(ctx context.Context, in Basic) (drive.Who, error) {
	name, err := parseName(in.Name)
	if err != nil {
		return drive.Who{}, unauthenticated("invalid")
	}
	if _, ok := parseSecret(in.Password); ok {
		return s.auth.authenticate(ctx, in.Password, in.Head, slotOf(name))
	}
	return s.byPassword(ctx, slotOf(name), in)
}

func (s *Sessions) byPassword(ctx context.Context, slot string, in Basic) (drive.Who, error) {
	key := s.passwords.keyOf(slot, source(in.Client), in.Password)
	k, ok := s.passwords.find(key, s.opt.Now())
	if ok && k.wrong {
		if err := s.stillAsItWas(ctx, key, &k); !drive.IsKind(err, drive.Unauthenticated) {
			return drive.Who{}, cmp.Or(err, unauthenticated("invalid"))
		}
		ok = false
	}
	tried := s.attempt(Login{Name: in.Name, Client: in.Client}, s.opt.Now())
	if err := s.failures.refuses(s.opt.Now(), tried.counters...); err != nil {
		return drive.Who{}, err
	}
	if ok {
		if err := s.stillAsItWas(ctx, key, &k); !drive.IsKind(err, drive.Unauthenticated) {
			return k.who, err
		}
	}
	for {
		who, err, shared := s.passwords.flight.Do(string(key[:]), func() (any, error) { return s.firstTime(ctx, key, in) })
		if shared && err != nil && ctx.Err() == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
			continue // it was another request that ended
		}
		if err != nil {
			return drive.Who{}, err
		}
		return who.(drive.Who), nil
	}
}

// stillAsItWas asks whether what was right or wrong once is so now: the password was not changed,
// and the user may log in. Unauthenticated: it is to be checked again.
func (s *Sessions) stillAsItWas(ctx context.Context, key passwordKey, k *knownPassword) error {
	now := s.opt.Now()
	if !k.wrong && now.Sub(k.readAt) < trustFor && !now.Before(k.readAt) {
		return nil
	}
	c, err := s.readCredential(ctx, "id = ?", k.user)
	switch {
	case drive.IsKind(err, drive.NotFound), err == nil && (!c.atHeads() || c.epoch != k.epoch):
		s.passwords.forget(key)
		return unauthenticated("invalid")
	case err != nil:
		return err
	}
	k.readAt, k.usedAt = now, now
	s.passwords.keep(key, *k)
	return nil
}

func (s *Sessions) firstTime(ctx context.Context, key passwordKey, in Basic) (drive.Who, error) {
	now := s.opt.Now()
	cred, err := s.credential(ctx, in.Name)
	if err != nil {
		return drive.Who{}, err
	}
	cred.known = cred.atHeads() // one that is not taken is as a wrong one, after the same work
	if _, err := s.check(ctx, cred, Login{Name: in.Name, Password: in.Password, Client: in.Client}); err != nil {
		if cred.known && drive.IsKind(err, drive.Unauthenticated) {
			s.passwords.keep(key, knownPassword{wrong: true, user: cred.user.ID, epoch: cred.epoch, readAt: now, usedAt: now})
		}
		return drive.Who{}, fmt.Errorf("check a password: %w", err)
	}
	who := drive.Who{User: cred.user.ID, Account: cred.user.Account, Scopes: drive.ScopeRead | drive.ScopeWrite}
	s.passwords.keep(key, knownPassword{user: cred.user.ID, epoch: cred.epoch, who: who, readAt: now, usedAt: now})
	s.basic.add(cred.user, in.Client)
	return who, nil
}

// atHeads says whether heads that know nothing but a name and a password take the one of the
// account. They do not once the user has a second factor, which nobody would be asked for there: an
// app password was made by somebody who had given it. Nor do they while it is somebody else's
// choice: there it could not be changed.
func (c credential) atHeads() bool { return c.known && !c.secondFactor && !c.user.MustChange }
