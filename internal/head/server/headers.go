package server

import "net/http"

// setSecurityHeaders sets the security headers that fit responses other than web pages. Handlers
// overwrite them where needed. findClient must have set r.URL.Scheme.
func setSecurityHeaders(h http.Header, r *http.Request) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer") // URLs of signed links are secret
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	if r.URL.Scheme == "https" { // set by findClient
		h.Set("Strict-Transport-Security", "max-age="+hstsSeconds)
	}
}

// hstsSeconds is for how many seconds browsers use only TLS for this host after a response over TLS
// (RFC 6797): a year. It does not apply to subdomains.
const hstsSeconds = "31536000"
