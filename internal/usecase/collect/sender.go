package collect

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/ticket"
)

// Sender is a person who has opened a link and sends files without an account. The values are from
// the sender's token.
type Sender struct {
	ID   drive.SenderID
	Name string // self-chosen; often empty
	link Link
	key  ticket.Key
}

// Link returns the id of the opened link.
func (s Sender) Link() drive.CollectID { return s.link.ID }

// Folder returns the folder that the sender's files go to.
func (s Sender) Folder() drive.NodeID { return s.link.Folder }

// Who returns the identity that acts for the sender: the owner's account with scope ScopeSend only.
func (s Sender) Who() drive.Who {
	return drive.Who{User: s.link.User, Account: s.link.Account, Session: drive.SessionID(s.ID), Scopes: drive.ScopeSend}
}

// Fingerprint derives from a sender's mark of a file one that is unique to the sender, because open
// uploads are found by it. Empty if mark is empty.
func (s Sender) Fingerprint(mark string) string {
	if mark == "" {
		return ""
	}
	return hex.EncodeToString(s.key.Sum(append([]byte("fingerprint "+s.ID.String()+" "), mark...)))
}

// secretPrefix distinguishes a sender's token from other bearer tokens.
const secretPrefix = "sdc_"

// IsToken reports whether a bearer token has the form of a sender's token. It does not check the
// signature.
func IsToken(bearer string) bool { return strings.HasPrefix(bearer, secretPrefix) }

// A sender's token is "sdc_" followed by a ticket of
//
//	16 link | 16 sender | 8 expiry, Unix ms | name
const tokenSize = 2*16 + 8 // without the name

const keyPurpose = "collect sender" // purpose of the signing key

// TokenLife is the validity of a sender's token: uploads may continue for weeks.
const TokenLife = 30 * 24 * time.Hour

// senderToken is the content of a sender's token, which is signed and not stored.
type senderToken struct {
	link    drive.CollectID
	sender  drive.SenderID
	expires drive.Time
	name    string
}

// text returns the signed token.
func (p senderToken) text(key ticket.Key) string {
	fields := ticket.AppendNumbers(slices.Concat(p.link[:], p.sender[:]), p.expires)
	return secretPrefix + key.Sign(append(fields, p.name...))
}

// parseToken returns the content of a token; false if it is malformed or its signature is wrong.
func parseToken(text string, key ticket.Key) (senderToken, bool) {
	b, ok := key.Open(strings.TrimPrefix(text, secretPrefix), tokenSize, tokenSize+maxSender)
	if !ok || !IsToken(text) {
		return senderToken{}, false
	}
	return senderToken{
		link: drive.CollectID(b[:16]), sender: drive.SenderID(b[16:32]),
		expires: ticket.ReadNumber[drive.Time](b[32:]), name: string(b[tokenSize:]),
	}, true
}

// Public is what anybody may see of a link.
type Public struct {
	Title     string
	Message   string
	Owner     string // the owner's name
	ExpiresAt drive.Time
	MaxFile   *drive.ByteSize
	Left      *drive.ByteSize // bytes that may still be sent; nil: the link has no limit of its own
}

// Describe returns what a token's link shows to a sender. NotFound for an unknown token, Gone
// {reason: expired or withdrawn} for a closed link.
func (s *Links) Describe(ctx context.Context, token string) (Public, error) {
	l, err := s.openLink(ctx, token)
	if err != nil {
		return Public{}, err
	}
	owner, err := s.opt.Users.Find(ctx, s.opt.DB, l.User)
	if err != nil {
		return Public{}, err
	}
	sum, err := count(ctx, s.opt.DB, l)
	if err != nil {
		return Public{}, err
	}
	balance, err := s.opt.Ledger.Get(ctx, s.opt.DB, l.Account)
	if err != nil {
		return Public{}, err
	}
	return Public{l.Title, l.Message, owner.Name, l.ExpiresAt, l.MaxFile, remainingBytes(l, balance, sum)}, nil
}

// openLink returns the link of a token if visitors may use it. It returns NotFound for an unknown
// token, and the error of closed for a link that has expired or ended.
func (s *Links) openLink(ctx context.Context, token string) (Link, error) {
	l, err := s.ByToken(ctx, token)
	if err == nil {
		err = s.closed(ctx, s.opt.DB, l)
	}
	return l, err
}

// IssuedToken is a sender's token and its expiry.
type IssuedToken struct {
	Token     string
	ExpiresAt drive.Time
}

// IssueToken issues a sender's token under a self-chosen name of at most 64 bytes, which may be
// empty. It fails with NotFound for an unknown link, Gone {reason: expired or withdrawn} for a
// closed link, and BadRequest {field sender} for an invalid name.
func (s *Links) IssueToken(ctx context.Context, token, name string) (IssuedToken, error) {
	name, err := drive.ParseText("sender", name, drive.TextRule{Bytes: maxSender})
	if err != nil {
		return IssuedToken{}, err
	}
	l, err := s.openLink(ctx, token)
	if err != nil {
		return IssuedToken{}, err
	}
	key, err := s.SigningKey(ctx, keyPurpose)
	if err != nil {
		return IssuedToken{}, err
	}
	t := senderToken{link: l.ID, sender: drive.NewID[drive.SenderID](), expires: s.Now().Add(TokenLife), name: name}
	if l.ExpiresAt != 0 {
		t.expires = min(t.expires, l.ExpiresAt)
	}
	return IssuedToken{t.text(key), t.expires}, nil
}
