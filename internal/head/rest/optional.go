package rest

import "encoding/json"

// optional is a member of a body that may be absent, null, or a value: null means none. It is for
// fields with the tag nullable.
type optional[T any] struct {
	given bool
	value *T // nil: null
}

// UnmarshalJSON implements json.Unmarshaler; nobody calls it for an absent member.
func (o *optional[T]) UnmarshalJSON(b []byte) error {
	o.given, o.value = true, nil
	return json.Unmarshal(b, &o.value)
}
