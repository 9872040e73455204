package server

import "net/http"

// setSecurityHeaders sets what suits an API that is not a page. A head that serves something else
// overwrites it.
func setSecurityHeaders(h http.Header, r *http.Request) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer") // the address of a signed link is a secret
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	if r.URL.Scheme == "https" { // findClient has put it there
		h.Set("Strict-Transport-Security", "max-age="+hstsSeconds)
	}
}

// hstsSeconds is for how long browsers come by TLS alone once they have (RFC 6797): a year. Of
// hosts below this one it says nothing.
const hstsSeconds = "31536000"
