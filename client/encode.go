package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"unicode/utf8"
)

// errNotUTF8 is text that JSON would change on its way: json.Marshal writes U+FFFD for each byte
// that is not UTF-8, and the server would take that for the name.
var errNotUTF8 = errors.New("not in UTF-8")

// encode is json.Marshal for what is sent to the server. It refuses text that is not UTF-8.
func encode(v any) ([]byte, error) {
	if text, found := notUTF8(reflect.ValueOf(v)); found {
		return nil, fmt.Errorf("%q: %w", text, errNotUTF8)
	}
	return json.Marshal(v)
}

// notUTF8 finds a text in v that is not UTF-8. Bytes are no text, and what is not exported is not
// sent.
func notUTF8(v reflect.Value) (text string, found bool) {
	switch v.Kind() {
	case reflect.String:
		return v.String(), !utf8.ValidString(v.String())
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return notUTF8(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return "", false
		}
		for i := 0; i < v.Len() && !found; i++ {
			text, found = notUTF8(v.Index(i))
		}
	case reflect.Map:
		for all := v.MapRange(); all.Next() && !found; {
			if text, found = notUTF8(all.Key()); !found {
				text, found = notUTF8(all.Value())
			}
		}
	case reflect.Struct:
		for i := 0; i < v.NumField() && !found; i++ {
			if f := v.Type().Field(i); f.IsExported() || f.Anonymous {
				text, found = notUTF8(v.Field(i))
			}
		}
	default:
	}
	return text, found
}
