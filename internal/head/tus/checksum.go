package tus

import (
	"fmt"
	"net/http"
	"strings"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
)

const checksumHeader = "Upload-Checksum"

// checksums are the algorithms of Upload-Checksum by their names there.
var checksums = map[string]digest.FieldAlgo{
	"sha1": digest.FieldSHA1, "md5": digest.FieldMD5, "sha256": digest.FieldSHA256, "crc32": digest.FieldCRC32,
}

// checksumNames is the Tus-Checksum-Algorithm header.
const checksumNames = "sha1,md5,sha256,crc32"

// parseChecksum reads Upload-Checksum (tus 1.0.0 §Upload-Checksum): the name of an algorithm, a
// space, the checksum in base64. An unknown algorithm is a BadRequest.
func parseChecksum(s string) (digest.FieldDigest, error) {
	name, encoded, _ := strings.Cut(s, " ")
	algo, ok := checksums[name]
	if !ok {
		return digest.FieldDigest{}, drive.Bad(checksumHeader, drive.NotAllowed, "allowed", strings.Split(checksumNames, ","))
	}
	value, err := decodeBase64(encoded)
	if err != nil || len(value) != algo.Size() {
		return digest.FieldDigest{}, drive.Bad(checksumHeader, drive.Malformed, "expected", fmt.Sprintf("%s, a space, and %d bytes in base64", name, algo.Size()))
	}
	return digest.FieldDigest{Algo: algo, Value: value}, nil
}

// verifier is of what the request declares about its body, in its header or in its trailer; nil:
// nothing.
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
	// Which algorithm it will be is known only at the end.
	algos := []digest.FieldAlgo{digest.FieldSHA1, digest.FieldMD5, digest.FieldSHA256, digest.FieldCRC32}
	return digest.NewLateVerifier(algos, func() ([]digest.FieldDigest, error) {
		declared, err := parseChecksum(strings.Join(r.Trailer.Values(checksumHeader), ", "))
		if err != nil {
			return nil, err
		}
		return []digest.FieldDigest{declared}, nil
	}), nil
}
