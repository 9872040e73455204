package problem

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"smartdrive/internal/base/drive"
)

// maxShown is how many bytes of one arg a sentence shows; the member of the document has it whole.
const maxShown = 200

// sentence returns what to say about an error: the sentence of its reason, state or field, or the
// first of the row's whose args are all there.
func (r *row) sentence(args drive.Args, l Lang) string {
	for _, of := range []struct {
		arg   string
		texts map[string]text
	}{{"reason", r.reasons}, {"state", r.states}, {"field", r.fields}} {
		value, ok := args[of.arg]
		if !ok {
			continue
		}
		if t, ok := of.texts[fmt.Sprint(value)]; ok {
			if s, ok := fill(t.in(l), args); ok {
				return s
			}
		}
	}
	for _, t := range r.says {
		if s, ok := fill(t.in(l), args); ok {
			return s
		}
	}
	return r.title.in(l)
}

// fill puts args into the {places} of a template; ok is false when one is missing or empty, so that
// no reader ever sees a brace or a gap.
func fill(template string, args drive.Args) (s string, ok bool) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(template, "{")
		b.WriteString(before)
		if !found {
			return b.String(), true
		}
		place, after, _ := strings.Cut(rest, "}")
		name, format, _ := strings.Cut(place, ":")
		value, has := args[name]
		if !has || value == nil {
			return "", false
		}
		shown := show(value, format)
		if shown == "" {
			return "", false
		}
		b.WriteString(shown)
		template = after
	}
}

// show writes one arg for people. The format "size" turns a number of bytes into "8MiB".
func show(value any, format string) string {
	v := reflect.ValueOf(value)
	switch {
	case format == "size" && v.CanInt():
		return drive.ByteSize(v.Int()).String()
	case v.CanInt():
		return strconv.FormatInt(v.Int(), 10)
	case v.Kind() == reflect.Slice:
		shown := make([]string, v.Len())
		for i := range shown {
			shown[i] = show(v.Index(i).Interface(), format)
		}
		return clip(strings.Join(shown, ", "))
	}
	return clip(fmt.Sprint(value))
}

// clip shortens s to maxShown bytes and makes it one line of valid UTF-8.
func clip(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) > maxShown {
		end := maxShown
		for !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end] + "..."
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}
