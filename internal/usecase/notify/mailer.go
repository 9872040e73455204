package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/base/telemetry"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/notice"
	"example.org/smartdrive/internal/engine/mail"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
)

// Timing and bounds of Mailer.
const (
	mailInterval  = 5 * time.Second    // between two polls
	peoplePerPoll = 100                // users that one poll finds
	refuseAfter   = 3 * 24 * time.Hour // after which an address with temporary rejections is given up
	maxMailLines  = 20                 // notices listed in one mail
)

// Mailer mails notices and confirmation codes. One process per installation should run it; a
// second one sends duplicates and loses nothing.
type Mailer struct {
	parts Parts
	opt   MailerOptions

	// Backoff while the mail server is unavailable. Only used by Run.
	failures int
	retryAt  time.Time
	problems map[drive.UserID]*mailProblem // by user whose mail could not be sent
}

// mailProblem is a failure that concerns one user's mail, not the mail server.
type mailProblem struct {
	failures   int
	retryAt    time.Time
	unrecorded *sentMail // sent, but not recorded as sent yet: it is not sent again
}

// sentMail is a mail that was handed to the mail server, or that needed none, and the notices it
// covers.
type sentMail struct {
	person    notice.Preferences
	notices   []notice.Notice
	delivered bool // false: there was nothing to send
}

// MailerOptions configures NewMailer. Send is required.
type MailerOptions struct {
	// Send delivers a mail; it is mail.Server.Send.
	Send func(ctx context.Context, m mail.Message) error
	// BaseURL is the address of the web pages; empty: mails have no links.
	BaseURL string
	Log     *slog.Logger // default slog.Default
}

// NewMailer returns a Mailer.
func NewMailer(parts Parts, opt MailerOptions) *Mailer {
	if parts.Now == nil {
		parts.Now = time.Now
	}
	if opt.Log == nil {
		opt.Log = slog.Default()
	}
	return &Mailer{parts: parts, opt: opt, problems: map[drive.UserID]*mailProblem{}}
}

// Run sends mail every mailInterval until ctx ends, and returns nil. Failures are logged and
// retried. One instance should run it at a time.
func (p *Mailer) Run(ctx context.Context) error {
	clear(p.problems) // another process may have sent mail meanwhile
	tick := time.NewTicker(mailInterval)
	defer tick.Stop()
	var outage telemetry.Outage
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		outage.Record(ctx, p.opt.Log, "notification mails could not be sent; retrying", p.runOnce(ctx))
	}
}

// runOnce sends the mails that are due. While the mail server is unavailable it tries once per
// backoff delay.
func (p *Mailer) runOnce(ctx context.Context) error {
	if p.isPaused(p.retryAt) {
		return nil
	}
	all, err := p.parts.Notices.ListDue(ctx, peoplePerPoll)
	if err != nil {
		return err
	}
	var failed []error
	for _, one := range all {
		if t := p.problems[one.User]; t != nil && p.isPaused(t.retryAt) {
			continue
		}
		err := p.mailTo(ctx, one)
		switch {
		case err == nil:
			p.failures = 0
			delete(p.problems, one.User)
		case ctx.Err() != nil:
			return err
		case drive.IsKind(err, drive.Unavailable):
			p.failures++
			levels := stream.Levels()
			p.retryAt = p.parts.Now().Add(levels[min(p.failures, len(levels))-1].Delay)
			return errors.Join(append(failed, err)...)
		default: // a problem of one user does not delay others
			t := p.problemOf(one.User)
			t.failures++
			t.retryAt = p.parts.Now().Add(mailInterval << min(t.failures, 6)) // 10 s to 5 min
			failed = append(failed, fmt.Errorf("mail to user %s: %w", one.User, err))
		}
	}
	return errors.Join(failed...)
}

// isPaused reports whether until is in the future. A longer delay than any backoff was set by a
// clock that was ahead and does not count.
func (p *Mailer) isPaused(until time.Time) bool {
	levels := stream.Levels()
	left := until.Sub(p.parts.Now())
	return left > 0 && left <= levels[len(levels)-1].Delay
}

