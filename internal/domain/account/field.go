package account

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"smartdrive/internal/base/drive"
)

// Limits of fields, in bytes after normalisation.
const (
	MaxNameBytes     = 64
	MinPasswordBytes = 10   // more than the 8 of NIST SP 800-63B §5.1.1.2: there is no second factor
	MaxPasswordBytes = 1024 // nobody types more; more would only cost hashing time
)

// parseLabel checks a name that people read: 1 to 64 bytes of NFC, visible characters and inner
// spaces only. Invisible ones would let two names look alike.
func parseLabel(field, s string) (string, error) {
	if !utf8.ValidString(s) {
		return "", drive.Bad(field, drive.Malformed, "expected", "UTF-8")
	}
	s = norm.NFC.String(s)
	switch {
	case s == "":
		return "", drive.Bad(field, drive.Required)
	case len(s) > MaxNameBytes:
		return "", drive.Bad(field, drive.TooLong, "limit", MaxNameBytes, "sent", len(s))
	case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "", drive.Bad(field, drive.Malformed, "expected", "visible characters")
	case strings.TrimSpace(s) != s:
		return "", drive.Bad(field, drive.Malformed, "expected", "no space at either end")
	}
	return s, nil
}

// parseName checks a user's name: a label without '/' (a slot of a deleted user starts with one)
// and ':' (it ends the name in HTTP Basic credentials, RFC 7617 §2).
func parseName(s string) (string, error) {
	name, err := parseLabel("name", s)
	if err != nil {
		return "", err
	}
	if strings.ContainsAny(name, "/:") {
		return "", drive.Bad("name", drive.Malformed, "expected", "no '/' and no ':'")
	}
	return name, nil
}

// slotOf is the form of a name that is unique among users.
func slotOf(name string) string { return drive.Name(name).Fold() }

// parsePassword checks a new password and returns it in NFC, so that keyboards which compose
// accents differently agree (RFC 8265 §4.2). One that is guessable for the user of that name is
// refused.
func parsePassword(field, s, name string) (string, error) {
	s, ok := normalPassword(s)
	switch {
	case !ok && len(s) > MaxPasswordBytes:
		return "", drive.Bad(field, drive.TooLong, "limit", MaxPasswordBytes, "sent", len(s))
	case !ok:
		return "", drive.Bad(field, drive.Malformed, "expected", "UTF-8")
	case len(s) < MinPasswordBytes:
		return "", drive.Bad(field, drive.OutOfRange, "min", MinPasswordBytes, "max", MaxPasswordBytes)
	case guessable(s, name):
		return "", drive.Bad(field, drive.Guessable)
	}
	return s, nil
}

// normalPassword returns s in NFC and whether it can be somebody's password at all.
func normalPassword(s string) (string, bool) {
	if len(s) > MaxPasswordBytes || !utf8.ValidString(s) {
		return s, false
	}
	s = norm.NFC.String(s)
	return s, len(s) <= MaxPasswordBytes
}
