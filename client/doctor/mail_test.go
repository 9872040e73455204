package doctor

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// doctor shows administrators the server's result about its mail server and the remedy.
func TestMail(t *testing.T) {
	t.Parallel()
	const about = `"server":"mail.example.org:465","from":"drive@example.org"`
	for _, c := range []struct {
		status int
		body   string
		level  Level
		says   string
	}{
		{200, `{"state":"none"}`, OK, "without --mail"},
		{200, `{"state":"ok","encrypted":true,` + about + `}`, OK, "from drive@example.org, encrypted"},
		{200, `{"state":"ok","encrypted":false,` + about + `}`, OK, "on the same machine"},
		{200, `{"state":"reach","says":"connection refused",` + about + `}`, Failure, "mail.example.org:465 does not answer (connection refused)"},
		{200, `{"state":"secure","says":"no STARTTLS",` + about + `}`, Failure, "(no STARTTLS): smtps://"},
		{200, `{"state":"login","says":"535 no",` + about + `}`, Failure, "does not accept the login of --mail (535 no)"},
		{200, `{"state":"sender","says":"550 no",` + about + `}`, Failure, "no mail from drive@example.org (550 no): change from="},
		{200, `{"state":"new"}`, Unknown, `"new"`},
		{403, `{}`, Unknown, "only administrators"},
		{404, `{}`, Unknown, "404"}, // of a server before this
	} {
		site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/api/v1/admin/mail" || r.Header.Get("Authorization") != "Bearer t" {
				t.Errorf("asked for %s", r.URL)
			}
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		x := &doctor{Options: Options{BaseURL: site.URL, Token: "t", HTTP: site.Client()}}
		if f := x.mail(t.Context()); f.Check != "mail" || f.Level != c.level || !strings.Contains(f.Message, c.says) || strings.Contains(f.Message, "%!") {
			t.Errorf("%d %s: %+v", c.status, c.body, f)
		}
		site.Close()
	}
}
