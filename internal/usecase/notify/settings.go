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

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/notice"
	"example.org/smartdrive/internal/engine/sqldb"
)

// NotificationSettings are a user's notification settings as the API shows them.
type NotificationSettings struct {
	Mails    bool           `json:"mail_possible" doc:"true: the server can send mail"`
	Address  string         `json:"address" doc:"e-mail address; empty: no mail"`
	State    notice.State   `json:"state" enum:"none,asked,confirmed,refused" doc:"asked: a confirmation code was sent; refused: the address refused several mails"`
	Language string         `json:"language" enum:"en,zh-CN" doc:"language of the mails"`
	Channels notice.Choices `json:"channels" doc:"setting of each kind: off, page or mail; mail includes page"`
}

// Change is a change of notification settings; a nil field stays unchanged.
type Change struct {
	Address  *string // empty: stop mail
	Language *string
	Channels notice.Choices
}

// Bounds of confirmation codes.
const (
	maxAddress   = 254 // bytes: RFC 5321 §4.5.3.1.3
	codeLife     = 30 * time.Minute
	maxCodeTries = 5 // of six digits: a guess succeeds once in 200,000 codes
	codesPerDay  = 5 // codes per user and day, because they go to unverified addresses
	day          = 24 * time.Hour

	// maxClockSkew exceeds the clock difference of two instances. A time further in the future was
	// written by a wrong clock and must not extend the number of codes.
	maxClockSkew = 10 * time.Minute
)

// view returns the API form of settings.
func (i *Inbox) view(p notice.Preferences) NotificationSettings {
	return NotificationSettings{Mails: i.mails, Address: p.Address, State: p.State, Language: p.Language, Channels: p.Channels.All()}
}

// Settings returns the caller's notification settings; the defaults if the caller has stored none.
func (i *Inbox) Settings(ctx context.Context, who drive.Who) (NotificationSettings, error) {
	p, err := i.parts.Notices.FindPreferences(ctx, i.parts.DB.For(who.Account), who.User)
	return i.view(p), err
}

// Change changes the caller's notification settings. A new address is sent a code and no other mail
// until Confirm. Setting the same unconfirmed address again sends another code. It fails with
// BadRequest for an unknown channel or language or a malformed address, with Rate after too many
// codes, and with WrongState {state: no-mail} without a mail server.
func (i *Inbox) Change(ctx context.Context, who drive.Who, c Change) (NotificationSettings, error) {
	if err := c.Channels.Check(); err != nil {
		return NotificationSettings{}, err
	}
	if c.Language != nil && *c.Language != "en" && *c.Language != "zh-CN" {
		return NotificationSettings{}, drive.BadField("language", drive.NotAllowed, "allowed", []string{"en", "zh-CN"}, "sent", *c.Language)
	}
	if c.Address != nil && *c.Address != "" {
		if !i.mails {
			return NotificationSettings{}, drive.Fail(drive.WrongState, "state", "no-mail")
		}
		if err := checkAddress(*c.Address); err != nil {
			return NotificationSettings{}, err
		}
	}
	var p notice.Preferences
	err := i.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		p, err = i.parts.Notices.ChangePreferences(ctx, tx, who.User, func(p *notice.Preferences) error { return i.apply(p, c) })
		return err
	})
	return i.view(p), err
}

// apply applies a change to settings in place. A new mail address is not confirmed: apply requests
// a code to be mailed to it. It fails with Rate after too many codes in a day.
func (i *Inbox) apply(p *notice.Preferences, c Change) error {
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
		p.Address, p.State, p.Code, p.MailDue, p.Failures, p.FailingSince = "", notice.None, "", 0, 0, 0
		return nil
	}
	return i.requestCode(p, *c.Address)
}

// requestCode sets the address in p as unconfirmed, with a new code that the mailer sends; the
// caller stores p. It returns Rate above codesPerDay codes a day.
func (i *Inbox) requestCode(p *notice.Preferences, address string) error {
	now := drive.TimeOf(i.parts.Now())
	if now >= p.CodesSince.Add(day) || p.CodesSince > now.Add(maxClockSkew) {
		p.Codes, p.CodesSince = 0, now
	}
	if p.Codes++; p.Codes > codesPerDay {
		return drive.Fail(drive.Rate, "limit", codesPerDay, "sent", p.Codes, "retry_after", int64(p.CodesSince.Add(day).Sub(now)/time.Second)+1)
	}
	n, err := rand.Int(rand.Reader, big.NewInt(1_000_000))
	if err != nil {
		return fmt.Errorf("make a code: %w", err)
	}
	p.Address, p.State, p.Code = address, notice.Asked, fmt.Sprintf("%06d", n)
	p.CodeExpires, p.Tries, p.MailDue, p.Failures, p.FailingSince = now.Add(codeLife), 0, now, 0, 0
	return nil
}

// checkAddress returns BadRequest unless s is a bare mail address in ASCII of at most maxAddress
// bytes.
func checkAddress(s string) error {
	a, err := mail.ParseAddress(s)
	if err != nil || a.Address != s || a.Name != "" || len(s) > maxAddress || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return drive.BadField("address", drive.Malformed, "expected", "an address such as ann@example.org")
	}
	return nil
}

// Confirm confirms the caller's address by the code sent to it. It fails with BadRequest {field:
// code} if the code is wrong or expired. After five wrong codes the caller must request a new one.
func (i *Inbox) Confirm(ctx context.Context, who drive.Who, code string) (NotificationSettings, error) {
	var p notice.Preferences
	right := false
	err := i.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		p, err = i.parts.Notices.ChangePreferences(ctx, tx, who.User, func(p *notice.Preferences) error {
			now := drive.TimeOf(i.parts.Now())
			if right = p.State == notice.Confirmed; right { // confirmed before: the reply was lost
				return nil
			}
			if p.State != notice.Asked || p.Code == "" || now > p.CodeExpires || p.Tries >= maxCodeTries {
				return nil
			}
			if subtle.ConstantTimeCompare([]byte(strings.TrimSpace(code)), []byte(p.Code)) != 1 {
				p.Tries++
				return nil
			}
			right = true
			p.State, p.Code, p.MailDue, p.Failures, p.FailingSince = notice.Confirmed, "", 0, 0, 0
			waits, err := i.parts.Notices.MarkMailed(ctx, tx, who.User, nil) // waiting since an earlier address
			if waits {
				p.MailDue = now
			}
			return err
		})
		return err
	})
	if err == nil && !right {
		err = drive.BadField("code", drive.Unknown)
	}
	return i.view(p), err
}
