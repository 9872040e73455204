package problem

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"example.org/smartdrive/internal/base/drive"
)

// maxShown bounds the value of an arg in a sentence, in bytes. The member of the document has the
// full value.
const maxShown = 200

// sentence returns the text about an error with args, in a language: that of its arg reason, state
// or field, in this order, if the row has one; else the first of r.says whose args are complete;
// else the title.
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

// fill replaces the placeholders of a template, such as {name} or {name:size}, by args. ok is false
// if an arg is missing or empty, so that no text has gaps.
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

// show formats the value of an arg for people; a slice as its elements with commas. The format
// "size" renders a number of bytes as in "8MiB"; other formats have no effect.
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
