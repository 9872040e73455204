package notify

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"maps"
	"math/big"
	"net/mail"
	"strings"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/notice"
	"smartdrive/internal/engine/sqldb"
)

// Wishes are how somebody is told.
type Wishes struct {
	Mails    bool           `json:"mail_possible" doc:"the server sends mail"`
	Address  string         `json:"address" doc:"where mail goes; empty: nowhere"`
	State    notice.State   `json:"state" enum:"none,asked,confirmed,refused" doc:"asked: a code was sent to the address and is waited for; refused: its mail server has refused several mails"`
	Language string         `json:"language" enum:"en,zh-CN" doc:"of the mails"`
	Channels notice.Choices `json:"channels" doc:"for each kind: off, page, or mail, which is on the page, too"`
}

// Change is a change of settings; nil stays as it is.
type Change struct {
	Address  *string // empty: no mail any more
	Language *string
	Channels notice.Choices
}

const (
	maxAddress = 254 // bytes: RFC 5321 §4.5.3.1.3
	codeLife   = 30 * time.Minute
	codeTries  = 5 // of six digits: one in 200,000 guesses is right
	codesADay  = 5 // that one account has sent to addresses that may be anybody's
	day        = 24 * time.Hour

	// clocksApart is more than those of two instances are: what is later than that was noted by a
	// clock that was wrong, and gives nobody more codes than there are.
	clocksApart = 10 * time.Minute
)

func (b *Inbox) settings(p notice.Person) Wishes {
	return Wishes{Mails: b.mails, Address: p.Address, State: p.State, Language: p.Language, Channels: p.Channels.All()}
}

// Settings returns how the caller is told.
func (b *Inbox) Settings(ctx context.Context, who drive.Who) (Wishes, error) {
	p, err := b.parts.Notices.FindPerson(ctx, b.parts.DB.For(who.Account), who.User)
	return b.settings(p), err
}

// Change changes how the caller is told. To an address that is new a code is sent, and nothing else
// until Confirm. The same address again sends another code. Errors: BadRequest, Rate.
func (b *Inbox) Change(ctx context.Context, who drive.Who, c Change) (Wishes, error) {
	if err := c.Channels.Check(); err != nil {
		return Wishes{}, err
	}
	if c.Language != nil && *c.Language != "en" && *c.Language != "zh-CN" {
		return Wishes{}, drive.Bad("language", drive.NotAllowed, "allowed", []string{"en", "zh-CN"}, "sent", *c.Language)
	}
	if c.Address != nil && *c.Address != "" {
		if !b.mails {
			return Wishes{}, drive.Fail(drive.WrongState, "state", "no-mail")
		}
		if err := checkAddress(*c.Address); err != nil {
			return Wishes{}, err
		}
	}
	var p notice.Person
	err := b.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		p, err = b.parts.Notices.ChangePerson(ctx, tx, who.User, func(p *notice.Person) error { return b.apply(p, c) })
		return err
	})
	return b.settings(p), err
}

func (b *Inbox) apply(p *notice.Person, c Change) error {
	if c.Language != nil {
		p.Language = *c.Language
	}
	if len(c.Channels) > 0 && p.Channels == nil {
		p.Channels = notice.Choices{}
	}
	maps.Copy(p.Channels, c.Channels)
	switch {
	case c.Address == nil, *c.Address == p.Address && p.State == notice.Confirmed:
		return nil
	case *c.Address == "":
		p.Address, p.State, p.Code, p.Due, p.Failures, p.FailingSince = "", notice.None, "", 0, 0, 0
		return nil
	}
	return b.ask(p, *c.Address)
}

// ask has a code sent to an address.
func (b *Inbox) ask(p *notice.Person, address string) error {
	now := drive.TimeOf(b.parts.Now())
	if now >= p.Since.Add(day) || p.Since > now.Add(clocksApart) {
		p.Codes, p.Since = 0, now
	}
	if p.Codes++; p.Codes > codesADay {
		return drive.Fail(drive.Rate, "limit", codesADay, "sent", p.Codes, "retry_after", int64(p.Since.Add(day).Sub(now)/time.Second)+1)
	}
	n, err := rand.Int(rand.Reader, big.NewInt(1_000_000))
	if err != nil {
		return fmt.Errorf("make a code: %w", err)
	}
	p.Address, p.State, p.Code = address, notice.Asked, fmt.Sprintf("%06d", n)
	p.Until, p.Tries, p.Due, p.Failures, p.FailingSince = now.Add(codeLife), 0, now, 0, 0
	return nil
}

// checkAddress refuses what is no bare address of mail.
func checkAddress(s string) error {
	a, err := mail.ParseAddress(s)
	if err != nil || a.Address != s || a.Name != "" || len(s) > maxAddress || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return drive.Bad("address", drive.Malformed, "expected", "an address such as ann@example.org")
	}
	return nil
}

// Confirm takes the code that was sent to the caller's address. BadRequest {field: code}: it is
// another one, or too late; after five wrong ones a new one has to be asked for.
func (b *Inbox) Confirm(ctx context.Context, who drive.Who, code string) (Wishes, error) {
	var p notice.Person
	right := false
	err := b.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		p, err = b.parts.Notices.ChangePerson(ctx, tx, who.User, func(p *notice.Person) error {
			now := drive.TimeOf(b.parts.Now())
			if right = p.State == notice.Confirmed; right { // the reply was lost
				return nil
			}
			if p.State != notice.Asked || p.Code == "" || now > p.Until || p.Tries >= codeTries {
				return nil
			}
			if subtle.ConstantTimeCompare([]byte(strings.TrimSpace(code)), []byte(p.Code)) != 1 {
				p.Tries++
				return nil
			}
			right = true
			p.State, p.Code, p.Due, p.Failures, p.FailingSince = notice.Confirmed, "", 0, 0, 0
			waits, err := b.parts.Notices.Mailed(ctx, tx, who.User, nil) // from before, when it was another address
			if waits {
				p.Due = now
			}
			return err
		})
		return err
	})
	if err == nil && !right {
		err = drive.Bad("code", drive.Unknown)
	}
	return b.settings(p), err
}
