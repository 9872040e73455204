package rest

import (
	"bytes"
	"context"
	"encoding"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"mime"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/server"
)

// maxBody is the longest JSON body in bytes, unless route.maxBody is larger.
const maxBody = int64(drive.MiB)

// decode reads the JSON body into in, a pointer to a struct, and keeps it in c.body. It fails like
// decodeObject. An empty body is allowed if the route's body is optional.
func (c *call) decode(ctx context.Context, in any) error {
	raw, err := c.readJSON(ctx)
	if err != nil {
		return err
	}
	c.body = raw
	if len(raw) == 0 && c.route.bodyOptional {
		return nil
	}
	return decodeObject(raw, in)
}

// readJSON reads the body of the request, which must be JSON by its Content-Type. It does not
// decode it. For a large body it waits until the memory for the decoded form is acquired;
// c.releaseMemory releases that. It fails with drive.MediaType, drive.TooLarge, or
// drive.Unavailable if no memory becomes free in time.
func (c *call) readJSON(ctx context.Context) ([]byte, error) {
	body := &countedBody{src: server.RequestBody(c.r), all: &c.memory.reading}
	defer body.close()
	raw, err := readJSON(c.w, c.r, body, max(maxBody, c.route.maxBody))
	if err == nil && len(raw) > smallBody {
		err = c.acquireMemory(ctx, int64(len(raw))*bodyFactor)
	}
	return raw, err
}

// readJSON reads a JSON body of at most maxBody bytes, and checks the Content-Type but not the
// JSON. It returns nil, without an error, for an empty body. It fails with drive.TooLarge or
// drive.MediaType.
func readJSON(w http.ResponseWriter, r *http.Request, body io.Reader, maxBody int64) ([]byte, error) {
	if r.ContentLength > maxBody {
		return nil, drive.Fail(drive.TooLarge, "limit", maxBody, "sent", r.ContentLength)
	}
	if err := server.RefuseEncoding(r); err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, io.NopCloser(body), maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, drive.Wrap(err, drive.TooLarge, "limit", maxBody, "sent", maxBody+1) // at least; the rest is not counted
	case err != nil:
		return nil, err
	case len(raw) == 0:
		return nil, nil
	}
	return raw, checkJSON(r.Header.Get("Content-Type"))
}

// checkJSON fails with drive.MediaType unless contentType is application/json, with no charset or
// UTF-8.
func checkJSON(contentType string) error {
	media, args, err := mime.ParseMediaType(contentType)
	if charset, said := args["charset"]; err != nil || media != "application/json" || said && !strings.EqualFold(charset, "utf-8") {
		return drive.Wrap(err, drive.MediaType, "field", "Content-Type", "sent", clip(contentType), "expected", "application/json")
	}
	return nil
}

// clip shortens a text of the client before a problem repeats it.
func clip(s string) string { return server.Clip(s) }

// decodeObject decodes one JSON object into the struct that into points to, more strictly than
// encoding/json. It fails with drive.BadRequest, which names the field. Names are case-sensitive;
// unknown and repeated names are errors. null is valid only in fields with the tag nullable. A
// field without omitempty or omitzero is required. Nested structs follow the same rules.
func decodeObject(raw []byte, into any) error {
	members, err := splitObject(raw)
	if err != nil {
		return err
	}
	return decodeMembers(members, into)
}

// decodeMembers decodes members that splitObject returned, by the rules of decodeObject. It deletes
// from members. It fails with drive.BadRequest for the first member that is unknown, missing or
// invalid.
func decodeMembers(members map[string]json.RawMessage, into any) error {
	v := reflect.ValueOf(into).Elem()
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		value, there := members[name]
		delete(members, name)
		if !there {
			if options != "omitempty" && options != "omitzero" {
				return drive.BadField(name, drive.Required)
			}
			continue
		}
		if err := decodeField(value, field, v.Field(i).Addr().Interface(), name); err != nil {
			return err
		}
	}
	for name := range maps.Keys(members) {
		return drive.BadField(clip(name), drive.Unknown)
	}
	return nil
}

