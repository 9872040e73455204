package digest

import (
	"crypto/md5"
	"crypto/sha1"
	"encoding/base64"
	"hash/crc32"
	"strings"

	"example.org/smartdrive/internal/base/drive"
)

// FieldAlgo is a key of the registry Hash Algorithms for HTTP Digest Fields (RFC 9530 §7.2), or an
// algorithm that another protocol declares for a request.
type FieldAlgo string

// The keys accepted in a digest field.
const (
	FieldSHA256 FieldAlgo = "sha-256"
	FieldCRC32C FieldAlgo = "crc32c" // four bytes, big-endian
)

// Algorithms declared by other protocols. They only detect accidental changes, so digest fields may
// not name them.
const (
	FieldSHA1  FieldAlgo = "sha"
	FieldMD5   FieldAlgo = "md5"
	FieldCRC32 FieldAlgo = "crc32" // IEEE 802.3; four bytes, big-endian
)

// Size returns the length of a digest in bytes.
func (a FieldAlgo) Size() int {
	switch a {
	case FieldSHA1:
		return sha1.Size
	case FieldMD5:
		return md5.Size
	case FieldCRC32C, FieldCRC32:
		return crc32.Size
	case FieldSHA256:
	}
	return Size
}

// FieldDigest is one member of a Content-Digest or Repr-Digest field.
type FieldDigest struct {
	Algo  FieldAlgo
	Value []byte
}

// ParseContentDigest parses the Content-Digest of a request (RFC 9530 §2). The caller joins several
// field lines with commas first (RFC 9110 §5.3). Unknown algorithms are ignored, as RFC 9530
// requires. A field with only unknown algorithms is a BadRequest that lists the known ones, because
// its sender would believe that the digest was verified. An empty field returns nil.
func ParseContentDigest(field string) ([]FieldDigest, error) {
	return parseDigestField("Content-Digest", field, FieldSHA256, FieldCRC32C)
}

// ParseReprDigest parses the Repr-Digest of a request (RFC 9530 §3) by the rules of
// ParseContentDigest, with sha-256 as the only known algorithm. An empty field returns nil.
func ParseReprDigest(field string) (Set, error) {
	list, err := parseDigestField("Repr-Digest", field, FieldSHA256)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return Set{SHA256: list[0].Value}, nil
}

// FormatReprDigest returns the Repr-Digest field for digests s, or "" if s has no SHA-256. BLAKE3
// is not in the registry.
func FormatReprDigest(s Set) string {
	b, ok := s[SHA256]
	if !ok {
		return ""
	}
	return string(FieldSHA256) + "=:" + base64.StdEncoding.EncodeToString(b) + ":"
}

// parseDigestField parses the header field called name and returns its digests of known algorithms,
// in the order of known; others are ignored. It fails with BadRequest if the field is malformed, a
// digest has the wrong length, or no algorithm is known. An empty field yields no digests.
func parseDigestField(name, field string, known ...FieldAlgo) ([]FieldDigest, error) {
	members, ok := parseByteDictionary(field)
	if !ok {
		return nil, drive.BadField(name, drive.Malformed, "expected", "sha-256=:<base64>:")
	}
	var list []FieldDigest
	for _, algo := range known {
		value, ok := members[string(algo)]
		if !ok {
			continue
		}
		if len(value) != algo.Size() {
			return nil, drive.BadField(name, drive.Malformed, "expected", string(algo)+"=:<base64>:", "algorithm", string(algo))
		}
		list = append(list, FieldDigest{algo, value})
	}
	if len(list) == 0 && len(members) > 0 {
		return nil, drive.BadField(name, drive.NotAllowed, "allowed", known)
	}
	return list, nil
}

// parseByteDictionary parses a Dictionary of Byte Sequences (RFC 9651 §4.2.2, §4.2.7), the only
// form that RFC 9530 defines. It returns false for malformed text, parameters and other types. The
// last value of a repeated key is used.
func parseByteDictionary(s string) (map[string][]byte, bool) {
	s = strings.Trim(s, " ")
	members := make(map[string][]byte)
	for more := s != ""; more; {
		var key, value string
		var ok bool
		if key, s, ok = cutKey(s); !ok {
			return nil, false
		}
		if value, s, ok = cutColons(s); !ok {
			return nil, false
		}
		if members[key], ok = decodeBase64(value); !ok {
			return nil, false
		}
		if s = strings.TrimLeft(s, " \t"); s == "" {
			break
		}
		if s, ok = strings.CutPrefix(s, ","); !ok {
			return nil, false
		}
		s = strings.TrimLeft(s, " \t")
	}
	return members, true
}

// cutKey splits s after a leading `key=`; ok is false if there is none.
func cutKey(s string) (key, rest string, ok bool) {
	key, rest, ok = strings.Cut(s, "=")
	if !ok || key == "" || (key[0] != '*' && (key[0] < 'a' || key[0] > 'z')) {
		return "", "", false
	}
	const marks = "_-.*"
	for _, c := range []byte(key) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && strings.IndexByte(marks, c) < 0 {
			return "", "", false
		}
	}
	return key, rest, true
}

// cutColons splits s, which must begin with ":value:", into value and the rest. ok is false if it
// does not; value and rest are then meaningless.
func cutColons(s string) (value, rest string, ok bool) {
	if s, ok = strings.CutPrefix(s, ":"); !ok {
		return "", "", false
	}
	return strings.Cut(s, ":")
}

// decodeBase64 decodes as RFC 9651 §4.2.7 permits: padding may be missing and its bits need not be
// zero. It returns false for malformed text, and for line breaks, which encoding/base64 skips.
func decodeBase64(s string) ([]byte, bool) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, false
	}
	for range 2 {
		s = strings.TrimSuffix(s, "=")
	}
	b, err := base64.RawStdEncoding.DecodeString(s)
	return b, err == nil
}