// problemOf returns the mail problem of a user, and creates it if there is none.
func (p *Mailer) problemOf(user drive.UserID) *mailProblem {
	t := p.problems[user]
	if t == nil {
		t = &mailProblem{}
		p.problems[user] = t
	}
	return t
}

// mailTo sends one user a code or a digest and records it. A mail that was sent and not recorded is
// only recorded.
func (p *Mailer) mailTo(ctx context.Context, one notice.Preferences) error {
	if t := p.problems[one.User]; t != nil && t.unrecorded != nil {
		return p.recordSent(ctx, *t.unrecorded)
	}
	m, told, err := p.compose(ctx, one)
	if err != nil {
		return err
	}
	if m.To != "" {
		if err := p.opt.Send(ctx, m); err != nil {
			if refused, ok := errors.AsType[*mail.RefusedError](err); ok {
				return p.recordRefused(ctx, one, told, refused)
			}
			return err
		}
	}
	s := sentMail{one, told, m.To != ""}
	if err = p.recordSent(ctx, s); err != nil {
		p.problemOf(one.User).unrecorded = &s
	}
	return err
}

// compose returns the mail to a user, and the notices that it settles. An empty To means that
// nothing is sent.
func (p *Mailer) compose(ctx context.Context, one notice.Preferences) (m mail.Message, told []notice.Notice, err error) {
	if one.State == notice.Asked && one.Code != "" {
		if drive.TimeOf(p.parts.Now()) > one.CodeExpires { // the code has expired
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
	var fresh []notice.Notice // notices already read on the page are not mailed
	for _, n := range told {
		if n.Read == 0 {
			fresh = append(fresh, n)
		}
	}
	seen, err := show(ctx, p.parts, drive.Who{User: u.ID, Account: u.Account}, fresh)
	if err != nil {
		return m, nil, err
	}
	var say []Notification
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

// recordSent records, in one transaction, that a mail was sent, so that its notices are not mailed
// again, and schedules the next one if notices have arrived meanwhile.
func (p *Mailer) recordSent(ctx context.Context, s sentMail) error {
	one := s.person
	return p.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := p.parts.Notices.ChangePreferences(ctx, tx, one.User, func(now *notice.Preferences) error {
			more, err := p.parts.Notices.MarkMailed(ctx, tx, one.User, s.notices)
			if err != nil {
				return err
			}
			if now.State == notice.Asked {
				if now.Code == one.Code && now.Address == one.Address { // else another code was requested meanwhile
					now.MailDue = 0
				}
				return nil
			}
			at := drive.TimeOf(p.parts.Now())
			now.MailDue, now.Failures, now.FailingSince = 0, 0, 0
			if s.delivered {
				now.LastMail = at
			}
			if more {
				now.MailDue = at.Add(minMailInterval)
			}
			return nil
		})
		return err
	})
}

// recordRefused records a rejected mail and schedules a retry. After more attempts than there are
// delay levels it marks the address as refused, at once for a permanent rejection and after
// refuseAfter for temporary ones.
func (p *Mailer) recordRefused(ctx context.Context, one notice.Preferences, told []notice.Notice, why *mail.RefusedError) error {
	p.opt.Log.WarnContext(ctx, "notification mail rejected by the mail server; retrying later unless it keeps being rejected", "user", one.User, "code", why.Code, "failures", one.Failures+1)
	return p.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := p.parts.Notices.ChangePreferences(ctx, tx, one.User, func(now *notice.Preferences) error {
			if now.Address != one.Address || now.State != one.State {
				return nil
			}
			at, levels := drive.TimeOf(p.parts.Now()), stream.Levels()
			if now.Failures++; now.FailingSince == 0 {
				now.FailingSince = at
			}
			if now.Failures > len(levels) && (why.Permanent() || at >= now.FailingSince.Add(refuseAfter)) {
				now.State, now.Code, now.MailDue = notice.Refused, "", 0
				_, err := p.parts.Notices.MarkMailed(ctx, tx, one.User, told)
				return err
			}
			now.MailDue = at.Add(levels[min(now.Failures, len(levels))-1].Delay)
			return nil
		})
		return err
	})
}
