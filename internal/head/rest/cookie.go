package rest

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"smartdrive/internal/base/drive"
)

// A browser may hold its login in a cookie that no script can read. A browser adds a cookie to
// requests that other sites make it send, too, so that what changes something is taken only from a
// page of this server:
//
//	SameSite=Lax              other sites' requests come without it, but those of the same site do (another port, a sibling domain)
//	CrossOriginProtection     Sec-Fetch-Site, or Origin against Host where the browser does not send it (plain HTTP)
//
// A bearer token is added by nobody else than the one who has it: it is looked at first, and needs
// none of this.
const (
	cookieName = "smartdrive_session"
	// Over TLS the name begins with one of these, which browsers take only from us over TLS, and
	// the first only for the whole host (RFC 6265bis §4.1.3): neither a sibling domain nor somebody
	// on a line without TLS can put a login of theirs there.
	hostPrefix   = "__Host-"
	securePrefix = "__Secure-" // where the server is below a path
	// cookieLife is in seconds: 400 days, the longest that browsers keep one (RFC 6265bis §5.5).
	// The session ends earlier, 30 days after it was last used; the server decides.
	cookieLife = 400 * 24 * 3600
)

// userHeader names whom a page is about. All tabs of a browser share its cookie: when somebody else
// logs in in one of them, what the others still send is not that person's, and is answered 401.
// X-User would be a name that proxies set by themselves.
const userHeader = "X-Smartdrive-User"

// newForgery returns the check of requests that come with a cookie. The origin of the base URL is
// ours even where a proxy sends another Host.
func newForgery(baseURL string) *http.CrossOriginProtection {
	p := http.NewCrossOriginProtection()
	if u, err := url.Parse(baseURL); err == nil && u.Host != "" {
		_ = p.AddTrustedOrigin(u.Scheme + "://" + u.Host) // a scheme and a host are an origin
	}
	return p
}

// secret returns what a request is authenticated by: its bearer token, else its cookie; empty when
// it has neither. CrossOrigin: it has the cookie because another site's page made a browser send
// it.
func (f *front) secret(r *http.Request) (string, error) {
	if token := bearer(r); token != "" {
		return token, nil
	}
	cookie := sentCookie(r)
	if cookie == "" {
		return "", nil
	}
	return cookie, f.ownPage(r)
}

// sentCookie is the login that a browser sends; empty: none. Over TLS one without a prefix may be
// anybody's.
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

// ownPage refuses what another site's page makes a browser send, unless it only reads.
func (f *front) ownPage(r *http.Request) error {
	if err := f.forgery.Check(r); err != nil {
		return drive.Wrap(err, drive.CrossOrigin)
	}
	return nil
}

// ownForm is ownPage for a change that another site's page can make a browser send, with a name and
// a password that it has kept, without asking us first. Before other methods, and before a header
// of the clients, it asks (Fetch standard, CORS-preflight).
func (f *front) ownForm(r *http.Request) error {
	if !slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodPost}, r.Method) || r.Header.Get("Ocs-Apirequest") != "" {
		return nil
	}
	one := *r // a GET that changes something is no better than a POST
	one.Method = http.MethodPost
	return f.ownPage(&one)
}

// setCookie hands the secret to the browser; the empty one takes it away.
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
	http.SetCookie(c.w, &http.Cookie{ //nolint:gosec // not Secure on plain HTTP, where it would not come back
		Name: name, Value: secret, Path: path, MaxAge: life,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: secure,
	})
}

// secure reports whether the browser sees a secure connection. Only it knows for sure, and says it
// in Origin: there may be a proxy that nobody declared, and a server with a base URL of https may
// be asked by its address in the house, too.
func (c *call) secure() bool {
	if origin := c.r.Header.Get("Origin"); strings.Contains(origin, "://") {
		return strings.HasPrefix(origin, "https://")
	}
	return strings.HasPrefix(c.baseURL(), "https://")
}
