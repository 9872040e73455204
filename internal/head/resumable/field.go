package resumable

import (
	"net/http"
	"strconv"
	"strings"

	"example.org/smartdrive/internal/base/drive"
)

// The header fields (§4) are Structured Fields (RFC 9651). As the draft requires, a field with a
// value of the wrong type or with several values is ignored.

// boolean reads a header field of the type Boolean (RFC 9651). there is false if the field is
// missing or invalid; value is then false, too.
func boolean(h http.Header, name string) (value, there bool) {
	item, ok := bareItem(h, name)
	return item == "?1", ok && (item == "?1" || item == "?0")
}

// integer reads a header field of the type Integer (RFC 9651) that is not negative. there is false
// if the field is missing, invalid or negative.
func integer(h http.Header, name string) (n drive.ByteSize, there bool) {
	item, ok := bareItem(h, name)
	const digits = 15 // RFC 9651 §3.3.1
	if !ok || item == "" || len(item) > digits || strings.Trim(item, "0123456789") != "" {
		return 0, false
	}
	v, err := strconv.ParseInt(item, 10, 64)
	return drive.ByteSize(v), err == nil
}

// bareItem returns the value of a header field without its parameters, which have no meaning in
// these fields. ok is false if the field is missing, occurs on several lines, or has malformed
// parameters. The value itself is not checked.
func bareItem(h http.Header, name string) (item string, ok bool) {
	lines := h.Values(name)
	if len(lines) != 1 {
		return "", false
	}
	item, parameters, _ := strings.Cut(strings.Trim(lines[0], " "), ";")
	if parameters != "" || strings.HasSuffix(lines[0], ";") {
		ok = skipParameters(";" + parameters)
		return item, ok
	}
	return item, true
}

// skipParameters reports whether s is a valid list of parameters (RFC 9651 §4.2.3.2).
func skipParameters(s string) bool {
	for s != "" {
		var ok bool
		if s, ok = strings.CutPrefix(s, ";"); !ok {
			return false
		}
		if s, ok = skipKey(strings.TrimLeft(s, " ")); !ok {
			return false
		}
		if value, has := strings.CutPrefix(s, "="); has {
			if s, ok = skipBareItem(value); !ok {
				return false
			}
		}
	}
	return true
}

const (
	// lower, upper and digits are the character classes of Structured Fields.
	lower  = "abcdefghijklmnopqrstuvwxyz"
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits = "0123456789"
)

// skipKey returns s without its leading key (RFC 9651 §4.2.3.3); false if s begins with none.
func skipKey(s string) (rest string, ok bool) {
	if s == "" || !strings.ContainsRune(lower+"*", rune(s[0])) {
		return "", false
	}
	return strings.TrimLeft(s, lower+digits+"_-.*"), true
}

// skipBareItem removes a leading bare item from s (RFC 9651 §4.2.3.1). It does not validate the
// content, because nothing reads it. ok is false if s begins with none.
func skipBareItem(s string) (rest string, ok bool) {
	switch {
	case s == "":
		return "", false
	case s[0] == '"':
		return skipString(s[1:])
	case s[0] == ':':
		_, rest, ok = strings.Cut(s[1:], ":")
		return rest, ok
	}
	rest = strings.TrimLeft(s, lower+upper+digits+"?@-.!#$%&'*+^_`|~:/")
	return rest, len(rest) < len(s)
}

// skipString returns the text after the closing quote of a String whose opening quote was read;
// false if the String does not end.
func skipString(s string) (rest string, ok bool) {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return s[i+1:], true
		}
	}
	return "", false
}

// formatBoolean returns v as a Structured Field Boolean.
func formatBoolean(v bool) string {
	if v {
		return "?1"
	}
	return "?0"
}

// formatInteger formats a structured-field Integer.
func formatInteger[N ~int64](n N) string { return strconv.FormatInt(int64(n), 10) }
