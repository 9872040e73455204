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

// Alias hashes a content in order for one of the algorithms that cannot be folded from parts. Its
// state can be kept across a restart; the hash packages promise to read the states of their older
// versions.
type Alias struct {
	algo Algo
	hash hash.Hash
}

// NewAlias returns a hasher for SHA256, SM3, SHA1 or MD5; any other algorithm is a mistake in the
// program and panics.
func NewAlias(algo Algo) *Alias {
	h := newHash(algo)
	if h == nil {
		panic(fmt.Sprintf("digest: %q is no alias algorithm", algo))
	}
	return &Alias{algo, h}
}

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

// Write implements io.Writer; it does not fail.
func (a *Alias) Write(p []byte) (int, error) { return a.hash.Write(p) }

// Sum returns the digest of what was written so far. More may be written.
func (a *Alias) Sum() []byte { return a.hash.Sum(nil) }

// MarshalBinary returns the inner state, about 100 bytes. It holds up to 63 bytes of the content in
// clear: treat it as content.
func (a *Alias) MarshalBinary() ([]byte, error) {
	m, ok := a.hash.(encoding.BinaryMarshaler)
	if !ok {
		return nil, fmt.Errorf("state of %s cannot be kept", a.algo)
	}
	return m.MarshalBinary()
}

// UnmarshalBinary sets the state to what MarshalBinary of the same algorithm returned.
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
