package digest

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding"
	"fmt"
	"hash"

	"github.com/emmansun/gmsm/sm3"
)

// Alias computes one digest over a content in order, for the algorithms whose digest cannot be
// combined from parts. Its state can be stored across restarts; the hash packages promise to read
// states of their older versions.
type Alias struct {
	algo Algo
	hash hash.Hash
}

// NewAlias returns an Alias for SHA256, SM3, SHA1 or MD5. It panics for any other algorithm.
func NewAlias(algo Algo) *Alias {
	h := newHash(algo)
	if h == nil {
		panic(fmt.Sprintf("digest: %q is no alias algorithm", algo))
	}
	return &Alias{algo, h}
}

// newHash returns the hash of an alias algorithm; nil for any other.
func newHash(algo Algo) hash.Hash {
	switch algo {
	case SHA256:
		return sha256.New()
	case SHA1:
		return sha1.New()
	case MD5:
		return md5.New()
	case SM3:
		return sm3.New()
	case Blake3: // not an alias
	}
	return nil
}

// Algo returns the algorithm.
func (a *Alias) Algo() Algo { return a.algo }

// Write hashes p. It does not fail.
func (a *Alias) Write(p []byte) (int, error) { return a.hash.Write(p) }

// Sum returns the digest of the bytes written so far. More bytes may be written afterwards.
func (a *Alias) Sum() []byte { return a.hash.Sum(nil) }

// MarshalBinary returns the internal state, about 100 bytes. It contains up to 63 bytes of the
// content in plain, so protect it like content.
func (a *Alias) MarshalBinary() ([]byte, error) {
	m, ok := a.hash.(encoding.BinaryMarshaler)
	if !ok {
		return nil, fmt.Errorf("state of %s cannot be kept", a.algo)
	}
	return m.MarshalBinary()
}

// UnmarshalBinary restores the state that MarshalBinary returned for the same algorithm, so that
// hashing continues after the same bytes. It fails if the state is damaged or of another algorithm.
func (a *Alias) UnmarshalBinary(state []byte) error {
	u, ok := a.hash.(encoding.BinaryUnmarshaler)
	if !ok {
		return fmt.Errorf("state of %s cannot be kept", a.algo)
	}
	if err := u.UnmarshalBinary(state); err != nil {
		return fmt.Errorf("restore state of %s: %w", a.algo, err)
	}
	return nil
}
