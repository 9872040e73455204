package server

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"example.org/smartdrive/internal/base/drive"
)

// RequestBody returns the body of a request. If the body breaks off, its Read fails with
// drive.BadRequest, reason "cut", instead of an internal error.
func RequestBody(r *http.Request) io.ReadCloser { return incoming{r.Body} }

// incoming is a request body whose read errors are drive errors.
type incoming struct{ io.ReadCloser }

// Read wraps an error that is neither io.EOF nor a drive.Error as drive.BadRequest with reason
// "cut": the client broke off.
func (b incoming) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	var known *drive.Error
	if err != nil && err != io.EOF && !errors.As(err, &known) {
		err = drive.Wrap(err, drive.BadRequest, "field", "body", "reason", "cut")
	}
	return n, err
}

// RefuseEncoding fails with drive.MediaType if Content-Encoding is set to anything but identity. It
// does not look at the body.
func RefuseEncoding(r *http.Request) error {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return drive.Fail(drive.MediaType, "field", "Content-Encoding", "sent", Clip(coding), "expected", "identity")
	}
	return nil
}

// Clip shortens a text of the client to 200 bytes before it is echoed.
func Clip(s string) string {
	const most = 200 // bytes
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, string(utf8.RuneError))
}

// JoinHeader returns a list header with all its lines joined (RFC 9110 §5.3).
func JoinHeader(h http.Header, name string) string { return strings.Join(h.Values(name), ", ") }

// Minimal is the preference for a short response (RFC 7240 §4.2).
const Minimal = "return=minimal"

// Preferences returns the client's preferences in Prefer (RFC 7240), in lower case and without
// quotes.
func Preferences(h http.Header) []string {
	all := strings.Split(strings.ReplaceAll(strings.ToLower(JoinHeader(h, "Prefer")), `"`, ""), ",")
	for i, wish := range all {
		all[i] = strings.TrimSpace(wish)
	}
	return all
}

// BaseURL returns the URL by which the client of r reaches the server, without a final slash: the
// configured one, else the one in the request.
func BaseURL(configured string, r *http.Request) string {
	if configured != "" {
		return strings.TrimSuffix(configured, "/")
	}
	scheme := r.URL.Scheme // set by findClient
	if scheme == "" {
		scheme = "http"
	}
	return scheme + "://" + r.Host
}
