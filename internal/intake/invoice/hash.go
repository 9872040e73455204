package invoice

import (
	"crypto/sha256"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// hashVersion stands in front of what is hashed. It changes when the same document would hash
// differently; stored hashes are then compared within their version only.
const hashVersion = "smartdrive invoice 1\n"

// Hash is the SHA-256 of what the document says: each member that is there, by its JSON name and in
// the order of names, and its value, with lengths in front so that no two documents run together.
// It does not depend on the syntax the document came in, nor on a JSON encoder.
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

var hashRoom = sync.Pool{New: func() any { return new(make([]byte, 0, 8<<10)) }}

// appendCanonical appends a value: texts as <length>:<bytes>, structs as {name=value...}, lists as
// [value...].
func appendCanonical(to []byte, v reflect.Value) []byte {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	var room [64]byte
	switch p := v.Addr().Interface().(type) {
	case *Decimal:
		text, _ := p.AppendText(room[:0]) // which has no errors
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

func appendLengthed(to, text []byte) []byte {
	to = strconv.AppendInt(to, int64(len(text)), 10)
	return append(append(to, ':'), text...)
}

type member struct {
	name  string
	index int
}

var members sync.Map // reflect.Type to []member

// membersOf returns the members of a struct in the order of their JSON names, so that the order of
// fields means nothing.
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
