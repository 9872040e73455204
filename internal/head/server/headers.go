package server

import "net/http"

// setSecurityHeaders sets the headers for responses that are not pages. Heads overwrite them where
// needed.
func setSecurityHeaders(h http.Header, r *http.Request) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer") // URLs of signed links are secret
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	if r.URL.Scheme == "https" { // set by findClient
		h.Set("Strict-Transport-Security", "max-age="+hstsSeconds)
	}
}

// hstsSeconds is how long browsers use only TLS for this host once they have (RFC 6797): a year. It
// does not apply to subdomains.
const hstsSeconds = "31536000"
