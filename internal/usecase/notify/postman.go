package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/base/telemetry"
	"smartdrive/internal/domain/account"
	"smartdrive/internal/domain/notice"
	"smartdrive/internal/engine/mail"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/stream"
)

const (
	mailLook   = 5 * time.Second    // how late a mail goes out
	mailPage   = 100                // people that one look finds
	mailGiveUp = 3 * 24 * time.Hour // after which an address that refuses for a while is refused
	mailLines  = 20                 // notices that one mail tells
)

// Postman mails what people are told. It is for one process of the installation; a second one
// repeats mails and loses none.
type Postman struct {
	parts Parts
	opt   PostOptions

	// While the server cannot be reached nobody's mail is tried; of one loop.
	failures int
	wait     time.Time
	troubles map[drive.UserID]*trouble
}

// trouble is with one person's mail, and not with the mail server: a full disk, say.
type trouble struct {
	failures int
	wait     time.Time
	sent     *sending // handed over, and not noted yet: it is not sent again
}

// sending is a mail to somebody, and what it tells.
type sending struct {
	person notice.Person
	told   []notice.Notice
	mailed bool // else there was nothing to send
}

// PostOptions configure NewPostman. Send is required.
type PostOptions struct {
	// Send hands a mail over; it is mail.Server.Send.
	Send func(ctx context.Context, m mail.Message) error
	// BaseURL is where the pages are; empty: mails have no links.
	BaseURL string
	Log     *slog.Logger // default slog.Default
}

// NewPostman returns a Postman.
func NewPostman(parts Parts, opt PostOptions) *Postman {
	if parts.Now == nil {
		parts.Now = time.Now
	}
	if opt.Log == nil {
		opt.Log = slog.Default()
	}
	return &Postman{parts: parts, opt: opt, troubles: map[drive.UserID]*trouble{}}
}

// Run mails until ctx is done.
func (p *Postman) Run(ctx context.Context) error {
	clear(p.troubles) // another process may have mailed meanwhile
	tick := time.NewTicker(mailLook)
	defer tick.Stop()
	var outage telemetry.Outage
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		outage.Note(ctx, p.opt.Log, "notifications could not be mailed and will be tried again", p.runOnce(ctx))
	}
}

// runOnce mails to those who are due. While the server is away it is asked once for each pause.
func (p *Postman) runOnce(ctx context.Context) error {
	if p.waits(p.wait) {
		return nil
	}
	all, err := p.parts.Notices.ListDue(ctx, mailPage)
	if err != nil {
		return err
	}
	var failed []error
	for _, one := range all {
		if t := p.troubles[one.User]; t != nil && p.waits(t.wait) {
			continue
		}
		err := p.serve(ctx, one)
		switch {
		case err == nil:
			p.failures = 0
			delete(p.troubles, one.User)
		case ctx.Err() != nil:
			return err
		case drive.IsKind(err, drive.Unavailable):
			p.failures++
			levels := stream.Levels()
			p.wait = p.parts.Now().Add(levels[min(p.failures, len(levels))-1].Delay)
			return errors.Join(append(failed, err)...)
		default: // others do not wait for it
			t := p.trouble(one.User)
			t.failures++
			t.wait = p.parts.Now().Add(mailLook << min(t.failures, 6)) // 10 s to 5 min
			failed = append(failed, fmt.Errorf("mail to user %s: %w", one.User, err))
		}
	}
	return errors.Join(failed...)
}

// waits reports whether a pause goes on; one that is longer than any was made by a clock that was
// ahead.
func (p *Postman) waits(until time.Time) bool {
	levels := stream.Levels()
	left := until.Sub(p.parts.Now())
	return left > 0 && left <= levels[len(levels)-1].Delay
}

func (p *Postman) trouble(user drive.UserID) *trouble {
	t := p.troubles[user]
	if t == nil {
		t = &trouble{}
		p.troubles[user] = t
	}
	return t
}

