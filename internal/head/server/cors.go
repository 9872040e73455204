package server

import (
	"net/http"
	"slices"
	"strings"
)

// What a page of a configured origin may send and read. Credentials are not among it: the API takes
// bearer tokens, which a page must have, not cookies, which a browser would add.
const (
	corsMethods = "GET, HEAD, POST, PUT, PATCH, DELETE"
	corsSend    = "Authorization, Content-Type, Accept-Language, Content-Digest, Repr-Digest, Idempotency-Key, " +
		"If-Match, If-None-Match, If-Range, If-Modified-Since, If-Unmodified-Since, Range, X-Mtime, X-Request-Id, " +
		"Upload-Length, Upload-Offset, Upload-Complete, Upload-Draft-Interop-Version, " + // the IETF draft; tus also has:
		"Tus-Resumable, Upload-Metadata, Upload-Defer-Length, Upload-Concat, Upload-Checksum, X-HTTP-Method-Override, X-Requested-With"
	corsRead = "ETag, Location, Content-Range, Content-Disposition, Retry-After, Idempotent-Replayed, Repr-Digest, X-Request-Id, " +
		"Upload-Length, Upload-Offset, Upload-Complete, Upload-Limit, Upload-Draft-Interop-Version, Accept-Patch, " +
		"Tus-Resumable, Tus-Version, Tus-Extension, Tus-Max-Size, Tus-Checksum-Algorithm, Upload-Metadata, Upload-Defer-Length, " +
		"Upload-Concat, Upload-Expires"
	// corsSeconds is how long a browser may remember the answer to a preflight: two hours, the
	// longest that Chromium takes.
	corsSeconds = "7200"
)

// cors lets pages of the given origins use the API (Fetch standard §3.2), and answers their
// preflights. Without the headers, a browser keeps the answer from the page; nothing else is
// protected by them.
func cors(origins []string, w http.ResponseWriter, r *http.Request) (answered bool) {
	if len(origins) == 0 {
		return false
	}
	h, origin := w.Header(), r.Header.Get("Origin")
	h.Add("Vary", "Origin")
	if origin == "" || !allows(origins, origin) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", corsRead)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", corsMethods)
	h.Set("Access-Control-Allow-Headers", corsSend)
	h.Set("Access-Control-Max-Age", corsSeconds)
	w.WriteHeader(http.StatusNoContent)
	return true
}

func allows(origins []string, origin string) bool {
	return slices.ContainsFunc(origins, func(o string) bool { return o == "*" || strings.EqualFold(o, origin) })
}
