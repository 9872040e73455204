package share

import (
	"crypto/rand"
	"crypto/subtle"
	"strings"

	"smartdrive/internal/base/drive"
)

// AutoCode asks for a code that the server makes up.
const AutoCode = "auto"

const (
	// MinCode is how many characters a code has at least.
	MinCode  = 4
	maxCode  = 16
	autoCode = 6 // characters of a made-up code: 31^6 are 9e8, and attempts are counted
	// codeLetters are those that nobody takes for another when a code is read out or copied by
	// hand.
	codeLetters = "23456789abcdefghjkmnpqrstuvwxyz"
)

// makeCode checks a code that the owner gives: 4 to 16 ASCII letters and digits. AutoCode becomes a
// random one, nothing stays so.
func makeCode(given string) (string, error) {
	switch {
	case given == AutoCode:
		return randomCode(), nil
	case given == "":
		return "", nil
	case len(given) < MinCode || len(given) > maxCode:
		return "", drive.Bad("code", drive.OutOfRange, "min", MinCode, "max", maxCode, "sent", len(given))
	case strings.ContainsFunc(given, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}):
		return "", drive.Bad("code", drive.Malformed, "expected", "letters and digits")
	}
	return given, nil
}

func randomCode() string {
	code := make([]byte, 0, autoCode)
	var b [1]byte
	for len(code) < autoCode {
		_, _ = rand.Read(b[:])                            // does not fail
		if n := int(b[0]); n < 256-256%len(codeLetters) { // each letter as often as any other
			code = append(code, codeLetters[n%len(codeLetters)])
		}
	}
	return string(code)
}

// sameCode compares what a visitor typed, in a time that does not tell how much of it is right. A
// code that cannot be read any more is never right: its owner sets another one.
func sameCode(want, typed string) bool {
	if want == "" {
		return false
	}
	typed = strings.ToLower(strings.TrimSpace(typed))
	return subtle.ConstantTimeCompare([]byte(strings.ToLower(want)), []byte(typed)) == 1
}
