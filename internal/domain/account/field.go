package account

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"example.org/smartdrive/internal/base/drive"
)

// Limits of fields in bytes, after NFC normalization.
const (
	MaxNameBytes     = 64
	MinPasswordBytes = 10   // more than the 8 of NIST SP 800-63B §5.1.1.2, because there is no second factor
	MaxPasswordBytes = 1024 // bounds the cost of hashing
)

// parseName validates a user name: a label without '/', which starts the slot of a deleted user,
// and ':', which ends the name in HTTP Basic credentials (RFC 7617 §2).
func parseName(s string) (string, error) {
	name, err := drive.ParseLabel("name", s, MaxNameBytes)
	if err != nil {
		return "", err
	}
	if strings.ContainsAny(name, "/:") {
		return "", drive.BadField("name", drive.Malformed, "expected", "no '/' and no ':'")
	}
	return name, nil
}

// slotOf returns the folded form of a name, which is unique among users.
func slotOf(name string) string { return drive.Name(name).Fold() }

// parsePassword validates a new password and returns it in NFC, so that keyboards that compose
// accents differently agree (RFC 8265 §4.2). It refuses a password that is guessable for the user
// of that name.
func parsePassword(field, s, name string) (string, error) {
	s, ok := normalPassword(s)
	switch {
	case !ok && len(s) > MaxPasswordBytes:
		return "", drive.BadField(field, drive.TooLong, "limit", MaxPasswordBytes, "sent", len(s))
	case !ok:
		return "", drive.BadField(field, drive.Malformed, "expected", "UTF-8")
	case len(s) < MinPasswordBytes:
		return "", drive.BadField(field, drive.OutOfRange, "min", MinPasswordBytes, "max", MaxPasswordBytes)
	case isGuessable(s, name):
		return "", drive.BadField(field, drive.Guessable)
	}
	return s, nil
}

// normalPassword returns s in NFC; false if no password can equal s.
func normalPassword(s string) (string, bool) {
	if len(s) > MaxPasswordBytes || !utf8.ValidString(s) {
		return s, false
	}
	s = norm.NFC.String(s)
	return s, len(s) <= MaxPasswordBytes
}
