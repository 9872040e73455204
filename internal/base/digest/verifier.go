package digest

import (
	"bytes"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"hash"
	"hash/crc32"
)

// Verifier hashes a body as it streams in and compares it with what its request declared. It
// computes nothing that was not declared, or announced.
type Verifier struct {
	hashes   map[FieldAlgo]hash.Hash
	declared func() ([]FieldDigest, error)
}

// NewVerifier returns a Verifier of the digests that ParseContentDigest returned; none is allowed,
// then any body is right.
func NewVerifier(declared []FieldDigest) *Verifier {
	algos := make([]FieldAlgo, len(declared))
	for i, d := range declared {
		algos[i] = d.Algo
	}
	return NewLateVerifier(algos, func() ([]FieldDigest, error) { return declared, nil })
}

// NewLateVerifier returns a Verifier of digests, each by one of algos, that are known only behind
// the body, as those in a trailer are. Verify calls declared; its error is a verdict, too.
func NewLateVerifier(algos []FieldAlgo, declared func() ([]FieldDigest, error)) *Verifier {
	v := &Verifier{hashes: make(map[FieldAlgo]hash.Hash, len(algos)), declared: declared}
	for _, algo := range algos {
		v.hashes[algo] = newFieldHash(algo)
	}
	return v
}

func newFieldHash(algo FieldAlgo) hash.Hash {
	switch algo {
	case FieldSHA256:
		return sha256.New()
	case FieldSHA1:
		return sha1.New()
	case FieldMD5:
		return md5.New()
	case FieldCRC32C:
		return crc32.New(castagnoli) // its Sum is big-endian, as the field wants it
	case FieldCRC32:
		return crc32.NewIEEE()
	}
	panic("digest: no hash for field algorithm " + string(algo))
}

// Write implements io.Writer; it does not fail.
func (v *Verifier) Write(p []byte) (int, error) {
	for _, h := range v.hashes {
		h.Write(p)
	}
	return len(p), nil
}

// Verify returns nil when everything written so far has the declared digests, else DigestMismatch
// {algorithm, declared, computed} for the first that differs.
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
