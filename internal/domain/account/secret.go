package account

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// Format of a bearer secret.
const (
	secretPrefix = "sd_" // lets secret scanners recognize a leaked secret
	secretBytes  = 32
)

// secretBase64 is the encoding of the random bytes of a secret: URL-safe, unpadded, without stray
// bits.
var secretBase64 = base64.RawURLEncoding.Strict()

// secretHash is the stored SHA-256 of a bearer secret. The secret is random, so one round is
// enough.
type secretHash [sha256.Size]byte

// newSecret returns a random bearer secret, for the client only, and its SHA-256 hash, which is
// what the database stores.
func newSecret() (string, secretHash) {
	b := random(secretBytes)
	return secretPrefix + secretBase64.EncodeToString(b), sha256.Sum256(b)
}

// parseSecret returns the hash of a well-formed secret; false for other text.
func parseSecret(s string) (secretHash, bool) {
	text, ok := strings.CutPrefix(s, secretPrefix)
	if !ok || len(text) != secretBase64.EncodedLen(secretBytes) {
		return secretHash{}, false
	}
	b, err := secretBase64.DecodeString(text)
	if err != nil || len(b) != secretBytes {
		return secretHash{}, false
	}
	return sha256.Sum256(b), true
}
