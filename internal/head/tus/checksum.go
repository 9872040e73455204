package tus

import (
	"fmt"
	"net/http"
	"strings"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
)

// checksumHeader carries algorithm and base64 checksum of a request's bytes.
const checksumHeader = "Upload-Checksum"

// checksums maps the algorithm names of Upload-Checksum to digests.
var checksums = map[string]digest.FieldAlgo{
	"sha1": digest.FieldSHA1, "md5": digest.FieldMD5, "sha256": digest.FieldSHA256, "crc32": digest.FieldCRC32,
}

// checksumNames is the value of Tus-Checksum-Algorithm.
const checksumNames = "sha1,md5,sha256,crc32"

// parseChecksum parses Upload-Checksum (tus 1.0.0 §Upload-Checksum): an algorithm name, a space,
// and the checksum in base64. BadRequest if it is malformed or the algorithm is unknown.
func parseChecksum(s string) (digest.FieldDigest, error) {
	name, encoded, _ := strings.Cut(s, " ")
	algo, ok := checksums[name]
	if !ok {
		return digest.FieldDigest{}, drive.BadField(checksumHeader, drive.NotAllowed, "allowed", strings.Split(checksumNames, ","))
	}
	value, err := decodeBase64(encoded)
	if err != nil || len(value) != algo.Size() {
		return digest.FieldDigest{}, drive.BadField(checksumHeader, drive.Malformed, "expected", fmt.Sprintf("%s, a space, and %d bytes in base64", name, algo.Size()))
	}
	return digest.FieldDigest{Algo: algo, Value: value}, nil
}

// verifier returns a verifier of the checksum of the body, which the request declares in its header
// or trailer; nil if it declares none. For a trailer, a malformed checksum is reported only when
// the verifier is used.
func verifier(r *http.Request) (*digest.Verifier, error) {
	if lines := r.Header.Values(checksumHeader); len(lines) > 0 {
		declared, err := parseChecksum(strings.Join(lines, ", "))
		if err != nil {
			return nil, err
		}
		return digest.NewVerifier([]digest.FieldDigest{declared}), nil
	}
	if _, announced := r.Trailer[checksumHeader]; !announced {
		return nil, nil
	}
	// A trailer names its algorithm only at the end, so all are computed.
	algos := []digest.FieldAlgo{digest.FieldSHA1, digest.FieldMD5, digest.FieldSHA256, digest.FieldCRC32}
	return digest.NewLateVerifier(algos, func() ([]digest.FieldDigest, error) {
		declared, err := parseChecksum(strings.Join(r.Trailer.Values(checksumHeader), ", "))
		if err != nil {
			return nil, err
		}
		return []digest.FieldDigest{declared}, nil
	}), nil
}
