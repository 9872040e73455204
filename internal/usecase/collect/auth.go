package collect

import (
	"context"
	"time"

	"smartdrive/internal/base/drive"
)

const (
	trustFor = 5 * time.Second // how long what was read of a link may be acted on, so that parts need no database
	maxKnown = 4 << 10         // links in memory
	maxMine  = 64 << 10        // uploads in memory
)

// known is a link as it was read.
type known struct {
	link   Link
	closed error // Gone, or nil
	readAt time.Time
}

// Authenticate returns the sender of a token. Errors: Unauthenticated {reason: invalid or expired};
// Gone {reason} when the link is closed.
func (s *Links) Authenticate(ctx context.Context, bearer string) (Sender, error) {
	key, err := s.SigningKey(ctx, signs)
	if err != nil {
		return Sender{}, err
	}
	t, ok := parsePermit(bearer, key)
	switch {
	case !ok:
		return Sender{}, drive.Fail(drive.Unauthenticated, "reason", "invalid")
	case s.Now() >= t.expires:
		return Sender{}, drive.Fail(drive.Unauthenticated, "reason", "expired")
	}
	l, err := s.know(ctx, t.link)
	if err != nil {
		return Sender{}, err
	}
	return Sender{ID: t.sender, Name: t.name, link: l, key: key}, nil
}

// Still is nil while the link that a sender has opened is open, as it was within the last five
// seconds: for a request that takes longer. Else it is Gone {reason}.
func (s *Links) Still(ctx context.Context, by Sender) error {
	_, err := s.know(ctx, by.link.ID)
	return err
}

// know returns a link that is open, as it was within the last five seconds.
func (s *Links) know(ctx context.Context, id drive.CollectID) (Link, error) {
	now := s.opt.Now()
	s.mu.Lock()
	k, ok := s.known[id]
	s.mu.Unlock()
	if ok && now.Sub(k.readAt) < trustFor && now.Sub(k.readAt) >= 0 {
		if k.closed == nil && k.link.ExpiresAt != 0 && s.Now() >= k.link.ExpiresAt {
			return Link{}, drive.Fail(drive.Gone, "reason", "expired")
		}
		return k.link, k.closed
	}
	l, err := s.Read(ctx, s.opt.DB, "l.id = ?", id)
	if drive.IsKind(err, drive.NotFound) {
		return Link{}, withdrawn()
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
	if len(s.known) >= maxKnown {
		clear(s.known)
	}
	s.known[id] = known{l, closed, now}
	return l, closed
}

// forget makes the next use of a link ask the database.
func (s *Links) forget(id drive.CollectID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, id)
}

// forgetAll is forget of all links.
func (s *Links) forgetAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.known)
}
