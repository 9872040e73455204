// Package ticket signs short statements, so that whoever brings one back need not be looked up:
// links, accesses, senders' tokens.
//
// A ticket is base64url (RFC 4648 §5, no padding) of
//
//	1 byte version | the fields | 32 bytes HMAC-SHA256 (RFC 2104) of all before
//
// Its fields, and what they stand for, belong to the package that makes it. Numbers are big-endian.
package ticket

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
)

// Overhead is what a ticket has beside its fields, in bytes.
const Overhead = 1 + sha256.Size

// version is of the layout above; a change of fields changes the purpose of the key.
const version = 1

// Key signs the tickets of one kind.
type Key []byte

// For derives the key of one kind of ticket from a secret: a signature of one kind is worth nothing
// as another's.
func For(secret []byte, purpose string) Key { return Key(secret).Sum([]byte(purpose)) }

// Sum is the HMAC-SHA256 of a message.
func (k Key) Sum(message []byte) []byte {
	mac := hmac.New(sha256.New, k)
	mac.Write(message)
	return mac.Sum(nil)
}

// Sign makes a ticket of fields.
func (k Key) Sign(fields []byte) string {
	b := append([]byte{version}, fields...)
	return base64.RawURLEncoding.EncodeToString(append(b, k.Sum(b)...))
}

// Open returns the fields of a ticket that was signed with the key and whose fields have least to
// most bytes.
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

// Put appends numbers to fields.
func Put[N ~int64](fields []byte, numbers ...N) []byte {
	for _, n := range numbers {
		fields = binary.BigEndian.AppendUint64(fields, uint64(n)) //nolint:gosec // the same 64 bits
	}
	return fields
}

// Number reads the number at the beginning of fields.
func Number[N ~int64](fields []byte) N {
	return N(binary.BigEndian.Uint64(fields)) //nolint:gosec // the same 64 bits
}
