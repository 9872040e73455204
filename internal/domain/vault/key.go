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

const keyBytes = 32 // of AES-256

// Key seals secrets.
type Key struct{ raw [keyBytes]byte }

// NewKey makes a key.
func NewKey() Key {
	var k Key
	_, _ = rand.Read(k.raw[:]) // does not fail
	return k
}

// ParseKeys reads keys as Text writes them, separated by white space or commas. The first one
// seals, all of them open.
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

// Text is the key as it is kept in a file.
func (k Key) Text() string { return base64.StdEncoding.EncodeToString(k.raw[:]) }

// name tells keys apart and nothing of them.
func (k Key) name() string {
	sum := sha256.Sum256(k.raw[:])
	return hex.EncodeToString(sum[:4])
}

const sealedPrefix = "sealed:"

func (k Key) aead() (cipher.AEAD, error) {
	block, err := aes.NewCipher(k.raw[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// seal makes the value of a row.
func (k Key) seal(row string, secret []byte) (string, error) {
	aead, err := k.aead()
	if err != nil {
		return "", err
	}
	sealed := aead.Seal(nil, nil, secret, []byte(row)) //nolint:gosec // the nonce is made by the AEAD
	return sealedPrefix + k.name() + ":" + base64.RawURLEncoding.EncodeToString(sealed), nil
}

// open reads what seal made with this key.
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
