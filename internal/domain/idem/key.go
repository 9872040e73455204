package idem

import (
	"strings"

	"example.org/smartdrive/internal/base/drive"
)

// Key is an idempotency key sent by a client. The zero Key means that the client sent none.
type Key struct {
	text     string
	prepared bool // text is a verified prepare id
}

// IsZero reports whether the client sent no key.
func (k Key) IsZero() bool { return k.text == "" }

// MaxKeyBytes is the greatest length of a key, as in Stripe's API and implementations of the IETF
// draft.
const MaxKeyBytes = 255

// header is the name of the HTTP header with the key.
const header = "Idempotency-Key"

// parseKey parses the value of the header: 1 to 255 printable ASCII characters, bare or as the
// quoted string of draft-ietf-httpapi-idempotency-key-header-07 §2.1 (RFC 9651 §3.3.3). Both forms
// give the same key, without quotes. Other values fail with BadRequest.
func parseKey(s string) (string, error) {
	if strings.HasPrefix(s, `"`) {
		text, ok := unquote(s)
		if !ok {
			return "", drive.BadField(header, drive.Malformed, "expected", "a quoted string (RFC 9651)")
		}
		s = text
	}
	switch {
	case s == "":
		return "", drive.BadField(header, drive.Required)
	case len(s) > MaxKeyBytes:
		return "", drive.BadField(header, drive.TooLong, "limit", MaxKeyBytes, "sent", len(s))
	case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }):
		return "", drive.BadField(header, drive.Malformed, "expected", "printable ASCII")
	}
	return s, nil
}

// unquote returns the text of a quoted string (RFC 8941), with its escapes removed. It returns
// false if s does not begin and end with a quote, continues after the closing quote, or escapes
// anything but a quote or a backslash.
func unquote(s string) (string, bool) {
	if len(s) < 2 || s[0] != '"' {
		return "", false
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), i == len(s)-1
		case c != '\\':
			b.WriteByte(c)
		default: // only a quote and a backslash may be escaped
			if i++; i == len(s) || (s[i] != '"' && s[i] != '\\') {
				return "", false
			}
			b.WriteByte(s[i])
		}
	}
	return "", false
}
