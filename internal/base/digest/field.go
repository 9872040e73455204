package digest

import (
	"crypto/md5"
	"crypto/sha1"
	"encoding/base64"
	"hash/crc32"
	"strings"

	"smartdrive/internal/base/drive"
)

// FieldAlgo is a key of the Hash Algorithms for HTTP Digest Fields registry (RFC 9530 §7.2), or an
// algorithm of a protocol that has digests of a request under other names.
type FieldAlgo string

// The keys that are understood in a digest field.
const (
	FieldSHA256 FieldAlgo = "sha-256"
	FieldCRC32C FieldAlgo = "crc32c" // four bytes, big-endian
)

// What other protocols declare besides. Good against accidents only, so no digest field may name
// them.
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

// ParseContentDigest reads the Content-Digest of a request (RFC 9530 §2); several field lines are
// joined with a comma first (RFC 9110 §5.3). Unknown algorithms are ignored, as RFC 9530 demands,
// but a field in which none is known is a BadRequest that lists the known ones: its sender would
// believe that it was verified. An empty field is an absent one and returns nothing.
func ParseContentDigest(field string) ([]FieldDigest, error) {
	return parseDigestField("Content-Digest", field, FieldSHA256, FieldCRC32C)
}

// ParseReprDigest reads the Repr-Digest of a request (RFC 9530 §3), in which sha-256 is understood,
// with the rules of ParseContentDigest. The result is empty when the field is absent.
func ParseReprDigest(field string) (Set, error) {
	list, err := parseDigestField("Repr-Digest", field, FieldSHA256)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return Set{SHA256: list[0].Value}, nil
}

// FormatReprDigest returns the Repr-Digest field for a content with the given digests, or "" when
// its SHA-256 is not known; BLAKE3 is not in the registry.
func FormatReprDigest(s Set) string {
	b, ok := s[SHA256]
	if !ok {
		return ""
	}
	return string(FieldSHA256) + "=:" + base64.StdEncoding.EncodeToString(b) + ":"
}

func parseDigestField(name, field string, known ...FieldAlgo) ([]FieldDigest, error) {
	members, ok := parseByteDictionary(field)
	if !ok {
		return nil, drive.Bad(name, drive.Malformed, "expected", "sha-256=:<base64>:")
	}
	var list []FieldDigest
	for _, algo := range known {
		value, ok := members[string(algo)]
		if !ok {
			continue
		}
		if len(value) != algo.Size() {
			return nil, drive.Bad(name, drive.Malformed, "expected", string(algo)+"=:<base64>:", "algorithm", string(algo))
		}
		list = append(list, FieldDigest{algo, value})
	}
	if len(list) == 0 && len(members) > 0 {
		return nil, drive.Bad(name, drive.NotAllowed, "allowed", known)
	}
	return list, nil
}

// parseByteDictionary reads a Dictionary of Byte Sequences (RFC 9651 §4.2.2, §4.2.7), the only form
// that RFC 9530 defines for its fields. Parameters and other types are refused; of a key that comes
// twice the last value holds.
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

// cutKey cuts `key=` off s.
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

// cutColons cuts `:value:` off s.
func cutColons(s string) (value, rest string, ok bool) {
	if s, ok = strings.CutPrefix(s, ":"); !ok {
		return "", "", false
	}
	return strings.Cut(s, ":")
}

// decodeBase64 takes what RFC 9651 §4.2.7 takes: the padding may be absent and its bits need not be
// zero. The line breaks that encoding/base64 would skip are refused.
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
