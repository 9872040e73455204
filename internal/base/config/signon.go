package config

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// SignOn configures the identity provider for login; see package signon.
type SignOn struct {
	Issuer string // URL of the provider; empty: none
	Client string
	Secret Secret
	Name   string
	Scopes []string

	GroupsClaim string
	Users       []string
	Admins      []string
	Groups      []string
	Create      bool
	Life        time.Duration
}

// signOnSettings are the settings of SignOn.
var signOnSettings = []setting{
	{
		name: "oidc-issuer", form: "URL",
		help: "identity provider by which people may log in (OpenID Connect), such as https://id.example.org/realms/main; its description is at /.well-known/openid-configuration below it; register BASE-URL/sign-on there as the redirect URI; if not set, people log in by name and password alone",
		set:  setIssuer,
	},
	{
		name: "oidc-client", form: "ID",
		help: "id of this server at the identity provider",
		set:  text(func(c *Config) *string { return &c.SignOn.Client }, anything),
	},
	{
		name: "oidc-secret", form: "SECRET", secret: true,
		help: "secret that belongs to --oidc-client; if not set, this server is a public client there",
		set: func(c *Config, v string) error {
			c.SignOn.Secret = Secret(v)
			return nil
		},
	},
	{
		name: "oidc-name", form: "NAME",
		help: "what people know the identity provider by, for the button on the login page; if not set, its host",
		set:  text(func(c *Config) *string { return &c.SignOn.Name }, anything),
	},
	{
		name: "oidc-scopes", form: "SCOPE,...", def: "profile,email", list: true,
		help: "scopes that the identity provider is asked for, beside openid; many need groups for the groups",
		set:  elementsOf(func(c *Config) *[]string { return &c.SignOn.Scopes }),
	},
	{
		name: "oidc-groups-claim", form: "CLAIM", def: "groups",
		help: "claim in which the identity provider names the groups of a person; a dot leads into an object, as in realm_access.roles",
		set:  text(func(c *Config) *string { return &c.SignOn.GroupsClaim }, anything),
	},
	{
		name: "oidc-users", form: "GROUP,...", list: true,
		help: "groups of the identity provider whose members may log in; if not set, everybody whom it lets in",
		set:  elementsOf(func(c *Config) *[]string { return &c.SignOn.Users }),
	},
	{
		name: "oidc-admins", form: "GROUP,...", list: true,
		help: "groups of the identity provider whose members are administrators, and nobody else who logs in by it; if not set, administrators are made here",
		set:  elementsOf(func(c *Config) *[]string { return &c.SignOn.Admins }),
	},
	{
		name: "oidc-groups", form: "GROUP,...", list: true,
		help: "groups that exist here and get the members of those of the same name at the identity provider, at each login; *: all that exist here; if not set, none",
		set:  elementsOf(func(c *Config) *[]string { return &c.SignOn.Groups }),
	},
	{
		name: "oidc-create", form: "on|off", def: "on",
		help: "whoever logs in by the identity provider for the first time gets a user: on or off; with off only users who have connected themselves in their settings can log in by it",
		set:  onOff(func(c *Config) *bool { return &c.SignOn.Create }),
	},
	{
		name: "oidc-life", form: "DURATION", def: "168h",
		help: "how long a login by the identity provider is good, however much it is used; then the provider is asked again",
		set:  span(func(c *Config) *time.Duration { return &c.SignOn.Life }, 5*time.Minute, tenYears),
	},
}

// anything accepts every string; it is a check for text.
func anything(string) error { return nil }

// elementsOf returns a setting.set function that splits a list at its commas and stores the
// elements in field, in place of earlier ones. It accepts every text.
func elementsOf(field func(*Config) *[]string) func(*Config, string) error {
	return func(c *Config, v string) error {
		*field(c) = elements(v)
		return nil
	}
}

// setIssuer stores the provider's URL in c.SignOn.Issuer, and the host as the provider's name if
// that is not set. It fails unless the connection cannot be intercepted: https, or http to this
// machine. The URL is stored even then.
func setIssuer(c *Config, v string) error {
	c.SignOn.Issuer = v // set even if wrong, so that other checks know that there is an issuer
	u, err := url.Parse(v)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || !slices.Contains([]string{"https", "http"}, u.Scheme):
		return fmt.Errorf("%q is not the URL of a provider, as https://id.example.org/realms/main", v)
	case strings.Contains(u.Path, "/.well-known"):
		return errors.New("leave /.well-known/openid-configuration out: the issuer is what is in front of it")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return errors.New("use https: over http anybody on the way could log in as anybody")
	}
	if c.SignOn.Name == "" {
		c.SignOn.Name = u.Hostname()
	}
	return nil
}

// isLoopback reports whether host is "localhost" or a loopback address. It resolves no names, so
// other names of this machine are false.
func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// agreeSignOn returns an error if a setting of sign-on is given without --oidc-issuer (joined, one
// per setting), if one that the issuer needs is missing, or if a known public issuer would let
// everybody in.
func (c *Config) agreeSignOn() error {
	if c.SignOn.Issuer == "" {
		var alone []error
		for _, other := range []struct {
			name string
			set  bool
		}{{"client", c.SignOn.Client != ""}, {"secret", c.SignOn.Secret != ""}, {"users", c.SignOn.Users != nil}, {"admins", c.SignOn.Admins != nil}, {"groups", c.SignOn.Groups != nil}} {
			if other.set {
				alone = append(alone, fmt.Errorf("--oidc-%s: there is no --oidc-issuer, without which it means nothing", other.name))
			}
		}
		return errors.Join(alone...)
	}
	u, err := url.Parse(c.SignOn.Issuer)
	if err != nil {
		u = &url.URL{} // setIssuer has reported it
	}
	switch {
	case c.BaseURL == nil:
		return errors.New("--oidc-issuer: --base-url is missing, the address that people use: the provider sends them back there, and a request must not say where that is")
	case c.SignOn.Client == "":
		return errors.New("--oidc-issuer: --oidc-client is missing; set both or none")
	case c.SignOn.GroupsClaim == "":
		return errors.New("--oidc-groups-claim: it is empty; leave it out for groups")
	case u.Host == "accounts.google.com" && c.SignOn.Create && len(c.SignOn.Users) == 0:
		return errors.New("--oidc-issuer: everybody can have an account at accounts.google.com, and would get a user; use --oidc-create=off")
	case u.Host == "login.microsoftonline.com" && slices.ContainsFunc([]string{"common", "organizations", "consumers"}, func(s string) bool { return strings.HasPrefix(u.Path, "/"+s+"/") }):
		return errors.New("--oidc-issuer: name the tenant, as https://login.microsoftonline.com/TENANT-ID/v2.0: the addresses of all tenants have no issuer of their own")
	}
	return nil
}
