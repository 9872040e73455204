package files

import (
	"context"
	"slices"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/base/ticket"
	"smartdrive/internal/domain/access"
)

// MaxLinkLife is the longest life of a signed link.
const MaxLinkLife = 24 * time.Hour

// Disposition says whether a browser shows the file or saves it.
type Disposition byte

// The dispositions.
const (
	Attachment Disposition = iota
	Inline
)

// link is what a signed link says. Its token is a ticket of
//
//	16 node | 16 user | 16 account | 8 epoch | 8 expiry, Unix ms | 1 disposition | 16 session
//
// signed with the secret itself. Links of older versions end before the session; they are read
// until they expire.
type link struct {
	node        drive.NodeID
	user        drive.UserID
	account     drive.AccountID
	epoch       int64
	expires     drive.Time
	disposition Disposition
	session     drive.SessionID // zero: of no session
}

const (
	sessionAt = 3*16 + 2*8 + 1
	linkSize  = sessionAt + 16
)

func (l link) token(secret []byte) string {
	fields := ticket.Put(slices.Concat(l.node[:], l.user[:], l.account[:]), l.epoch, int64(l.expires))
	return ticket.Key(secret).Sign(slices.Concat(fields, []byte{byte(l.disposition)}, l.session[:]))
}

// parseLink reads a token that was signed with the secret; any other one is NotFound.
func parseLink(token string, secret []byte) (link, error) {
	b, ok := ticket.Key(secret).Open(token, sessionAt, linkSize)
	if !ok || len(b) != linkSize && len(b) != sessionAt {
		return link{}, drive.Fail(drive.NotFound)
	}
	l := link{
		node: drive.NodeID(b[:16]), user: drive.UserID(b[16:32]), account: drive.AccountID(b[32:48]),
		epoch: ticket.Number[int64](b[48:]), expires: ticket.Number[drive.Time](b[56:]), disposition: Disposition(b[64]),
	}
	copy(l.session[:], b[sessionAt:])
	return l, nil
}

// Link is a signed link: whoever has the token may read the file's current version until it
// expires, the file is trashed, the login or token that made it ends, or the user changes the
// password or is disabled.
type Link struct {
	Token     string
	ExpiresAt drive.Time
}

// CreateLink makes a link to a live file.
func (f *Files) CreateLink(ctx context.Context, who drive.Who, id drive.NodeID, life time.Duration, d Disposition) (Link, error) {
	if life < time.Second || life > MaxLinkLife {
		return Link{}, drive.Bad("expires_in", drive.OutOfRange, "min", 1, "max", int(MaxLinkLife/time.Second), "sent", life.Seconds())
	}
	p, err := f.enter(ctx, who, id, access.Link)
	if err != nil {
		return Link{}, err
	}
	who = p.Who
	n, err := f.live(ctx, f.opt.DB, who, id)
	if err != nil {
		return Link{}, err
	}
	if n.IsFolder() {
		return Link{}, drive.Bad("id", drive.NotAllowed, "allowed", []string{"file"}, "sent", "folder")
	}
	epoch, err := f.opt.Epochs.LinkEpoch(ctx, who.User)
	if err != nil {
		return Link{}, err
	}
	secret, err := f.opt.Secret(ctx)
	if err != nil {
		return Link{}, err
	}
	l := link{node: id, user: who.User, account: who.Account, epoch: epoch, expires: f.now().Add(life), disposition: d, session: who.Session}
	return Link{Token: l.token(secret), ExpiresAt: l.expires}, nil
}

// OpenLink opens the file of a link. A token that was not made here is NotFound; one that is over
// is Gone {reason: link-expired}, or link-void when the file or the user's epoch is not what it
// was.
func (f *Files) OpenLink(ctx context.Context, token string) (Download, Disposition, error) {
	secret, err := f.opt.Secret(ctx)
	if err != nil {
		return Download{}, 0, err
	}
	l, err := parseLink(token, secret)
	if err != nil {
		return Download{}, 0, err
	}
	if f.now() >= l.expires {
		return Download{}, 0, drive.Fail(drive.Gone, "reason", "link-expired")
	}
	epoch, err := f.opt.Epochs.LinkEpoch(ctx, l.user)
	if err == nil && !l.session.IsZero() {
		err = f.opt.Epochs.SessionLives(ctx, l.session)
	}
	if drive.IsKind(err, drive.NotFound) || err == nil && epoch != l.epoch {
		return Download{}, 0, drive.Fail(drive.Gone, "reason", "link-void")
	}
	if err != nil {
		return Download{}, 0, err
	}
	home, err := f.opt.Access.Home(ctx, f.opt.DB, l.user)
	if err != nil {
		return Download{}, 0, err
	}
	// Whoever made it may have lost the right to make it since.
	who := drive.Who{User: l.user, Account: home, Scopes: drive.ScopeRead}
	p, err := f.enter(ctx, who, l.node, access.Link)
	if err == nil {
		_, err = f.live(ctx, f.opt.DB, p.Who, l.node)
	}
	if drive.IsKind(err, drive.NotFound, drive.Forbidden, drive.WrongState) {
		return Download{}, 0, drive.Fail(drive.Gone, "reason", "link-void")
	} else if err != nil {
		return Download{}, 0, err
	}
	d, err := f.Open(ctx, who, l.node, drive.VersionID{})
	d.until = l.expires
	return d, l.disposition, err
}
