package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"example.org/smartdrive/internal/base/config"
	"example.org/smartdrive/internal/domain/notice"
	"example.org/smartdrive/internal/engine/instance"
	"example.org/smartdrive/internal/engine/mail"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/head/rest"
	"example.org/smartdrive/internal/usecase/notify"
	"example.org/smartdrive/internal/usecase/webhook"
)

// notices holds the parts that create and deliver notifications.
type notices struct {
	store   *notice.Notices
	teller  *notify.Notifier
	inbox   *notify.Inbox
	postman *notify.Mailer // nil: no mail server
	mail    *mailCheck     // nil: no mail server
}

// newNotices constructs the notices. Without a configured mail server mail and postman stay nil.
func newNotices(a *App) *notices {
	p, cfg := a.platform, a.platform.cfg
	n := &notices{store: notice.New(notice.Options{DB: p.db, Now: p.rowTime, RetentionClock: p.kept.Now})}
	parts := notify.Parts{DB: p.db, Notices: n.store, Access: a.access, Users: a.users, Tree: a.tree, Log: a.activity, Now: p.rowTime}
	n.teller, n.inbox = notify.NewNotifier(parts, cfg.Mail != nil), notify.NewInbox(parts, cfg.Mail != nil)
	if cfg.Mail == nil {
		return n
	}
	server := mail.New(mail.Options{
		Address: cfg.Mail.Address, TLS: cfg.Mail.TLS, User: cfg.Mail.User, Password: string(cfg.Mail.Password), From: cfg.Mail.From,
	})
	n.mail = newMailCheck(rest.MailReport{Server: cfg.Mail.Address, From: cfg.Mail.From}, server.Check)
	opt := notify.MailerOptions{Log: p.log, Send: server.Send}
	if cfg.BaseURL != nil {
		opt.BaseURL = cfg.BaseURL.String()
	}
	n.postman = notify.NewMailer(parts, opt)
	return n
}

// loops returns the loop that sends mail, if a mail server is configured and roles include Worker.
func (n *notices) loops(member *instance.Member, roles config.Roles) []loop {
	if n.postman == nil {
		return nil
	}
	return when(roles.Worker, underLease(member, leaseMail, n.postman.Run))
}

// sendTimeout bounds sendDue: most of a job's time.
const sendTimeout = jobTime / 3 * 2

// sendDue creates notifications about expiring roles and full drives. It returns the time before
// which expired roles may be deleted, because their users were notified. A failure delays that
// deletion by at most a week and nothing else. more reports that work is left.
func (n *notices) sendDue(ctx context.Context, log *slog.Logger, now time.Time) (ended time.Time, more bool) {
	within, stop := context.WithTimeout(ctx, sendTimeout)
	defer stop()
	var err error
	for _, tell := range []func(context.Context) (bool, error){n.teller.ScanExpiringRoles, n.teller.ScanLedgers} {
		left, failed := true, error(nil)
		for left && failed == nil && within.Err() == nil {
			left, failed = tell(within)
		}
		more, err = more || left, errors.Join(err, failed)
	}
	if within.Err() != nil && ctx.Err() == nil { // it continues soon
		more, err = true, nil
	}
	ended, endedErr := n.teller.RolesNotifiedUntil(ctx, now)
	if err := errors.Join(err, endedErr); err != nil && ctx.Err() == nil {
		log.ErrorContext(ctx, "notifications of expiring roles or full drives failed; the next housekeeping run retries", "error", err)
	}
	return ended, more
}

// hookDisabled notifies the user who created a webhook that it was disabled. It appends the record
// within tx; an error fails the transaction.
func (p activityPublisher) hookDisabled(ctx context.Context, tx *sqldb.Tx, h webhook.Hook) error {
	record, err := notice.NewRecord(notice.Cause{
		Kind: notice.Webhook, What: notice.Disabled, Account: h.Account, User: h.User,
		Data: notice.Data{Name: h.Label(), Subject: h.ID.String(), Reason: string(h.Reason)},
	})
	if err != nil {
		return err
	}
	return p.Append(ctx, tx, record)
}
