package app

import (
	"time"

	"example.org/smartdrive/internal/usecase/signon"
)

// newSignOn returns the configured identity provider; nil if none is configured. It logs a warning
// without a base URL.
func newSignOn(a *App) *signon.SignOn {
	cfg := a.platform.cfg.SignOn
	if cfg.Issuer == "" {
		return nil
	}
	if a.platform.cfg.BaseURL == nil {
		a.platform.log.Warn("--base-url is not set: after a login, the identity provider sends users back to the address that each of them used; set --base-url")
	}
	return signon.New(signon.Parts{DB: a.platform.db, Users: a.users, Sessions: a.sessions, Admin: a.admin, Spaces: a.spaces, Secret: a.vault.LinkSecret}, signon.Options{
		Issuer: cfg.Issuer, Client: cfg.Client, Secret: string(cfg.Secret), Name: cfg.Name, Scopes: cfg.Scopes,
		GroupsClaim: cfg.GroupsClaim, Users: cfg.Users, Admins: cfg.Admins, Groups: cfg.Groups, Create: cfg.Create, Life: cfg.Life,
		Now: time.Now, Log: a.platform.log,
	})
}
