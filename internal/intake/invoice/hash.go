package invoice

import (
	"crypto/sha256"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// hashVersion is the prefix of the hashed text. It must change if equal documents would hash
// differently than before; stored hashes are then comparable only within one version.
const hashVersion = "smartdrive invoice 1\n"

// Hash returns the SHA-256 of the document's content: all present members in the order of their
// JSON names, each with its name and its value. Texts are preceded by their lengths, so that
// different documents cannot give the same text. The result does not depend on the syntax of the
// file or on a JSON encoder.
func (d *Document) Hash() [32]byte {
	room := hashRoom.Get().(*[]byte)
	text := appendCanonical(append((*room)[:0], hashVersion...), reflect.ValueOf(d).Elem())
	sum := sha256.Sum256(text)
	*room = text
	if cap(text) <= 1<<20 {
		hashRoom.Put(room)
	}
	return sum
}

// hashRoom pools buffers for the hashed text.
var hashRoom = sync.Pool{New: func() any { return new(make([]byte, 0, 8<<10)) }}

// appendCanonical appends the canonical text of a value: texts as <length>:<bytes>, structs as
// {name=value...}, lists as [value...].
func appendCanonical(to []byte, v reflect.Value) []byte {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	var room [64]byte
	switch p := v.Addr().Interface().(type) {
	case *Decimal:
		text, _ := p.AppendText(room[:0]) // AppendText never fails
		return appendLengthed(to, text)
	case *Date:
		return appendLengthed(to, []byte(p.String()))
	}
	switch v.Kind() { //nolint:exhaustive // the model has no others
	case reflect.Struct:
		to = append(to, '{')
		for _, member := range membersOf(v.Type()) {
			field := v.Field(member.index)
			if field.IsZero() || field.Kind() == reflect.Slice && field.Len() == 0 {
				continue
			}
			to = append(append(to, member.name...), '=')
			to = appendCanonical(to, field)
		}
		return append(to, '}')
	case reflect.Slice:
		to = append(to, '[')
		for i := range v.Len() {
			to = appendCanonical(to, v.Index(i))
		}
		return append(to, ']')
	case reflect.Bool:
		return strconv.AppendBool(to, v.Bool())
	case reflect.Int64:
		return append(strconv.AppendInt(to, v.Int(), 10), ';')
	default:
		text := v.String()
		to = strconv.AppendInt(to, int64(len(text)), 10)
		return append(append(to, ':'), text...)
	}
}

// appendLengthed appends a text as <length>:<bytes>.
func appendLengthed(to, text []byte) []byte {
	to = strconv.AppendInt(to, int64(len(text)), 10)
	return append(append(to, ':'), text...)
}

// member is a JSON member of a struct, with the index of its field.
type member struct {
	name  string
	index int
}

var members sync.Map // cache, reflect.Type to []member

// membersOf returns the members of a struct in the order of their JSON names, so that the order of
// fields does not affect the hash.
func membersOf(t reflect.Type) []member {
	if known, ok := members.Load(t); ok {
		return known.([]member)
	}
	list := make([]member, 0, t.NumField())
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "-" {
			list = append(list, member{name, i})
		}
	}
	slices.SortFunc(list, func(a, b member) int { return strings.Compare(a.name, b.name) })
	members.Store(t, list)
	return list
}
