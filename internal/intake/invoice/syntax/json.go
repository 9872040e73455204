package syntax

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"example.org/smartdrive/internal/intake/invoice"
)

// jsonReader decodes documents of the own model. It is stricter than encoding/json: names must be
// known, match exactly and occur once, and text must be UTF-8. Therefore no other program can read
// a different invoice from the same line.
type jsonReader struct {
	in    []byte
	pos   int
	depth int    // remaining nesting depth
	items int    // remaining items; see Limits.Items
	text  int    // maximum bytes of one text
	room  []byte // buffer of quoted
	codes codes
}

// document decodes the one document of a line into a new Document. It fails with an Error of kind
// Malformed, BadValue or Limit, also for text behind the document.
func (r *jsonReader) document(line []byte, limits Limits) (*invoice.Document, error) {
	r.in, r.pos, r.depth, r.items, r.text = line, 0, limits.Depth, limits.Items, limits.Text
	d := new(invoice.Document)
	if err := r.value(reflect.ValueOf(d).Elem()); err != nil {
		return nil, err
	}
	if r.space(); r.pos < len(r.in) {
		return nil, r.fail("something behind the document")
	}
	return d, nil
}

// fail returns an Error of kind Malformed that names the current byte position, counted from 1.
func (r *jsonReader) fail(format string, args ...any) error {
	return &Error{Kind: Malformed, Text: fmt.Sprintf("at byte %d: ", r.pos+1) + fmt.Sprintf(format, args...)}
}

// space skips white space and returns the next byte without consuming it; 0 at the end.
func (r *jsonReader) space() byte {
	for r.pos < len(r.in) {
		switch c := r.in[r.pos]; c {
		case ' ', '\t', '\r', '\n':
			r.pos++
		default:
			return c
		}
	}
	return 0
}

// expect skips white space and consumes the byte c. It fails with an Error of kind Malformed for
// another byte.
func (r *jsonReader) expect(c byte) error {
	if r.space() != c {
		return r.fail("no %q where one is expected", c)
	}
	r.pos++
	return nil
}

var (
	// decimalType is the reflect type of invoice.Decimal.
	decimalType = reflect.TypeFor[invoice.Decimal]()
	// dateType is the reflect type of invoice.Date.
	dateType = reflect.TypeFor[invoice.Date]()
	// lineType is the reflect type of invoice.Line.
	lineType = reflect.TypeFor[invoice.Line]()
)

// value decodes the next JSON value into v, which must be settable. null leaves v unchanged. It
// fails with an Error.
func (r *jsonReader) value(v reflect.Value) error {
	if r.space(); bytes.HasPrefix(r.in[r.pos:], []byte("null")) {
		r.pos += len("null")
		return nil
	}
	switch {
	case v.Type() == decimalType || v.Type() == dateType:
		return r.scalar(v)
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return r.value(v.Elem())
	case v.Kind() == reflect.Struct:
		return r.object(v)
	case v.Kind() == reflect.Slice:
		return r.array(v)
	case v.Kind() == reflect.String:
		text, err := r.quoted()
		v.SetString(r.codes.keep(bytes.Trim(text, " \t\r\n")))
		return err
	case v.Kind() == reflect.Bool:
		for _, word := range []string{"true", "false"} {
			if bytes.HasPrefix(r.in[r.pos:], []byte(word)) {
				r.pos += len(word)
				v.SetBool(word == "true")
				return nil
			}
		}
		return r.fail("neither true nor false")
	}
	n, err := strconv.ParseInt(string(r.number()), 10, 64)
	if err != nil || n < 0 {
		return r.fail("no whole number")
	}
	v.SetInt(n)
	return nil
}

// number consumes and returns the characters of a number.
func (r *jsonReader) number() []byte {
	from := r.pos
	for r.pos < len(r.in) && strings.IndexByte("+-.0123456789eE", r.in[r.pos]) >= 0 {
		r.pos++
	}
	return r.in[from:r.pos]
}

// scalar decodes a date or a decimal: a string, or for a decimal also a bare number, by its digits.
// It fails with an Error of kind Malformed or BadValue.
func (r *jsonReader) scalar(v reflect.Value) error {
	var text []byte
	var err error
	if r.space() == '"' {
		if text, err = r.quoted(); len(text) == 0 {
			return err
		}
	} else if text = r.number(); len(text) == 0 || v.Type() == dateType {
		return r.fail("no text")
	}
	switch p := v.Addr().Interface().(type) {
	case *invoice.Decimal:
		*p, err = invoice.ParseDecimal(text)
	case *invoice.Date:
		*p, err = invoice.ParseDate(string(text))
	}
	if err != nil {
		return badValue(text, err)
	}
	return nil
}

// object decodes a JSON object into the struct v. It fails with an Error of kind Malformed, or
// Limit for too deep nesting.
func (r *jsonReader) object(v reflect.Value) error {
	if r.depth--; r.depth < 0 {
		return &Error{Kind: Limit, Text: "it is nested too deeply"}
	}
	defer func() { r.depth++ }()
	if err := r.expect('{'); err != nil {
		return err
	}
	fields, seen := fieldsOf(v.Type()), uint64(0)
	for first := true; ; first = false {
		if r.space() == '}' {
			r.pos++
			return nil
		}
		if !first {
			if err := r.expect(','); err != nil {
				return err
			}
		}
		r.space()
		name, err := r.quoted()
		if err != nil {
			return err
		}
		i, known := fields[string(name)]
		switch {
		case !known:
			return r.fail("there is no member %.60q", name)
		case seen&(1<<i) != 0:
			return r.fail("the member %.60q is there twice", name)
		}
		seen |= 1 << i
		if err := r.expect(':'); err != nil {
			return err
		}
		if err := r.value(v.Field(i)); err != nil {
			return within(err, v.Type(), i)
		}
	}
}

