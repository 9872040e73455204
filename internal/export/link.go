package export

import (
	"context"
	"slices"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/ticket"
)

// MaxLinkLife is the longest lifetime of a download link. A link also ends with its batch.
const MaxLinkLife = 7 * 24 * time.Hour

// linkToken is the payload of a download link. Its token is a signed ticket of
//
//	16 export | 16 user | 16 account | 8 epoch | 8 expiry, Unix ms | 16 session
//
// Tokens of older versions lack the session; they are accepted until they expire.
type linkToken struct {
	export  drive.ExportID
	user    drive.UserID
	account drive.AccountID
	epoch   int64 // of the user's links; another one means that they were revoked
	expires drive.Time
	session drive.SessionID // zero: not bound to a session
}

const (
	// sessionAt is the length in bytes of a token without a session, and the offset of the session.
	sessionAt = 3*16 + 2*8
	// accessSize is the length in bytes of a token with a session.
	accessSize = sessionAt + 16
)

// encode returns the signed token.
func (t linkToken) encode(key ticket.Key) string {
	fields := ticket.AppendNumbers(slices.Concat(t.export[:], t.user[:], t.account[:]), t.epoch, int64(t.expires))
	return key.Sign(append(fields, t.session[:]...))
}

// parseLinkToken decodes the text of a token. It returns false if the token was not signed with key
// or has a wrong length. It does not check whether the link has expired or was revoked.
func parseLinkToken(text string, key ticket.Key) (linkToken, bool) {
	b, ok := key.Open(text, sessionAt, accessSize)
	if !ok || len(b) != sessionAt && len(b) != accessSize {
		return linkToken{}, false
	}
	a := linkToken{
		export: drive.ExportID(b[:16]), user: drive.UserID(b[16:32]), account: drive.AccountID(b[32:48]),
		epoch: ticket.ReadNumber[int64](b[48:]), expires: ticket.ReadNumber[drive.Time](b[56:]),
	}
	copy(a.session[:], b[sessionAt:])
	return a, true
}

// linkStore creates and opens download links, with which a browser downloads a zip without a
// session.
type linkStore struct {
	*core
	sender *sender
}

// key derives the key that signs download links from the installation's secret. It fails as
// Options.Secret does.
func (l *linkStore) key(ctx context.Context) (ticket.Key, error) {
	secret, err := l.opt.Secret(ctx)
	if err != nil {
		return nil, err
	}
	return ticket.DeriveKey(secret, "export access"), nil
}

// Link is a download link. Anyone with the token can download the zip until the link or the batch
// expires, the session that created the link ends, or the user is disabled or changes the password.
type Link struct {
	Token     string
	ExpiresAt drive.Time
}

// CreateLink creates a link to a sealed batch. life must be between one second and MaxLinkLife; the
// link expires no later than the batch. Other errors are those of Open.
func (e *Exports) CreateLink(ctx context.Context, who drive.Who, id drive.ExportID, life time.Duration) (Link, error) {
	return e.links.create(ctx, who, id, life)
}

// create returns a signed link to the zip of a sealed batch. Nothing is stored. The link ends after
// life or with the batch, whichever is first. It returns BadRequest unless life is from a second to
// MaxLinkLife, and the errors of sender.open.
func (l *linkStore) create(ctx context.Context, who drive.Who, id drive.ExportID, life time.Duration) (Link, error) {
	if life < time.Second || life > MaxLinkLife {
		return Link{}, drive.BadField("expires_in", drive.OutOfRange, "min", 1, "max", int(MaxLinkLife/time.Second), "sent", life.Seconds())
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
	t := linkToken{export: id, user: who.User, account: who.Account, epoch: epoch, session: who.Session}
	t.expires = min(now.Add(life), *d.ExpiresAt)
	return Link{Token: t.encode(key), ExpiresAt: t.expires}, nil
}

// OpenLink opens the zip of a link, with the rights of the user who created it. It returns NotFound
// for an invalid token, Gone for an expired or revoked link, and otherwise the errors of Open.
func (e *Exports) OpenLink(ctx context.Context, token string) (Download, error) {
	return e.links.open(ctx, token)
}

// open returns the zip that a link names, with the rights of the user who created the link. Errors:
// NotFound for an invalid token, Gone {reason link-expired} after its end, Gone {reason link-void}
// if the user's links or session were revoked, and those of sender.open.
func (l *linkStore) open(ctx context.Context, token string) (Download, error) {
	key, err := l.key(ctx)
	if err != nil {
		return Download{}, err
	}
	t, ok := parseLinkToken(token, key)
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
		err = l.opt.Users.CheckSession(ctx, t.session)
	}
	if drive.IsKind(err, drive.NotFound) || err == nil && epoch != t.epoch {
		return Download{}, drive.Fail(drive.Gone, "reason", "link-void")
	}
	if err != nil {
		return Download{}, err
	}
	return l.sender.open(ctx, drive.Who{User: t.user, Account: t.account, Scopes: drive.ScopeRead}, t.export)
}
