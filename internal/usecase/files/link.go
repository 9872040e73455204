package files

import (
	"context"
	"slices"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/base/ticket"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/vault"
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

// LinkOptions configure NewLinks.
type LinkOptions struct {
	Epochs Epochs // required
	// Secret returns what links are signed with. Default: the one in the database, without a key.
	Secret func(ctx context.Context) ([]byte, error)
}

// Epochs tells the number that a user's signed links must carry; NotFound unless the user is
// active. It is account.Users.
type Epochs interface {
	LinkEpoch(ctx context.Context, user drive.UserID) (int64, error)
	// SessionLives is NotFound once a login or token has ended.
	SessionLives(ctx context.Context, id drive.SessionID) error
}

// Links make signed links to files, and open them. It is safe for concurrent use.
type Links struct {
	*doors
	contents *Contents
	now      func() drive.Time
	epochs   Epochs
	secret   func(ctx context.Context) ([]byte, error)
}

// NewLinks returns the links to files.
func NewLinks(f *Files, opt LinkOptions) *Links {
	if opt.Secret == nil {
		opt.Secret = vault.New(vault.Options{DB: f.opt.DB}).Links
	}
	return &Links{f.doors, f.Contents, f.now, opt.Epochs, opt.Secret}
}

// Create makes a link to a live file.
func (s *Links) Create(ctx context.Context, who drive.Who, id drive.NodeID, life time.Duration, d Disposition) (Link, error) {
	if life < time.Second || life > MaxLinkLife {
		return Link{}, drive.Bad("expires_in", drive.OutOfRange, "min", 1, "max", int(MaxLinkLife/time.Second), "sent", life.Seconds())
	}
	p, err := s.enter(ctx, who, id, access.Link)
	if err != nil {
		return Link{}, err
	}
	who = p.Who
	n, err := s.live(ctx, s.db, who, id)
	if err != nil {
		return Link{}, err
	}
	if n.IsFolder() {
		return Link{}, drive.Bad("id", drive.NotAllowed, "allowed", []string{"file"}, "sent", "folder")
	}
	epoch, err := s.epochs.LinkEpoch(ctx, who.User)
	if err != nil {
		return Link{}, err
	}
	secret, err := s.secret(ctx)
	if err != nil {
		return Link{}, err
	}
	l := link{node: id, user: who.User, account: who.Account, epoch: epoch, expires: s.now().Add(life), disposition: d, session: who.Session}
	return Link{Token: l.token(secret), ExpiresAt: l.expires}, nil
}

// Open opens the file of a link. A token that was not made here is NotFound; one that is over
// is Gone {reason: link-expired}, or link-void when the file or the user's epoch is not what it
// was. from is the address of whoever has the link.
func (s *Links) Open(ctx context.Context, token, from string) (Download, Disposition, error) {
	secret, err := s.secret(ctx)
	if err != nil {
		return Download{}, 0, err
	}
	l, err := parseLink(token, secret)
	if err != nil {
		return Download{}, 0, err
	}
	if s.now() >= l.expires {
		return Download{}, 0, drive.Fail(drive.Gone, "reason", "link-expired")
	}
	epoch, err := s.epochs.LinkEpoch(ctx, l.user)
	if err == nil && !l.session.IsZero() {
		err = s.epochs.SessionLives(ctx, l.session)
	}
	if drive.IsKind(err, drive.NotFound) || err == nil && epoch != l.epoch {
		return Download{}, 0, drive.Fail(drive.Gone, "reason", "link-void")
	}
	if err != nil {
		return Download{}, 0, err
	}
	home, err := s.access.Home(ctx, s.db, l.user)
	if err != nil {
		return Download{}, 0, err
	}
	// Whoever made it may have lost the right to make it since.
	who := drive.Who{User: l.user, Account: home, Scopes: drive.ScopeRead, Head: drive.LinkHead, Address: from}
	p, err := s.enter(ctx, who, l.node, access.Link)
	if err == nil {
		_, err = s.live(ctx, s.db, p.Who, l.node)
	}
	if drive.IsKind(err, drive.NotFound, drive.Forbidden, drive.WrongState) {
		return Download{}, 0, drive.Fail(drive.Gone, "reason", "link-void")
	} else if err != nil {
		return Download{}, 0, err
	}
	d, err := s.contents.Open(ctx, who, l.node, drive.VersionID{})
	d.until = l.expires
	return d, l.disposition, err
}
