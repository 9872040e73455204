package app

import (
	"context"
	"errors"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/mail"
	"smartdrive/internal/head/rest"
)

// mailCheck asks the mail server whether it would take a mail, for one administrator at a time and
// not more often than every keepReport: a server takes many logins for an attack.
type mailCheck struct {
	about rest.MailReport // what is said of the server whatever comes of it
	ask   func(ctx context.Context) (encrypted bool, err error)
	turn  chan struct{} // holds one while somebody asks; it guards what follows
	last  rest.MailReport
	at    time.Time
}

const keepReport = 10 * time.Second

func newMailCheck(about rest.MailReport, ask func(context.Context) (bool, error)) *mailCheck {
	return &mailCheck{about: about, ask: ask, turn: make(chan struct{}, 1)}
}

// check is what administrators are told of the mail server.
func (n *notices) check(ctx context.Context) (rest.MailReport, error) {
	if n.mail == nil {
		return rest.MailReport{State: "none"}, nil
	}
	return n.mail.report(ctx)
}

func (m *mailCheck) report(ctx context.Context) (rest.MailReport, error) {
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return rest.MailReport{}, drive.Wrap(context.Cause(ctx), drive.InProgress, "retry_after", 1)
	}
	if !m.at.IsZero() && time.Since(m.at) < keepReport {
		return m.last, nil
	}
	encrypted, err := m.ask(ctx)
	if err != nil && ctx.Err() != nil { // whoever asked is gone, and the server may be well
		return rest.MailReport{}, drive.Wrap(err, drive.Unavailable)
	}
	r := m.about
	r.State, r.Encrypted = "ok", encrypted
	if err != nil {
		r.State, r.Says = string(mail.StepReach), err.Error()
	}
	if failed, ok := errors.AsType[*mail.StepError](err); ok {
		r.State, r.Says = string(failed.Step), failed.Err.Error()
	}
	m.last, m.at = r, time.Now()
	return r, nil
}
