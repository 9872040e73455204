package collect

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/base/ticket"
)

// Sender is somebody who has opened a link.
type Sender struct {
	ID   drive.SenderID
	Name string // what they call themselves; often empty
	link Link
	key  ticket.Key
}

// Link is the id of the link that the sender has opened.
func (s Sender) Link() drive.CollectID { return s.link.ID }

// Folder is where the sender's files go.
func (s Sender) Folder() drive.NodeID { return s.link.Folder }

// Who acts for a sender: the owner's account, with the one scope that nothing else has.
func (s Sender) Who() drive.Who {
	return drive.Who{User: s.link.User, Account: s.link.Account, Session: drive.SessionID(s.ID), Scopes: drive.ScopeSend}
}

// Fingerprint makes of the mark that a sender gives a file one that nobody else's is equal to:
// uploads are found by it.
func (s Sender) Fingerprint(mark string) string {
	if mark == "" {
		return ""
	}
	return hex.EncodeToString(s.key.Sum(append([]byte("fingerprint "+s.ID.String()+" "), mark...)))
}

// secretPrefix tells a sender's token from others.
const secretPrefix = "sdc_"

// IsToken reports whether a bearer token looks like a sender's.
func IsToken(bearer string) bool { return strings.HasPrefix(bearer, secretPrefix) }

// A sender's token is "sdc_" and a ticket of
//
//	16 link | 16 sender | 8 expiry, Unix ms | name
const permitSize = 2*16 + 8 // without the name

const signs = "collect sender" // the purpose of the key

// TokenLife is how long a sender's token is good: an upload goes on after weeks.
const TokenLife = 30 * 24 * time.Hour

type permit struct {
	link    drive.CollectID
	sender  drive.SenderID
	expires drive.Time
	name    string
}

func (p permit) text(key ticket.Key) string {
	fields := ticket.Put(slices.Concat(p.link[:], p.sender[:]), p.expires)
	return secretPrefix + key.Sign(append(fields, p.name...))
}

func parsePermit(text string, key ticket.Key) (permit, bool) {
	b, ok := key.Open(strings.TrimPrefix(text, secretPrefix), permitSize, permitSize+maxSender)
	if !ok || !IsToken(text) {
		return permit{}, false
	}
	return permit{
		link: drive.CollectID(b[:16]), sender: drive.SenderID(b[16:32]),
		expires: ticket.Number[drive.Time](b[32:]), name: string(b[permitSize:]),
	}, true
}

// Public is what anybody is told of a link.
type Public struct {
	Title     string
	Message   string
	Owner     string // their name
	ExpiresAt drive.Time
	MaxFile   *drive.ByteSize
	Left      *drive.ByteSize // nil: the link has no limit of its own
}

// Look says what a token leads to. A token that is nobody's is NotFound, a link that is closed Gone
// {reason: expired or withdrawn}.
func (s *Links) Look(ctx context.Context, token string) (Public, error) {
	l, err := s.arrive(ctx, token)
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
	return Public{l.Title, l.Message, owner.Name, l.ExpiresAt, l.MaxFile, left(l, balance, sum)}, nil
}

func (s *Links) arrive(ctx context.Context, token string) (Link, error) {
	l, err := s.ByToken(ctx, token)
	if err == nil {
		err = s.closed(ctx, s.opt.DB, l)
	}
	return l, err
}

// Granted is a sender's token.
type Granted struct {
	Token     string
	ExpiresAt drive.Time
}

// Open gives somebody a token to send with, under the name that they call themselves (at most 64
// bytes; empty: none).
func (s *Links) Open(ctx context.Context, token, name string) (Granted, error) {
	name, err := text("sender", name, maxSender, false)
	if err != nil {
		return Granted{}, err
	}
	l, err := s.arrive(ctx, token)
	if err != nil {
		return Granted{}, err
	}
	key, err := s.SigningKey(ctx, signs)
	if err != nil {
		return Granted{}, err
	}
	t := permit{link: l.ID, sender: drive.NewID[drive.SenderID](), expires: s.Now().Add(TokenLife), name: name}
	if l.ExpiresAt != 0 {
		t.expires = min(t.expires, l.ExpiresAt)
	}
	return Granted{t.text(key), t.expires}, nil
}
