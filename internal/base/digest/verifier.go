package digest

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"hash"
	"hash/crc32"
)

// Verifier hashes a body as it streams in and compares it with declared digests. It computes only
// algorithms that were declared or announced.
type Verifier struct {
	hashes   map[FieldAlgo]hash.Hash       // by algorithm
	declared func() ([]FieldDigest, error) // returns the digests to compare with, once the body has ended
}

// NewVerifier returns a Verifier of the digests from ParseContentDigest. Without digests, every
// body is correct.
func NewVerifier(declared []FieldDigest) *Verifier {
	algos := make([]FieldAlgo, len(declared))
	for i, d := range declared {
		algos[i] = d.Algo
	}
	return NewLateVerifier(algos, func() ([]FieldDigest, error) { return declared, nil })
}

// NewLateVerifier returns a Verifier of digests that are known only after the body, such as in a
// trailer. algos are the announced algorithms. Verify calls declared, whose algorithms must be
// among algos, and returns its error.
func NewLateVerifier(algos []FieldAlgo, declared func() ([]FieldDigest, error)) *Verifier {
	v := &Verifier{hashes: make(map[FieldAlgo]hash.Hash, len(algos)), declared: declared}
	for _, algo := range algos {
		v.hashes[algo] = newFieldHash(algo)
	}
	return v
}

// newFieldHash returns the hash of a field algorithm. It panics for an unknown one.
func newFieldHash(algo FieldAlgo) hash.Hash {
	switch algo {
	case FieldSHA256:
		return sha256.New()
	case FieldSHA1:
		return sha1.New()
	case FieldMD5:
		return md5.New()
	case FieldCRC32C:
		return crc32.New(castagnoli) // its Sum is big-endian, as in the field
	case FieldCRC32:
		return crc32.NewIEEE()
	}
	panic("digest: no hash for field algorithm " + string(algo))
}

// Write hashes p with every algorithm. It returns len(p) and no error.
func (v *Verifier) Write(p []byte) (int, error) {
	for _, h := range v.hashes {
		h.Write(p)
	}
	return len(p), nil
}

// Verify returns nil if the bytes written so far have the declared digests, else DigestMismatch
// {algorithm, declared, computed} for the first difference. With NewLateVerifier it returns the
// error of declared.
func (v *Verifier) Verify() error {
	declared, err := v.declared()
	if err != nil {
		return err
	}
	for _, d := range declared {
		if got := v.hashes[d.Algo].Sum(nil); !bytes.Equal(got, d.Value) {
			return mismatch(string(d.Algo), d.Value, got)
		}
	}
	return nil
}
