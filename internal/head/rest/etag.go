package rest

import (
	"slices"
	"strings"

	"example.org/smartdrive/internal/base/drive"
)

// tags is the value of If-Match or If-None-Match: "*" or a list of entity tags (RFC 9110 §13.1.1).
// The zero value is an absent header.
type tags struct {
	any  bool
	list []tag
}

// tag is one entity tag of a conditional header.
type tag struct {
	opaque string // text between the quotes
	weak   bool
}

// absent reports whether the header is missing.
func (t tags) absent() bool { return !t.any && t.list == nil }

// match reports whether the tags are "*" or contain opaque, the text of a tag without quotes, by
// strong comparison: a weak tag never matches.
func (t tags) match(opaque string) bool { return t.any || slices.Contains(t.list, tag{opaque: opaque}) }

// matchWeakly reports whether the tags contain opaque, weak or strong, or are "*".
func (t tags) matchWeakly(opaque string) bool {
	return t.match(opaque) || slices.Contains(t.list, tag{opaque: opaque, weak: true})
}

// parseTags parses the value of the header or field called name. An empty value gives absent tags.
// It fails with drive.BadRequest.
func parseTags(name, value string) (tags, error) {
	malformed := drive.BadField(name, drive.Malformed, "expected", `* or a list of "tags" in quotes`)
	if value = strings.Trim(value, " \t"); value == "*" {
		return tags{any: true}, nil
	}
	var t tags
	for value != "" {
		one := tag{}
		value, one.weak = strings.CutPrefix(value, "W/")
		rest, quoted := strings.CutPrefix(value, `"`)
		opaque, rest, closed := strings.Cut(rest, `"`)
		if !quoted || !closed || strings.ContainsFunc(opaque, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return tags{}, malformed
		}
		one.opaque = opaque
		t.list = append(t.list, one)
		value = strings.TrimLeft(rest, " \t")
		if value == "" {
			break
		}
		comma, more := strings.CutPrefix(value, ",")
		if value = strings.TrimLeft(comma, " \t"); !more || value == "" {
			return tags{}, malformed
		}
	}
	return t, nil
}

// joined returns a list header with all its lines joined (RFC 9110 §5.3).
func (c *call) joined(name string) string { return strings.Join(c.r.Header.Values(name), ", ") }

// tags parses a header of the request as entity tags; absent if it is missing. It fails with
// drive.BadRequest for malformed tags.
func (c *call) tags(name string) (tags, error) { return parseTags(name, c.joined(name)) }

// opaqueTag returns the ETag of content, without quotes. blake3 is its digest in hexadecimal.
func opaqueTag(blake3 string) string { return "b3-" + blake3 }

// quoted returns opaque as a strong entity tag; it does not escape.
func quoted(opaque string) string { return `"` + opaque + `"` }
