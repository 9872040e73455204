package digest

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"

	"example.org/smartdrive/internal/base/drive"
)

// Algo is a digest algorithm, spelled as in the native API and the database.
type Algo string

// The algorithms.
const (
	Blake3 Algo = "blake3" // BLAKE3-256, the canonical digest
	SHA256 Algo = "sha256" // FIPS 180-4
	SM3    Algo = "sm3"    // GB/T 32905-2016
	SHA1   Algo = "sha1"   // FIPS 180-4; not collision-resistant
	MD5    Algo = "md5"    // RFC 1321; not collision-resistant
)

// Algos returns all algorithms, strong ones first.
func Algos() []Algo { return []Algo{Blake3, SHA256, SM3, SHA1, MD5} }

// Size returns the length of the algorithm's digests in bytes; 0 for an unknown algorithm.
func (a Algo) Size() int {
	switch a {
	case Blake3, SHA256, SM3:
		return 32
	case SHA1:
		return 20
	case MD5:
		return 16
	}
	return 0
}

// Strong reports whether the algorithm is collision-resistant.
func (a Algo) Strong() bool { return a == Blake3 || a == SHA256 || a == SM3 }

// Digest is one digest of a content, with its algorithm.
type Digest struct {
	Algo  Algo
	Bytes []byte
}

// String returns "sha256:<hex>", for logs.
func (d Digest) String() string { return string(d.Algo) + ":" + hex.EncodeToString(d.Bytes) }

// Set holds digests of one content by algorithm, declared or computed. Its JSON form is an object
// {"<algo>": "<lower-case hex>"}.
type Set map[Algo][]byte

// ParseSet parses digests that a client declares, hex by algorithm. It rejects unknown algorithms,
// because the client would believe that they were verified. Errors are BadRequest, for the
// alphabetically first wrong name.
func ParseSet(declared map[string]string) (Set, error) {
	set := make(Set, len(declared))
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		algo := Algo(name)
		if algo.Size() == 0 {
			return nil, drive.BadField("digests", drive.NotAllowed, "allowed", Algos(), "sent", name)
		}
		b := make([]byte, algo.Size())
		if err := parseHex(b, declared[name], "digests."+name); err != nil {
			return nil, err
		}
		set[algo] = b
	}
	return set, nil
}

// Hex returns the set in the form that ParseSet parses.
func (s Set) Hex() map[string]string {
	m := make(map[string]string, len(s))
	for algo, b := range s {
		m[string(algo)] = hex.EncodeToString(b)
	}
	return m
}

// MarshalJSON returns an object of hex digests by algorithm.
func (s Set) MarshalJSON() ([]byte, error) { return json.Marshal(s.Hex()) }

// UnmarshalJSON parses an object of hex digests by the rules of ParseSet; null is the empty Set.
func (s *Set) UnmarshalJSON(b []byte) error {
	var declared map[string]string
	if err := json.Unmarshal(b, &declared); err != nil {
		return drive.Wrap(err, drive.BadRequest, "field", "digests", "reason", string(drive.Malformed),
			"expected", "an object of hex strings")
	}
	set, err := ParseSet(declared)
	if err != nil {
		return err
	}
	*s = set
	return nil
}

// List returns the digests in the order of Algos.
func (s Set) List() []Digest {
	list := make([]Digest, 0, len(s))
	for _, algo := range Algos() {
		if b, ok := s[algo]; ok {
			list = append(list, Digest{algo, b})
		}
	}
	return list
}

// Strong reports whether the set contains a strong digest: BLAKE3, SHA-256 or SM3.
func (s Set) Strong() bool {
	for algo := range s {
		if algo.Strong() {
			return true
		}
	}
	return false
}

// Aliases returns the algorithms of the set except BLAKE3: those whose digests can only be verified
// by reading the bytes in order.
func (s Set) Aliases() []Algo {
	var algos []Algo
	for _, d := range s.List() {
		if d.Algo != Blake3 {
			algos = append(algos, d.Algo)
		}
	}
	return algos
}

// Equal reports whether both sets have the same algorithms with the same digests; a nil and an
// empty set are equal.
func (s Set) Equal(t Set) bool { return maps.EqualFunc(s, t, bytes.Equal) }

// SameContent reports whether both sets certainly belong to the same content: they share a strong
// digest, and no shared algorithm differs. False does not mean different contents; the sets may
// have no algorithm in common.
func (s Set) SameContent(t Set) bool {
	same := false
	for algo, b := range s {
		other, ok := t[algo]
		if ok && !bytes.Equal(b, other) {
			return false
		}
		same = same || ok && algo.Strong()
	}
	return same
}

// Check compares the declared set s with computed digests. It returns DigestMismatch {algorithm,
// declared, computed} for the first difference. A declared algorithm that was not computed is an
// Internal error.
func (s Set) Check(computed Set) error {
	for _, d := range s.List() {
		got, ok := computed[d.Algo]
		if !ok {
			return drive.Fail(drive.Internal, "algorithm", string(d.Algo), "reason", "not computed")
		}
		if !bytes.Equal(d.Bytes, got) {
			return mismatch(string(d.Algo), d.Bytes, got)
		}
	}
	return nil
}

// mismatch returns the error DigestMismatch {algorithm, declared, computed}, both digests in hex.
func mismatch(algorithm string, declared, computed []byte) error {
	return drive.Fail(drive.DigestMismatch, "algorithm", algorithm,
		"declared", hex.EncodeToString(declared), "computed", hex.EncodeToString(computed))
}
