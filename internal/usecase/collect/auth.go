package collect

import (
	"context"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

const (
	cacheTTL  = 5 * time.Second // how long a link's cached state is trusted, so that parts need no database access
	maxCached = 4 << 10         // links cached
	maxOwners = 64 << 10        // upload owners cached
)

// cachedLink is a link with the result of its last check, trusted for cacheTTL after readAt.
type cachedLink struct {
	link   Link
	closed error // Gone {reason}; nil: open
	readAt time.Time
}

// Authenticate returns the sender of a token. Errors: Unauthenticated {reason: invalid or expired};
// Gone {reason} if the link is closed.
func (s *Links) Authenticate(ctx context.Context, bearer string) (Sender, error) {
	key, err := s.SigningKey(ctx, keyPurpose)
	if err != nil {
		return Sender{}, err
	}
	t, ok := parseToken(bearer, key)
	switch {
	case !ok:
		return Sender{}, drive.Fail(drive.Unauthenticated, "reason", "invalid")
	case s.Now() >= t.expires:
		return Sender{}, drive.Fail(drive.Unauthenticated, "reason", "expired")
	}
	l, err := s.cached(ctx, t.link)
	if err != nil {
		return Sender{}, err
	}
	return Sender{ID: t.sender, Name: t.name, link: l, key: key}, nil
}

// CheckOpen returns Gone {reason} if the sender's link was closed, which it notices within five
// seconds; for long requests.
func (s *Links) CheckOpen(ctx context.Context, by Sender) error {
	_, err := s.cached(ctx, by.link.ID)
	return err
}

// cached returns an open link, from the cache if read within the last five seconds. Gone {reason}
// if it is closed.
func (s *Links) cached(ctx context.Context, id drive.CollectID) (Link, error) {
	now := s.opt.Now()
	s.mu.Lock()
	k, ok := s.cache[id]
	s.mu.Unlock()
	if ok && now.Sub(k.readAt) < cacheTTL && now.Sub(k.readAt) >= 0 {
		if k.closed == nil && k.link.ExpiresAt != 0 && s.Now() >= k.link.ExpiresAt {
			return Link{}, drive.Fail(drive.Gone, "reason", "expired")
		}
		return k.link, k.closed
	}
	l, err := s.Read(ctx, s.opt.DB, "l.id = ?", id)
	if drive.IsKind(err, drive.NotFound) {
		return Link{}, errWithdrawn()
	}
	if err != nil {
		return Link{}, err
	}
	closed := s.closed(ctx, s.opt.DB, l)
	if closed != nil && !drive.IsKind(closed, drive.Gone) {
		return Link{}, closed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.cache) >= maxCached {
		clear(s.cache)
	}
	s.cache[id] = cachedLink{l, closed, now}
	return l, closed
}

// evict drops a link from the cache of this process, after a change of the link; other instances
// keep theirs until it expires.
func (s *Links) evict(id drive.CollectID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.cache, id)
}

// evictAll drops all links from the cache.
func (s *Links) evictAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.cache)
}
