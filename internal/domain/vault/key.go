package vault

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
)

const keyBytes = 32 // key length of AES-256

// Key seals secrets.
type Key struct{ raw [keyBytes]byte }

// NewKey returns a random key.
func NewKey() Key {
	var k Key
	_, _ = rand.Read(k.raw[:]) // does not fail
	return k
}

// ParseKeys parses keys in the form of Text, separated by white space or commas. The first one is
// used for sealing, all of them for opening. It fails if there is no key or one is invalid.
func ParseKeys(text string) ([]Key, error) {
	var keys []Key
	for _, field := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' || r == '\t' }) {
		raw, err := base64.StdEncoding.DecodeString(field)
		if err != nil || len(raw) != keyBytes {
			return nil, fmt.Errorf("key %d is not the base64 of %d bytes", len(keys)+1, keyBytes)
		}
		keys = append(keys, Key{[keyBytes]byte(raw)})
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("there is no key; make one with: openssl rand -base64 %d", keyBytes)
	}
	return keys, nil
}

// Text returns the key in base64, as stored in a file.
func (k Key) Text() string { return base64.StdEncoding.EncodeToString(k.raw[:]) }

// name returns an identifier of the key that reveals nothing about it.
func (k Key) name() string {
	sum := sha256.Sum256(k.raw[:])
	return hex.EncodeToString(sum[:4])
}

// sealedPrefix begins each encrypted value; other values are plain.
const sealedPrefix = "sealed:"

// aead returns AES-GCM with the key. Seal puts a random nonce before the ciphertext, and Open reads
// it there.
func (k Key) aead() (cipher.AEAD, error) {
	block, err := aes.NewCipher(k.raw[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// seal encrypts secret for the row of that name and returns the column value, which names the key.
// The value can be opened only as that of the same row.
func (k Key) seal(row string, secret []byte) (string, error) {
	aead, err := k.aead()
	if err != nil {
		return "", err
	}
	sealed := aead.Seal(nil, nil, secret, []byte(row)) //nolint:gosec // the nonce is made by the AEAD
	return sealedPrefix + k.name() + ":" + base64.RawURLEncoding.EncodeToString(sealed), nil
}

// open decrypts content, the last field of a value from seal, for the row of that name.
func (k Key) open(row, content string) ([]byte, error) {
	aead, err := k.aead()
	if err != nil {
		return nil, err
	}
	raw, err := base64.RawURLEncoding.DecodeString(content)
	if err != nil {
		return nil, err
	}
	return aead.Open(nil, nil, raw, []byte(row))
}