// within prefixes an error of kind BadValue with the name of the member.
func within(err error, in reflect.Type, field int) error {
	if ours, ok := errors.AsType[*Error](err); ok && ours.Kind == BadValue {
		name, _, _ := strings.Cut(in.Field(field).Tag.Get("json"), ",")
		return &Error{Kind: BadValue, Text: name + ": " + ours.Text}
	}
	return err
}

// array decodes a JSON array into the slice v, which must be empty. It fails with an Error of kind
// Malformed, or Limit for too many items.
func (r *jsonReader) array(v reflect.Value) error {
	if err := r.expect('['); err != nil {
		return err
	}
	for {
		if r.space() == ']' {
			r.pos++
			return nil
		}
		if v.Len() > 0 {
			if err := r.expect(','); err != nil {
				return err
			}
		}
		if r.items--; v.Type().Elem() == lineType {
			r.items -= lineItems - 1
		}
		if r.items < 0 {
			return &Error{Kind: Limit, Text: "too many lines, notes or the like"}
		}
		if v.Len() == v.Cap() {
			v.Grow(1)
		}
		v.SetLen(v.Len() + 1)
		last := v.Index(v.Len() - 1)
		last.SetZero()
		if err := r.value(last); err != nil {
			return err
		}
	}
}

// quoted decodes a JSON string. The result is valid until the next call. It fails with an Error of
// kind Malformed, or Limit for a long text.
func (r *jsonReader) quoted() ([]byte, error) {
	if r.pos == len(r.in) || r.in[r.pos] != '"' {
		return nil, r.fail("no text in quotes")
	}
	r.pos++
	r.room = r.room[:0]
	for {
		from := r.pos
		for r.pos < len(r.in) && r.in[r.pos] != '"' && r.in[r.pos] != '\\' {
			r.pos++
		}
		if r.pos == len(r.in) {
			return nil, r.fail("a text that does not end")
		}
		r.room = append(r.room, r.in[from:r.pos]...)
		r.pos++
		if len(r.room) > r.text {
			return nil, &Error{Kind: Limit, Text: fmt.Sprintf("a text is longer than %d bytes", r.text)}
		}
		if r.in[r.pos-1] == '"' {
			return r.room, r.check(r.room)
		}
		if err := r.escape(); err != nil {
			return nil, err
		}
	}
}

// check fails with an Error of kind Malformed for a text that is not UTF-8 or has control
// characters that cannot occur in XML.
func (r *jsonReader) check(text []byte) error {
	if !utf8.Valid(text) {
		return r.fail("a text that is not UTF-8")
	}
	for _, c := range text {
		if c < ' ' && c != '\t' && c != '\n' && c != '\r' {
			return r.fail("the control character %#x", c)
		}
	}
	return nil
}

// escape decodes an escape sequence after its backslash and appends the character to room. It fails
// with an Error of kind Malformed.
func (r *jsonReader) escape() error {
	if r.pos == len(r.in) {
		return r.fail("a text that does not end")
	}
	c := r.in[r.pos]
	r.pos++
	if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
		r.room = append(r.room, "\"\\/\b\f\n\r\t"[i])
		return nil
	}
	if c != 'u' {
		return r.fail("the escape \\%c", c)
	}
	first, err := r.hex()
	if err != nil {
		return err
	}
	if utf16.IsSurrogate(first) {
		if !bytes.HasPrefix(r.in[r.pos:], []byte(`\u`)) {
			return r.fail("half of a surrogate pair")
		}
		r.pos += 2
		second, err := r.hex()
		if err != nil {
			return err
		}
		if first = utf16.DecodeRune(first, second); first == utf8.RuneError {
			return r.fail("half of a surrogate pair")
		}
	}
	r.room = utf8.AppendRune(r.room, first)
	return nil
}

// hex consumes four hexadecimal digits and returns their value. It fails with an Error of kind
// Malformed.
func (r *jsonReader) hex() (rune, error) {
	if len(r.in)-r.pos < 4 {
		return 0, r.fail("a text that does not end")
	}
	n, err := strconv.ParseUint(string(r.in[r.pos:r.pos+4]), 16, 32)
	if err != nil {
		return 0, r.fail("no four hexadecimal digits")
	}
	r.pos += 4
	return rune(n), nil
}

var fieldCache sync.Map // cache, reflect.Type to map[string]int

// fieldsOf returns the field index of each member, by JSON name.
func fieldsOf(t reflect.Type) map[string]int {
	if known, ok := fieldCache.Load(t); ok {
		return known.(map[string]int)
	}
	if t.NumField() > 64 {
		panic("a struct of the model has more members than jsonReader can tell apart")
	}
	fields := make(map[string]int, t.NumField())
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "-" {
			fields[name] = i
		}
	}
	fieldCache.Store(t, fields)
	return fields
}
