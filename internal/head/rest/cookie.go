package rest

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"example.org/smartdrive/internal/base/drive"
)

// A browser may hold its login in a cookie that no script can read. A browser adds the cookie also
// to requests that other sites cause. So a request that changes something must come from a page of
// this server:
//
//	SameSite=Lax              other sites' requests come without it, but those of the same site do (another port, a sibling domain)
//	CrossOriginProtection     Sec-Fetch-Site, or Origin against Host where the browser does not send it (plain HTTP)
//
// A bearer token is never added by a browser alone. It takes precedence over the cookie and needs
// none of these checks.
const (
	cookieName = "smartdrive_session"
	// Over TLS the name has one of these prefixes. Browsers accept them only from this host over
	// TLS, and the first only for the whole host (RFC 6265bis §4.1.3). So neither a sibling domain
	// nor an attacker on an unencrypted connection can plant a login.
	hostPrefix   = "__Host-"
	securePrefix = "__Secure-" // for a server below a path
	// cookieLife is in seconds: 400 days, the longest that browsers keep a cookie (RFC 6265bis
	// §5.5). The session itself ends 30 days after its last use.
	cookieLife = 400 * 24 * 3600
)

// userHeader names the user that a page was loaded for. All tabs of a browser share one cookie. If
// another user logs in in one tab, requests of the other tabs are answered 401. The name is not
// X-User, because proxies set that header themselves.
const userHeader = "X-Smartdrive-User"

// newForgery returns the cross-origin check of requests with a cookie. It trusts the origin of
// baseURL even if a proxy changes Host.
func newForgery(baseURL string) *http.CrossOriginProtection {
	p := http.NewCrossOriginProtection()
	if u, err := url.Parse(baseURL); err == nil && u.Host != "" {
		_ = p.AddTrustedOrigin(u.Scheme + "://" + u.Host) // fails only for invalid origins
	}
	return p
}

// secret returns the credential of a request: its bearer token, or without one its login cookie, or
// "". It fails with drive.CrossOrigin if the credential is a cookie and a page of another site made
// the browser send a change.
func (f *front) secret(r *http.Request) (string, error) {
	if token := bearer(r); token != "" {
		return token, nil
	}
	cookie := sentCookie(r)
	if cookie == "" {
		return "", nil
	}
	return cookie, f.checkOrigin(r)
}

// sentCookie returns the login cookie, or "". Over TLS it ignores a cookie without a prefix, which
// anybody may have set.
func sentCookie(r *http.Request) string {
	names := []string{hostPrefix + cookieName, securePrefix + cookieName}
	if r.TLS == nil && r.URL.Scheme != "https" {
		names = append(names, cookieName)
	}
	for _, name := range names {
		if cookie, err := r.Cookie(name); err == nil && cookie.Value != "" {
			return cookie.Value
		}
	}
	return ""
}

// checkOrigin fails with drive.CrossOrigin for a request that changes something and that a page of
// another site made a browser send. Requests by methods that only read pass.
func (f *front) checkOrigin(r *http.Request) error {
	if err := f.forgery.Check(r); err != nil {
		return drive.Wrap(err, drive.CrossOrigin)
	}
	return nil
}

// checkSimpleRequest refuses, with drive.CrossOrigin, a cross-site request that a browser
// authenticates with a remembered name and password and sends without a preflight. Other methods,
// and requests with the header that clients add, need a preflight, which fails (Fetch standard,
// CORS-preflight).
func (f *front) checkSimpleRequest(r *http.Request) error {
	if !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodPost}, r.Method) || r.Header.Get("Ocs-Apirequest") != "" {
		return nil
	}
	one := *r // a GET that changes something is as dangerous as a POST
	one.Method = http.MethodPost
	return f.checkOrigin(&one)
}

// setCookie sets the response header that stores a login in the browser; with an empty secret, one
// that deletes the cookie.
func (c *call) setCookie(secret string) {
	life := cookieLife
	if secret == "" {
		life = -1
	}
	path := c.subPath()
	if path == "" {
		path = "/"
	}
	name, secure := cookieName, c.secure()
	switch {
	case secure && path == "/":
		name = hostPrefix + cookieName
	case secure:
		name = securePrefix + cookieName
	}
	http.SetCookie(c.w, &http.Cookie{ //nolint:gosec // without TLS a Secure cookie would not be sent back
		Name: name, Value: secret, Path: path, MaxAge: life,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: secure,
	})
}

// secure reports whether the browser uses a secure connection. Origin tells it most reliably: there
// may be an undeclared proxy, and a server with an https base URL may also be reached by plain HTTP
// on the local network.
func (c *call) secure() bool {
	if origin := c.r.Header.Get("Origin"); strings.Contains(origin, "://") {
		return strings.HasPrefix(origin, "https://")
	}
	return strings.HasPrefix(c.baseURL(), "https://")
}
