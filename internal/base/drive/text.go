package drive

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// TextRule says which displayed text a field accepts.
type TextRule struct {
	Bytes int  // the maximum length in bytes after NFC; zero: no limit
	Chars int  // the maximum length in Unicode code points after NFC; zero: no limit
	Lines bool // line breaks are accepted
}

// ParseText returns a displayed text in NFC without spaces at its ends. It accepts visible
// characters and every kind of space. It fails with BadRequest {field}.
func ParseText(field, s string, r TextRule) (string, error) {
	s, err := normalText(field, s)
	if err != nil {
		return "", err
	}
	s = strings.TrimSpace(s)
	if err := r.checkLength(field, s); err != nil {
		return "", err
	}
	return s, checkRunes(field, s, func(c rune) bool { return unicode.IsGraphic(c) || r.Lines && c == '\n' })
}

// ParseLabel returns a displayed name in NFC: not empty, at most limit bytes, of visible characters
// and inner ASCII spaces. Other characters would make names look alike. It fails with BadRequest
// {field}.
func ParseLabel(field, s string, limit int) (string, error) {
	s, err := normalText(field, s)
	switch {
	case err != nil:
		return "", err
	case s == "":
		return "", BadField(field, Required)
	}
	if err := (TextRule{Bytes: limit}).checkLength(field, s); err != nil {
		return "", err
	}
	if err := CheckVisible(field, s); err != nil {
		return "", err
	}
	if strings.TrimSpace(s) != s {
		return "", BadField(field, Malformed, "expected", "no space at either end")
	}
	return s, nil
}

// CheckVisible fails with BadRequest {field} if s has a character that is neither visible nor an
// ASCII space.
func CheckVisible(field, s string) error { return checkRunes(field, s, unicode.IsPrint) }

// normalText returns s in NFC, or BadRequest {field} if it is not valid UTF-8.
func normalText(field, s string) (string, error) {
	if !utf8.ValidString(s) {
		return "", BadField(field, Malformed, "expected", "UTF-8")
	}
	return norm.NFC.String(s), nil
}

// checkLength fails with BadRequest {field, limit, sent} if s has more than r.Bytes bytes or
// r.Chars characters; 0 means no limit.
func (r TextRule) checkLength(field, s string) error {
	if r.Bytes > 0 && len(s) > r.Bytes {
		return BadField(field, TooLong, "limit", r.Bytes, "sent", len(s))
	}
	if n := utf8.RuneCountInString(s); r.Chars > 0 && n > r.Chars {
		return BadField(field, TooManyChars, "limit", r.Chars, "sent", n)
	}
	return nil
}

// checkRunes fails with BadRequest {field} unless every character of s is accepted.
func checkRunes(field, s string, accepted func(rune) bool) error {
	if strings.ContainsFunc(s, func(c rune) bool { return !accepted(c) }) {
		return BadField(field, Malformed, "expected", "visible characters")
	}
	return nil
}
