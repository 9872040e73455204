package app

import (
	"time"

	"smartdrive/internal/usecase/signon"
)

// newSignOn returns the identity provider that is configured; nil: there is none.
func newSignOn(a *App) *signon.SignOn {
	cfg := a.ground.cfg.SignOn
	if cfg.Issuer == "" {
		return nil
	}
	if a.ground.cfg.BaseURL == nil {
		a.ground.log.Warn("people log in by an identity provider, and --base-url is not set: they are sent back to the address by which each of them has come")
	}
	return signon.New(signon.Parts{DB: a.ground.db, Users: a.users, Sessions: a.sessions, Admin: a.admin, Spaces: a.spaces, Secret: a.vault.Links}, signon.Options{
		Issuer: cfg.Issuer, Client: cfg.Client, Secret: string(cfg.Secret), Name: cfg.Name, Scopes: cfg.Scopes,
		GroupsClaim: cfg.GroupsClaim, Users: cfg.Users, Admins: cfg.Admins, Groups: cfg.Groups, Create: cfg.Create, Life: cfg.Life,
		Now: time.Now, Log: a.ground.log,
	})
}
