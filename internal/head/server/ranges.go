package server

import (
	"net/http"
	"strings"
)

// plainRanges returns r as the handlers shall see it: they, and http.ServeContent behind them, know
// Range and If-Range only as RFC 9110 means them (§13.1.5, §14.1, §14.2):
//
//   - only a GET has ranges: of a HEAD the answer is the one to a GET without them
//   - a unit that nobody here knows is ignored; "bytes" has no case
//   - "bytes=-0" can be satisfied by nothing; numbers are digits alone, of any length
//   - If-Range is an entity tag. A date would have to be a strong validator, and the time of a file is what its owner says: two contents
//     may have the same. Then the condition is false, and the whole is sent.
func plainRanges(r *http.Request) *http.Request {
	sent := r.Header.Values("Range")
	if len(sent) == 0 {
		return r
	}
	plain := *r
	plain.Header = r.Header.Clone()
	plain.Header.Del("Range")
	if r.Method != http.MethodGet {
		plain.Header.Del("If-Range") // it means nothing alone
	} else if set, ok := plainRange(strings.Join(sent, ",")); ok && len(sent) == 1 && strongIfRange(r.Header) {
		plain.Header.Set("Range", set)
	}
	return &plain
}

// strongIfRange reports whether an If-Range can be true. Whether its tag is the right one is for
// the handler to say.
func strongIfRange(h http.Header) bool {
	sent := h.Get("If-Range")
	return sent == "" || strings.HasPrefix(sent, `"`)
}

const (
	noRange    = "bytes=-"                       // what no specification allows
	beyondAll  = "9223372036854775807-"          // begins behind the end of whatever there is
	mostDigits = len("9223372036854775807-") - 2 // of a number that surely fits
)

// plainRange returns a header that http.ServeContent takes for what s means; not ok: it is to be
// ignored.
func plainRange(s string) (plain string, ok bool) {
	unit, set, _ := strings.Cut(s, "=")
	if !strings.EqualFold(unit, "bytes") {
		return "", false
	}
	var specs []string
	for spec := range strings.SplitSeq(set, ",") {
		spec = strings.Trim(spec, " \t")
		if spec == "" { // an empty element of a list (§5.6.1)
			continue
		}
		first, last, dash := strings.Cut(spec, "-")
		switch {
		case !dash || !isDigits(first) || !isDigits(last) || first+last == "":
			return noRange, true
		case first == "" && strings.Trim(last, "0") == "":
			specs = append(specs, beyondAll)
		default:
			specs = append(specs, fitting(first)+"-"+fitting(last))
		}
	}
	if specs == nil {
		return noRange, true
	}
	return "bytes=" + strings.Join(specs, ","), true
}

func isDigits(s string) bool { return strings.Trim(s, "0123456789") == "" }

// fitting makes a number that is too large the largest one.
func fitting(digits string) string {
	short := strings.TrimLeft(digits, "0")
	if len(short) > mostDigits {
		return strings.TrimSuffix(beyondAll, "-")
	}
	return digits
}
