package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"smartdrive/internal/domain/notice"
	"smartdrive/internal/engine/mail"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/head/rest"
	"smartdrive/internal/usecase/notify"
	"smartdrive/internal/usecase/webhook"
)

// notices are what people are told, and who tells them.
type notices struct {
	store   *notice.Notices
	teller  *notify.Teller
	inbox   *notify.Inbox
	postman *notify.Postman // nil: there is no server for mail
	mail    *mailCheck      // nil: the same
}

func newNotices(a *App) *notices {
	g, cfg := a.ground, a.ground.cfg
	n := &notices{store: notice.New(notice.Options{DB: g.db, Now: g.stamp, Kept: g.kept.Now})}
	parts := notify.Parts{DB: g.db, Notices: n.store, Access: a.access, Users: a.users, Tree: a.tree, Log: a.activity, Now: g.stamp}
	n.teller, n.inbox = notify.NewTeller(parts, cfg.Mail != nil), notify.NewInbox(parts, cfg.Mail != nil)
	if cfg.Mail == nil {
		return n
	}
	server := mail.New(mail.Options{
		Address: cfg.Mail.Address, TLS: cfg.Mail.TLS, User: cfg.Mail.User, Password: string(cfg.Mail.Password), From: cfg.Mail.From,
	})
	n.mail = newMailCheck(rest.MailReport{Server: cfg.Mail.Address, From: cfg.Mail.From}, server.Check)
	opt := notify.PostOptions{Log: g.log, Send: server.Send}
	if cfg.BaseURL != nil {
		opt.BaseURL = cfg.BaseURL.String()
	}
	n.postman = notify.NewPostman(parts, opt)
	return n
}

// lookTime is how long a look may take: most of what a chore has.
const lookTime = choreTime / 3 * 2

// look looks for what nobody does and people are told. It returns before which moment roles have
// ended that may be deleted: those whose end was told. That it fails, or takes long, keeps nothing
// else from being deleted, and these for a week. more says that it is not through.
func (n *notices) look(ctx context.Context, log *slog.Logger, now time.Time) (ended time.Time, more bool) {
	within, stop := context.WithTimeout(ctx, lookTime)
	defer stop()
	var err error
	for _, tell := range []func(context.Context) (bool, error){n.teller.Roles, n.teller.Ledgers} {
		left, failed := true, error(nil)
		for left && failed == nil && within.Err() == nil {
			left, failed = tell(within)
		}
		more, err = more || left, errors.Join(err, failed)
	}
	if within.Err() != nil && ctx.Err() == nil { // the rest of it has its turn soon
		more, err = true, nil
	}
	ended, endedErr := n.teller.Ended(ctx, now)
	if err := errors.Join(err, endedErr); err != nil && ctx.Err() == nil {
		log.ErrorContext(ctx, "people could not be told of roles that end or drives that get full", "error", err)
	}
	return ended, more
}

// hookDisabled has the user told who has made a webhook that was disabled.
func (n chronicle) hookDisabled(ctx context.Context, tx *sqldb.Tx, h webhook.Hook) error {
	record, err := notice.Due(notice.Cause{
		Kind: notice.Webhook, What: notice.Disabled, Account: h.Account, User: h.User,
		Data: notice.Data{Name: h.Label(), Subject: h.ID.String(), Reason: string(h.Reason)},
	})
	if err != nil {
		return err
	}
	return n.Append(ctx, tx, record)
}