// splitObject returns the members of the single JSON object in raw by name. It fails with
// drive.BadRequest if raw is not exactly one object in UTF-8 or repeats a name.
func splitObject(raw []byte) (map[string]json.RawMessage, error) {
	malformed := func(err error) error {
		if errors.Is(err, io.EOF) { // the caller may take io.EOF for a regular end of its stream
			err = io.ErrUnexpectedEOF
		}
		return drive.Wrap(err, drive.BadRequest, "field", "body", "reason", string(drive.Malformed), "expected", "a JSON object in UTF-8")
	}
	if len(raw) == 0 {
		return nil, drive.BadField("body", drive.Required)
	}
	if !utf8.Valid(raw) || hasLoneSurrogate(raw) { // encoding/json would replace invalid characters silently
		return nil, malformed(nil)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil, malformed(err)
	}
	members := map[string]json.RawMessage{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, malformed(err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, malformed(err)
		}
		if _, twice := members[name.(string)]; twice {
			return nil, drive.BadField(clip(name.(string)), drive.Malformed, "expected", "one value")
		}
		members[name.(string)] = value
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return nil, malformed(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, malformed(err)
	}
	return members, nil
}

// hasLoneSurrogate reports whether an escape stands for half of a surrogate pair, which is not
// valid Unicode (RFC 8259 §8.2).
func hasLoneSurrogate(raw []byte) bool {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 || i+1 == len(raw) {
			return false
		}
		first, ok := escaped(raw[i:])
		if !ok || !utf16.IsSurrogate(first) {
			raw = raw[i+2:] // skips the escaped character, which may be a backslash
			continue
		}
		second, ok := escaped(raw[i+6:])
		if !ok || utf16.DecodeRune(first, second) == utf8.RuneError {
			return true
		}
		raw = raw[i+12:]
	}
}

// escaped decodes an escape \uXXXX at the start of b. ok is false if b does not start with one.
func escaped(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 32)
	return rune(n), err == nil
}

// decodeField decodes a member into a field. It fails with drive.BadRequest, which names the field.
func decodeField(value json.RawMessage, field reflect.StructField, into any, name string) error {
	if string(value) == "null" && field.Tag.Get("nullable") == "true" {
		if own, ok := into.(json.Unmarshaler); ok {
			return own.UnmarshalJSON(value)
		}
		return nil
	}
	err := errNull
	switch {
	case isMembers(field.Type) && len(value) > 0 && value[0] == '{':
		err = decodeObject(value, into)
	case string(value) != "null" && !holdsNull(value, field.Type):
		err = json.Unmarshal(value, into)
	}
	var known *drive.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return withField(known, name)
	}
	return drive.Wrap(err, drive.BadRequest, "field", name, "reason", string(drive.Malformed), "expected", expected(field.Type))
}

// holdsNull reports whether an array or object of plain values contains null, which encoding/json
// would read as a zero value. It returns false for a type with an UnmarshalJSON of its own.
func holdsNull(value json.RawMessage, t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Slice && t.Kind() != reflect.Map || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return false
	}
	depth, quoted := 0, false
	for i := 0; i < len(value); i++ {
		switch b := value[i]; {
		case quoted && b == '\\':
			i++
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '[' || b == '{':
			depth++
		case b == ']' || b == '}':
			depth--
		case b == 'n' && depth == 1: // no other JSON literal contains an n
			return true
		}
	}
	return false
}

// isMembers reports whether decodeObject decodes values of the type itself, field by field, because
// it is a struct without an unmarshal method.
func isMembers(t reflect.Type) bool {
	own := reflect.PointerTo(t)
	return t.Kind() == reflect.Struct && !own.Implements(reflect.TypeFor[json.Unmarshaler]()) && !own.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// errNull reports null as the value of a field that does not accept it.
var errNull = errors.New("null is no value of this field")

// withField adds the name of the field to an error that names none.
func withField(err *drive.Error, field string) error {
	if _, said := err.Args["field"]; said {
		return err
	}
	args := drive.Args{"field": field}
	maps.Copy(args, err.Args)
	return &drive.Error{Kind: err.Kind, Args: args, Err: err}
}

// expected describes the values of a type for the error of a malformed field.
func expected(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[drive.Time]() {
		return "an RFC 3339 time"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "an integer"
	case reflect.Slice:
		return "an array of strings"
	case reflect.Map:
		return "an object of strings"
	}
	return "a string"
}
