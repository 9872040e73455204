package app

import (
	"context"
	"errors"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/mail"
	"example.org/smartdrive/internal/head/rest"
)

// mailCheck probes the mail server for one administrator at a time and at most once per keepReport,
// because servers take frequent logins for an attack.
type mailCheck struct {
	base    rest.MailReport // fields that do not depend on the result
	probe   func(ctx context.Context) (encrypted bool, err error)
	probing chan struct{} // holds one element while a probe runs; guards the fields below
	last    rest.MailReport
	at      time.Time
}

// keepReport is how long a report answers further requests without a new probe.
const keepReport = 10 * time.Second

// newMailCheck returns a check whose reports start from about. ask probes the mail server; it is
// called by at most one request at a time.
func newMailCheck(about rest.MailReport, ask func(context.Context) (bool, error)) *mailCheck {
	return &mailCheck{base: about, probe: ask, probing: make(chan struct{}, 1)}
}

// check probes the mail server for administrators; its state is "none" without a mail server.
func (n *notices) check(ctx context.Context) (rest.MailReport, error) {
	if n.mail == nil {
		return rest.MailReport{State: "none"}, nil
	}
	return n.mail.report(ctx)
}

// report returns the last report if it is younger than keepReport, and else probes. It fails with
// InProgress if ctx ends while another probe runs.
func (m *mailCheck) report(ctx context.Context) (rest.MailReport, error) {
	select {
	case m.probing <- struct{}{}:
		defer func() { <-m.probing }()
	case <-ctx.Done():
		return rest.MailReport{}, drive.Wrap(context.Cause(ctx), drive.InProgress, "retry_after", 1)
	}
	if !m.at.IsZero() && time.Since(m.at) < keepReport {
		return m.last, nil
	}
	encrypted, err := m.probe(ctx)
	if err != nil && ctx.Err() != nil { // the administrator disconnected; the server may be fine
		return rest.MailReport{}, drive.Wrap(err, drive.Unavailable)
	}
	r := m.base
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
