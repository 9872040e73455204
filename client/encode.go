package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"unicode/utf8"
)

// errNotUTF8 reports a text that is not UTF-8. json.Marshal would replace its invalid bytes by
// U+FFFD and so change names.
var errNotUTF8 = errors.New("not in UTF-8")

// encode is json.Marshal for requests. It fails with errNotUTF8 if v contains a text that is not
// UTF-8.
func encode(v any) ([]byte, error) {
	if text, found := notUTF8(reflect.ValueOf(v)); found {
		return nil, fmt.Errorf("%q: %w", text, errNotUTF8)
	}
	return json.Marshal(v)
}

// notUTF8 finds a text in v that is not valid UTF-8. It skips byte slices and unexported fields,
// which are not sent as text. found is false if all are valid.
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
