package server

import (
	"net/http"
	"slices"
	"strings"
)

// What pages of configured origins may send and read. Credentials are not allowed: a page must send
// a bearer token, not a cookie that the browser adds.
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
	// corsSeconds is how long browsers may cache a preflight response: two hours, Chromium's
	// maximum.
	corsSeconds = "7200"
)

// cors adds the headers that allow pages of the origins to use the API (Fetch standard §3.2). If r
// is a preflight of an allowed origin, it answers it and returns true; the caller must not answer
// then. The headers only control what a browser shows to the page; they refuse no request.
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

// allows reports whether origins contains "*" or origin, ignoring case.
func allows(origins []string, origin string) bool {
	return slices.ContainsFunc(origins, func(o string) bool { return o == "*" || strings.EqualFold(o, origin) })
}
