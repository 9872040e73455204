package nextcloud

import (
	"context"
	"net/http"
	"strings"

	"example.org/smartdrive/internal/base/drive"
)

// status replies to /status.php with the version that the head emulates; clients recognize a server
// by it. It needs no authentication.
func (c *call) status(context.Context) error {
	c.w.Header().Set("Cache-Control", "no-store")
	return c.sendJSON(http.StatusOK, object{
		{"installed", true},
		{"maintenance", false},
		{"needsDbUpgrade", false},
		{"version", protocolNumber},
		{"versionstring", protocolText},
		{"edition", ""},
		{"productname", product},
		{"extendedSupport", false},
	})
}

// index routes /index.php/...: the connection test 204, both login flows and previews. Other paths
// fail with drive.NotFound.
func (c *call) index(ctx context.Context) error {
	switch strings.Join(c.path[1:], "/") {
	case "204":
		c.w.WriteHeader(http.StatusNoContent)
		return nil
	case "login/flow", "login/flow/grant": // login page of phones
		http.Redirect(c.w, c.r, c.base()+"/grant", http.StatusSeeOther)
		return nil
	case "login/v2":
		return c.beginFlow(ctx)
	case "login/v2/poll":
		return c.poll(ctx)
	case "core/preview", "core/preview.png":
		return c.preview(ctx)
	}
	return drive.Fail(drive.NotFound)
}

// beginFlow begins login flow v2: it replies with the address of a page, which the client opens for
// its user, and a token with which the client polls for the result (see poll). Methods other than
// POST fail with drive.Method.
func (c *call) beginFlow(context.Context) error {
	if c.r.Method != http.MethodPost {
		return c.methodNotAllowed(http.MethodPost)
	}
	release, err := c.Visitor(c.r)
	if err != nil {
		return err
	}
	defer release()
	poll, page := c.Sessions.BeginFlow(c.r.UserAgent())
	c.w.Header().Set("Cache-Control", "no-store")
	return c.sendJSON(http.StatusOK, object{
		{"poll", object{{"token", poll}, {"endpoint", c.base() + "/index.php/login/v2/poll"}}}, {"login", c.base() + "/grant/" + page},
	})
}

// maxForm bounds a form in bytes: a poll token and its name.
const maxForm = 4 << 10

// poll replies with the app password once the user has granted the login that beginFlow began.
// Until then, and for an unknown token, it fails with status 404. Methods other than POST fail with
// drive.Method.
func (c *call) poll(ctx context.Context) error {
	if c.r.Method != http.MethodPost {
		return c.methodNotAllowed(http.MethodPost)
	}
	release, err := c.Visitor(c.r)
	if err != nil {
		return err
	}
	defer release()
	c.r.Body = http.MaxBytesReader(c.w, c.r.Body, maxForm)
	if err := c.r.ParseForm(); err != nil {
		return drive.Wrap(err, drive.BadRequest, "field", "body", "reason", string(drive.Malformed), "expected", "a form")
	}
	granted, name, err := c.Sessions.PollFlow(ctx, c.r.Form.Get("token"))
	if err != nil {
		return err
	}
	c.w.Header().Set("Cache-Control", "no-store")
	return c.sendJSON(http.StatusOK, object{{"server", c.base()}, {"loginName", name}, {"appPassword", granted.Secret}})
}
