package server

import (
	"net/http"
	"strings"
)

// normalizeRanges returns r with Range and If-Range reduced to what RFC 9110 allows (§13.1.5,
// §14.1, §14.2), because handlers and http.ServeContent are less strict:
//
//   - only a GET has ranges; a HEAD is answered like a GET without them
//   - an unknown unit is ignored; "bytes" is case-insensitive
//   - "bytes=-0" is never satisfiable; numbers are digits only, of any length
//   - If-Range is an entity tag. A date would have to be a strong validator, but owners set the time of a file, so two contents may
//     have the same time. Then the condition is false, and the whole content is sent.
func normalizeRanges(r *http.Request) *http.Request {
	sent := r.Header.Values("Range")
	if len(sent) == 0 {
		return r
	}
	plain := *r
	plain.Header = r.Header.Clone()
	plain.Header.Del("Range")
	if r.Method != http.MethodGet {
		plain.Header.Del("If-Range") // it has no meaning alone
	} else if set, ok := normalizeRange(strings.Join(sent, ",")); ok && len(sent) == 1 && strongIfRange(r.Header) {
		plain.Header.Set("Range", set)
	}
	return &plain
}

// strongIfRange reports whether If-Range may be true: it is absent or a strong tag. The handler
// compares the tag.
func strongIfRange(h http.Header) bool {
	sent := h.Get("If-Range")
	return sent == "" || strings.HasPrefix(sent, `"`)
}

const (
	noRange   = "bytes=-"                       // invalid by every specification
	beyondAll = "9223372036854775807-"          // begins behind the end of any content
	maxDigits = len("9223372036854775807-") - 2 // digits of a number that surely fits
)

// normalizeRange rewrites s, the value of Range, so that http.ServeContent interprets it as RFC
// 9110 demands. ok is false if s must be ignored, because its unit is not bytes. Malformed ranges
// become one that ServeContent refuses.
func normalizeRange(s string) (plain string, ok bool) {
	unit, set, _ := strings.Cut(s, "=")
	if !strings.EqualFold(unit, "bytes") {
		return "", false
	}
	var specs []string
	for spec := range strings.SplitSeq(set, ",") {
		spec = strings.Trim(spec, " \t")
		if spec == "" { // an empty list element (§5.6.1)
			continue
		}
		first, last, dash := strings.Cut(spec, "-")
		switch {
		case !dash || !isDigits(first) || !isDigits(last) || first+last == "":
			return noRange, true
		case first == "" && strings.Trim(last, "0") == "":
			specs = append(specs, beyondAll)
		default:
			specs = append(specs, clampNumber(first)+"-"+clampNumber(last))
		}
	}
	if specs == nil {
		return noRange, true
	}
	return "bytes=" + strings.Join(specs, ","), true
}

// isDigits reports whether s has only the digits 0 to 9; the empty text does.
func isDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }

// clampNumber replaces a number that is too large by the largest one.
func clampNumber(digits string) string {
	short := strings.TrimLeft(digits, "0")
	if len(short) > maxDigits {
		return strings.TrimSuffix(beyondAll, "-")
	}
	return digits
}
