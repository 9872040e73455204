package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Encode returns meta.json. Equal manifests give equal bytes: a sender that is asked twice sends
// the same thing twice.
func (m *Manifest) Encode() ([]byte, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	utc := *m
	utc.CreatedAt = m.CreatedAt.UTC()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(&utc); err != nil {
		return nil, bad(NotJSON, "%v", err) // a year that RFC 3339 does not have
	}
	if b.Len() > MaxSize {
		return nil, tooLarge()
	}
	return b.Bytes(), nil
}

func tooLarge() error { return bad(TooLarge, "more than %d bytes", MaxSize) }

// Decode reads meta.json from r, and no more than MaxSize bytes of it. What it refuses is an
// *Error; another error is r's. Members of the JSON that are unknown are passed over: a later
// sender of schema 1 may say more.
func Decode(r io.Reader) (*Manifest, error) {
	raw, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", MetaName, err)
	}
	if len(raw) > MaxSize {
		return nil, tooLarge()
	}
	m := new(Manifest)
	if err := json.Unmarshal(raw, m); err != nil {
		if refused, ok := errors.AsType[*Error](err); ok {
			return nil, refused
		}
		return nil, bad(NotJSON, "%v", err)
	}
	if err := m.Check(); err != nil {
		return nil, err
	}
	return m, nil
}

// members is a list that ends reading at MaxMembers: four MiB of "{}" would be a million of them.
type members []Member

// UnmarshalJSON implements json.Unmarshaler.
func (l *members) UnmarshalJSON(raw []byte) error {
	*l = nil
	dec := json.NewDecoder(bytes.NewReader(raw))
	start, err := dec.Token()
	if err != nil {
		return err
	}
	if start == nil {
		return nil
	}
	if start != json.Delim('[') {
		return errors.New("members is not a list")
	}
	for dec.More() {
		if len(*l) == MaxMembers {
			return tooMany()
		}
		var m Member
		if err := dec.Decode(&m); err != nil {
			return err
		}
		*l = append(*l, m)
	}
	return nil
}
