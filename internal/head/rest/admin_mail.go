package rest

import (
	"context"

	"example.org/smartdrive/internal/head/server"
)

// mailRoute returns the route that probes the mail server.
func (i inspection) mailRoute() route {
	return route{
		id: "checkMail", method: "GET", path: "/admin/mail", access: admins, action: withoutBody(i.showMail),
		summary:  "Ask the mail server whether it would take a mail: whether it answers, encrypts, accepts the login and the sender. No mail is sent. It takes up to 10 s; an answer is kept for as long.",
		outcomes: []outcome{jsonOutcome[MailReport](200, "what came of it")},
	}
}

// MailReport is the result of probing the mail server.
type MailReport struct {
	State     string `json:"state" enum:"none,ok,reach,secure,login,sender" doc:"none: the server was started without --mail; ok: mail can be sent; otherwise the failing step: reach (no answer), secure (no encryption), login, sender (sender address refused)"`
	Server    string `json:"server,omitempty" doc:"host and port"`
	From      string `json:"from,omitempty" doc:"sender address"`
	Encrypted bool   `json:"encrypted" doc:"with ok: true: the connection is encrypted; false for a server on the same machine"`
	Says      string `json:"says,omitempty" doc:"error message of the mail server or the network"`
}

// showMail serves GET /admin/mail. It replies 200 with MailReport. Without a configured mail server
// the state is "none".
func (i inspection) showMail(ctx context.Context, _ *call) (reply, error) {
	if i.mail == nil {
		return ok(MailReport{State: "none"})
	}
	report, err := i.mail(ctx)
	if err != nil {
		return reply{}, err
	}
	report.Says = server.Clip(report.Says)
	return ok(report)
}