// serve sends one person what waits: a code, or notices. What was sent and could not be noted is
// only noted.
func (p *Postman) serve(ctx context.Context, one notice.Person) error {
	if t := p.troubles[one.User]; t != nil && t.sent != nil {
		return p.sent(ctx, *t.sent)
	}
	m, told, err := p.compose(ctx, one)
	if err != nil {
		return err
	}
	if m.To != "" {
		if err := p.opt.Send(ctx, m); err != nil {
			if refused, ok := errors.AsType[*mail.RefusedError](err); ok {
				return p.refused(ctx, one, told, refused)
			}
			return err
		}
	}
	s := sending{one, told, m.To != ""}
	if err = p.sent(ctx, s); err != nil {
		p.trouble(one.User).sent = &s
	}
	return err
}

// compose makes the mail of a person; one without an address is not sent. told are the notices that
// wait no more then.
func (p *Postman) compose(ctx context.Context, one notice.Person) (m mail.Message, told []notice.Notice, err error) {
	if one.State == notice.Asked && one.Code != "" {
		if drive.TimeOf(p.parts.Now()) > one.Until { // it is of no use any more
			return m, nil, nil
		}
		return p.codeMail(one), nil, nil
	}
	if told, err = p.parts.Notices.ListUnmailed(ctx, p.parts.DB, one.User); err != nil || one.State != notice.Confirmed {
		return m, told, err
	}
	u, err := p.parts.Users.Find(ctx, p.parts.DB, one.User)
	if drive.IsKind(err, drive.NotFound) || err == nil && u.State != account.Active {
		return m, told, nil
	}
	if err != nil {
		return m, nil, err
	}
	var fresh []notice.Notice // what was read on the page needs no mail
	for _, n := range told {
		if n.Read == 0 {
			fresh = append(fresh, n)
		}
	}
	seen, err := show(ctx, p.parts, drive.Who{User: u.ID, Account: u.Account}, fresh)
	if err != nil {
		return m, nil, err
	}
	var say []Seen
	for _, s := range seen {
		if !s.Gone {
			say = append(say, s)
		}
	}
	if len(say) == 0 {
		return m, told, nil
	}
	return p.digest(one, say), told, nil
}

// sent notes what a person was sent. A code that was sent waits no more; what has come meanwhile
// goes with the next mail.
func (p *Postman) sent(ctx context.Context, s sending) error {
	one := s.person
	return p.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := p.parts.Notices.ChangePerson(ctx, tx, one.User, func(now *notice.Person) error {
			more, err := p.parts.Notices.Mailed(ctx, tx, one.User, s.told)
			if err != nil {
				return err
			}
			if now.State == notice.Asked {
				if now.Code == one.Code && now.Address == one.Address { // else another one was asked for meanwhile
					now.Due = 0
				}
				return nil
			}
			at := drive.TimeOf(p.parts.Now())
			now.Due, now.Failures, now.FailingSince = 0, 0, 0
			if s.mailed {
				now.Sent = at
			}
			if more {
				now.Due = at.Add(mailPause)
			}
			return nil
		})
		return err
	})
}

// refused puts the mail of a person off, and gives an address up that goes on refusing: after more
// attempts than there are delay levels, and after days where each of them is to come later.
func (p *Postman) refused(ctx context.Context, one notice.Person, told []notice.Notice, why *mail.RefusedError) error {
	p.opt.Log.WarnContext(ctx, "a mail was refused", "user", one.User, "code", why.Code, "failures", one.Failures+1)
	return p.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := p.parts.Notices.ChangePerson(ctx, tx, one.User, func(now *notice.Person) error {
			if now.Address != one.Address || now.State != one.State {
				return nil
			}
			at, levels := drive.TimeOf(p.parts.Now()), stream.Levels()
			if now.Failures++; now.FailingSince == 0 {
				now.FailingSince = at
			}
			if now.Failures > len(levels) && (why.Permanent() || at >= now.FailingSince.Add(mailGiveUp)) {
				now.State, now.Code, now.Due = notice.Refused, "", 0
				_, err := p.parts.Notices.Mailed(ctx, tx, one.User, told)
				return err
			}
			now.Due = at.Add(levels[min(now.Failures, len(levels))-1].Delay)
			return nil
		})
		return err
	})
}
