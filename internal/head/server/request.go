package server

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"example.org/smartdrive/internal/base/drive"
)

// RequestBody returns the body of a request whose read errors are drive errors. If the client
// breaks off, Read fails with drive.BadRequest, reason "cut". Closing it closes the body of r.
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

// RefuseEncoding fails with drive.MediaType if the header Content-Encoding declares a compressed
// body, that is, anything but identity. It does not read the body.
func RefuseEncoding(r *http.Request) error {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return drive.Fail(drive.MediaType, "field", "Content-Encoding", "sent", Clip(coding), "expected", "identity")
	}
	return nil
}

// Clip shortens a text that a client sent to 200 bytes, so that it can be part of a response.
// Invalid UTF-8 is replaced.
func Clip(s string) string {
	const most = 200 // bytes
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, string(utf8.RuneError))
}

// JoinHeader returns the values of all lines of a list header, joined by commas (RFC 9110 §5.3); ""
// if there is none.
func JoinHeader(h http.Header, name string) string { return strings.Join(h.Values(name), ", ") }

// Minimal is the preference for a short response (RFC 7240 §4.2).
const Minimal = "return=minimal"

// Preferences returns the client's preferences in Prefer (RFC 7240), in lower case and without
// quotes, such as "return=minimal". Without the header it returns one empty string.
func Preferences(h http.Header) []string {
	all := strings.Split(strings.ReplaceAll(strings.ToLower(JoinHeader(h, "Prefer")), `"`, ""), ",")
	for i, wish := range all {
		all[i] = strings.TrimSpace(wish)
	}
	return all
}

// BaseURL returns the URL by which the client of r reaches the server, without a final slash:
// configured, or if that is "" scheme and host of the request. findClient must have run.
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
