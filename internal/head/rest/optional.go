package rest

import "encoding/json"

// optional is a member of a body that may be absent, null or a value. It needs the tag nullable.
type optional[T any] struct {
	// given tells that the member is in the body; value is then nil for null.
	given bool
	value *T // nil: null
}

// UnmarshalJSON implements json.Unmarshaler. It is not called for an absent member, so given stays
// false.
func (o *optional[T]) UnmarshalJSON(b []byte) error {
	o.given, o.value = true, nil
	return json.Unmarshal(b, &o.value)
}
