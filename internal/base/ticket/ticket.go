// Package ticket signs short statements, such as links, share accesses and sender tokens, so that a
// server can verify them without a lookup.
//
// A ticket is base64url (RFC 4648 §5, no padding) of
//
//	1 byte version | the fields | 32 bytes HMAC-SHA256 (RFC 2104) of all before
//
// The package that creates a kind of ticket defines its fields. Numbers are big-endian.
package ticket

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
)

// Overhead is the number of bytes of a ticket besides its fields, before base64.
const Overhead = 1 + sha256.Size

// version identifies the layout above. To change the fields of a kind, change the purpose of its
// key.
const version = 1

// Key signs tickets of one kind.
type Key []byte

// DeriveKey derives the key for one kind of ticket from a secret. Signatures of different purposes
// are not interchangeable.
func DeriveKey(secret []byte, purpose string) Key { return Key(secret).Sum([]byte(purpose)) }

// Sum returns the HMAC-SHA256 of message.
func (k Key) Sum(message []byte) []byte {
	mac := hmac.New(sha256.New, k)
	mac.Write(message)
	return mac.Sum(nil)
}

// Sign returns a ticket: the fields with a version and an HMAC, in unpadded base64url. The fields
// are readable for everybody.
func (k Key) Sign(fields []byte) string {
	b := append([]byte{version}, fields...)
	return base64.RawURLEncoding.EncodeToString(append(b, k.Sum(b)...))
}

// Open returns the fields of a ticket signed with k. ok is false if the signature is wrong or the
// fields do not have least to most bytes; then do not use fields.
func (k Key) Open(text string, least, most int) (fields []byte, ok bool) {
	if len(text) > base64.RawURLEncoding.EncodedLen(most+Overhead) || strings.ContainsAny(text, "\r\n") { // the decoder skips line breaks
		return nil, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < least+Overhead || b[0] != version {
		return nil, false
	}
	body, sum := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	return body[1:], hmac.Equal(sum, k.Sum(body))
}

// AppendNumbers appends numbers to fields.
func AppendNumbers[N ~int64](fields []byte, numbers ...N) []byte {
	for _, n := range numbers {
		fields = binary.BigEndian.AppendUint64(fields, uint64(n)) //nolint:gosec // the same 64 bits
	}
	return fields
}

// ReadNumber decodes the number at the beginning of fields. It panics if fields has fewer than 8
// bytes.
func ReadNumber[N ~int64](fields []byte) N {
	return N(binary.BigEndian.Uint64(fields)) //nolint:gosec // the same 64 bits
}
