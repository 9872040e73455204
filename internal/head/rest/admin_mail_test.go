package rest_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/rest"
	"example.org/smartdrive/internal/usecase/upload/uploadtest"
)

// Only administrators see the state of the mail server, and its message is cut to one line.
func TestTheMailServerIsShownToAdministrators(t *testing.T) {
	t.Parallel()
	s := newStack(t, uploadtest.Options{}, func(o *rest.Options) {
		o.Mail = func(context.Context) (rest.MailReport, error) {
			return rest.MailReport{State: "login", Server: "mail.example.org:465", From: "drive@example.org", Says: "535 no\xff" + strings.Repeat("x", 1000)}, nil
		}
	})
	got := s.admin(t).get(t, "/admin/mail").json(t, http.StatusOK)
	if says := got["says"].(string); got["state"] != "login" || got["server"] != "mail.example.org:465" || len(says) > 250 || !strings.HasPrefix(says, "535 no") {
		t.Errorf("%v", got)
	}
	s.newUser(t, "ann", 0).get(t, "/admin/mail").problem(t, drive.Forbidden, nil)
	none := newStack(t, uploadtest.Options{})
	if got := none.admin(t).get(t, "/admin/mail").json(t, http.StatusOK); got["state"] != "none" {
		t.Errorf("without a server: %v", got)
	}
}
