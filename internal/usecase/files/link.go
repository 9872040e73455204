package files

import (
	"context"
	"slices"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/ticket"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/vault"
)

// MaxLinkLife bounds the lifetime of a signed link.
const MaxLinkLife = 24 * time.Hour

// Disposition tells a browser to display the file or to save it.
type Disposition byte

// Attachment makes a browser save the file, Inline display it.
const (
	Attachment Disposition = iota
	Inline
)

// link is the payload of a signed link. Its token is a ticket of
//
//	16 node | 16 user | 16 account | 8 epoch | 8 expiry, Unix ms | 1 disposition | 16 session
//
// signed with the links secret. Tokens of older versions lack the session and stay valid until they
// expire.
type link struct {
	node        drive.NodeID
	user        drive.UserID
	account     drive.AccountID
	epoch       int64 // of the user's links; another one means that they were revoked
	expires     drive.Time
	disposition Disposition
	session     drive.SessionID // zero: bound to no session
}

const (
	// sessionAt is the offset in bytes of the session in a link's token, and the length of a token
	// without one.
	sessionAt = 3*16 + 2*8 + 1
	// linkSize is the length in bytes of a token with a session.
	linkSize = sessionAt + 16
)

// token returns the signed token of l.
func (l link) token(secret []byte) string {
	fields := ticket.AppendNumbers(slices.Concat(l.node[:], l.user[:], l.account[:]), l.epoch, int64(l.expires))
	return ticket.Key(secret).Sign(slices.Concat(fields, []byte{byte(l.disposition)}, l.session[:]))
}

// parseLink verifies and decodes a token. It fails with NotFound unless the token was signed with
// secret.
func parseLink(token string, secret []byte) (link, error) {
	b, ok := ticket.Key(secret).Open(token, sessionAt, linkSize)
	if !ok || len(b) != linkSize && len(b) != sessionAt {
		return link{}, drive.Fail(drive.NotFound)
	}
	l := link{
		node: drive.NodeID(b[:16]), user: drive.UserID(b[16:32]), account: drive.AccountID(b[32:48]),
		epoch: ticket.ReadNumber[int64](b[48:]), expires: ticket.ReadNumber[drive.Time](b[56:]), disposition: Disposition(b[64]),
	}
	copy(l.session[:], b[sessionAt:])
	return l, nil
}

// Link is a signed link. Its token lets anyone read the current version of the file until it
// expires, the file is trashed, the session or API token that created it ends, or the user changes
// the password or is disabled.
type Link struct {
	Token     string
	ExpiresAt drive.Time
}

// LinkOptions configures NewLinks. Epochs is required.
type LinkOptions struct {
	Epochs Epochs // required
	// Secret returns the key that signs links. Default: the secret in the database, read without a
	// vault key.
	Secret func(ctx context.Context) ([]byte, error)
}

// Epochs validates the users and sessions of signed links; account.Users implements it.
type Epochs interface {
	// LinkEpoch returns the number that valid links of a user carry. It fails with NotFound unless
	// the user is active.
	LinkEpoch(ctx context.Context, user drive.UserID) (int64, error)
	// CheckSession fails with NotFound if the session or API token has ended.
	CheckSession(ctx context.Context, id drive.SessionID) error
}

// Links creates and opens signed links to files. It is safe for concurrent use.
type Links struct {
	*authorizer
	contents *Contents
	now      func() drive.Time
	epochs   Epochs
	secret   func(ctx context.Context) ([]byte, error)
}

// NewLinks returns the links to files of f.
func NewLinks(f *Files, opt LinkOptions) *Links {
	if opt.Secret == nil {
		opt.Secret = vault.New(vault.Options{DB: f.opt.DB}).LinkSecret
	}
	return &Links{f.authorizer, f.Contents, f.now, opt.Epochs, opt.Secret}
}

// Create returns a signed link to a live file, valid for life (1 second to MaxLinkLife; else
// BadRequest). A folder is BadRequest, and a trashed file is WrongState.
func (s *Links) Create(ctx context.Context, who drive.Who, id drive.NodeID, life time.Duration, d Disposition) (Link, error) {
	if life < time.Second || life > MaxLinkLife {
		return Link{}, drive.BadField("expires_in", drive.OutOfRange, "min", 1, "max", int(MaxLinkLife/time.Second), "sent", life.Seconds())
	}
	p, err := s.authorize(ctx, who, id, access.Link)
	if err != nil {
		return Link{}, err
	}
	who = p.Who
	n, err := s.findLive(ctx, s.db, who, id)
	if err != nil {
		return Link{}, err
	}
	if n.IsFolder() {
		return Link{}, drive.BadField("id", drive.NotAllowed, "allowed", []string{"file"}, "sent", "folder")
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

// Open opens the file of a signed link. from is the client's address, for the activity log. It
// fails with NotFound if the token is not valid, Gone {reason: link-expired} if it has expired, and
// Gone {reason: link-void} if the file is no longer readable, or the user or session is no longer
// active.
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
		err = s.epochs.CheckSession(ctx, l.session)
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
	// The creator may have lost the right to link the file since.
	who := drive.Who{User: l.user, Account: home, Scopes: drive.ScopeRead, Head: drive.LinkHead, Address: from}
	p, err := s.authorize(ctx, who, l.node, access.Link)
	if err == nil {
		_, err = s.findLive(ctx, s.db, p.Who, l.node)
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
