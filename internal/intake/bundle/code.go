package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Encode returns the manifest as the content of meta.json. Equal manifests give equal bytes, so
// that a sender that retries uploads an identical file. If the manifest is invalid or longer than
// MaxSize, the error is an *Error.
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
		return nil, bad(NotJSON, "%v", err) // the year is outside the range of RFC 3339
	}
	if b.Len() > MaxSize {
		return nil, tooLarge()
	}
	return b.Bytes(), nil
}

// tooLarge returns the *Error for a manifest longer than MaxSize bytes; it is never nil.
func tooLarge() error { return bad(TooLarge, "more than %d bytes", MaxSize) }

// Decode reads meta.json from r and returns the manifest, which is valid as Check defines. If it is
// invalid or longer than MaxSize bytes, the error is an *Error; any other error comes from r. It
// ignores unknown JSON members, because newer senders of schema 1 may add some.
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

// members is a list whose decoding fails beyond MaxMembers. Otherwise 4 MiB of "{}," would decode
// into a million members.
type members []Member

// UnmarshalJSON implements json.Unmarshaler. JSON null gives an empty list; a list longer than
// MaxMembers gives an *Error.
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
