package export

import (
	"context"
	"slices"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/base/ticket"
)

// MaxLinkLife is the longest life of a download link; it ends with the batch at the latest.
const MaxLinkLife = 7 * 24 * time.Hour

// access is what a download link says. Its token is a ticket of
//
//	16 export | 16 user | 16 account | 8 epoch | 8 expiry, Unix ms | 16 session
//
// Links of older versions end before the session; they are read until they expire.
type access struct {
	export  drive.ExportID
	user    drive.UserID
	account drive.AccountID
	epoch   int64
	expires drive.Time
	session drive.SessionID // zero: of no session
}

const (
	sessionAt  = 3*16 + 2*8
	accessSize = sessionAt + 16
)

func (a access) text(key ticket.Key) string {
	fields := ticket.Put(slices.Concat(a.export[:], a.user[:], a.account[:]), a.epoch, int64(a.expires))
	return key.Sign(append(fields, a.session[:]...))
}

func parseAccess(text string, key ticket.Key) (access, bool) {
	b, ok := key.Open(text, sessionAt, accessSize)
	if !ok || len(b) != sessionAt && len(b) != accessSize {
		return access{}, false
	}
	a := access{
		export: drive.ExportID(b[:16]), user: drive.UserID(b[16:32]), account: drive.AccountID(b[32:48]),
		epoch: ticket.Number[int64](b[48:]), expires: ticket.Number[drive.Time](b[56:]),
	}
	copy(a.session[:], b[sessionAt:])
	return a, true
}

// links let a browser fetch a zip without a session.
type links struct {
	*ground
	sender *sender
}

func (l *links) key(ctx context.Context) (ticket.Key, error) {
	secret, err := l.opt.Secret(ctx)
	if err != nil {
		return nil, err
	}
	return ticket.For(secret, "export access"), nil
}

// Link is a download link: whoever has the token may fetch the zip until it expires, the batch
// ends, the login or token that made it ends, or the user changes the password or is disabled.
type Link struct {
	Token     string
	ExpiresAt drive.Time
}

// CreateLink makes a link to a sealed batch.
func (e *Exports) CreateLink(ctx context.Context, who drive.Who, id drive.ExportID, life time.Duration) (Link, error) {
	return e.links.create(ctx, who, id, life)
}

func (l *links) create(ctx context.Context, who drive.Who, id drive.ExportID, life time.Duration) (Link, error) {
	if life < time.Second || life > MaxLinkLife {
		return Link{}, drive.Bad("expires_in", drive.OutOfRange, "min", 1, "max", int(MaxLinkLife/time.Second), "sent", life.Seconds())
	}
	d, err := l.sender.open(ctx, who, id)
	if err != nil {
		return Link{}, err
	}
	now, err := l.now(ctx)
	if err != nil {
		return Link{}, err
	}
	epoch, err := l.opt.Users.LinkEpoch(ctx, who.User)
	if err != nil {
		return Link{}, err
	}
	key, err := l.key(ctx)
	if err != nil {
		return Link{}, err
	}
	t := access{export: id, user: who.User, account: who.Account, epoch: epoch, session: who.Session}
	t.expires = min(now.Add(life), *d.ExpiresAt)
	return Link{Token: t.text(key), ExpiresAt: t.expires}, nil
}

// OpenLink opens the zip of a link. A token that was not made here is NotFound; one that is over is
// Gone.
func (e *Exports) OpenLink(ctx context.Context, token string) (Download, error) {
	return e.links.open(ctx, token)
}

func (l *links) open(ctx context.Context, token string) (Download, error) {
	key, err := l.key(ctx)
	if err != nil {
		return Download{}, err
	}
	t, ok := parseAccess(token, key)
	if !ok {
		return Download{}, drive.Fail(drive.NotFound)
	}
	now, err := l.now(ctx)
	if err != nil {
		return Download{}, err
	}
	if now >= t.expires {
		return Download{}, drive.Fail(drive.Gone, "reason", "link-expired")
	}
	epoch, err := l.opt.Users.LinkEpoch(ctx, t.user)
	if err == nil && !t.session.IsZero() {
		err = l.opt.Users.SessionLives(ctx, t.session)
	}
	if drive.IsKind(err, drive.NotFound) || err == nil && epoch != t.epoch {
		return Download{}, drive.Fail(drive.Gone, "reason", "link-void")
	}
	if err != nil {
		return Download{}, err
	}
	return l.sender.open(ctx, drive.Who{User: t.user, Account: t.account, Scopes: drive.ScopeRead}, t.export)
}
