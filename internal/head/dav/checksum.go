package dav

import (
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strings"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
)

// ocChecksum is the header by which clients of ownCloud and Nextcloud declare the digest of what
// they send: "SHA1:" and hex digits, and perhaps more of them behind spaces.
const ocChecksum = "OC-Checksum"

// Checksums reads OC-Checksum. Algorithms that nothing here computes are left out.
func Checksums(h http.Header) ([]digest.FieldDigest, error) {
	var all []digest.FieldDigest
	for text := range strings.FieldsSeq(h.Get(ocChecksum)) {
		name, value, _ := strings.Cut(text, ":")
		var algo digest.FieldAlgo
		switch strings.ToUpper(name) {
		case "SHA1":
			algo = digest.FieldSHA1
		case "MD5":
			algo = digest.FieldMD5
		case "SHA256":
			algo = digest.FieldSHA256
		default:
			continue
		}
		sum, err := hex.DecodeString(value)
		if err != nil || len(sum) != algo.Size() {
			return nil, drive.Wrap(err, drive.BadRequest, "field", ocChecksum, "reason", string(drive.Malformed), "expected", "an algorithm, a colon, and hex digits")
		}
		all = append(all, digest.FieldDigest{Algo: algo, Value: sum})
	}
	return all, nil
}

// Summed is a body of so many bytes that must have the digests that were declared: its last bytes
// are not handed on unless it has.
func Summed(body io.Reader, size int64, declared []digest.FieldDigest) io.Reader {
	return &summed{Reader: body, left: size, verify: digest.NewVerifier(declared)}
}

// summed is a body that must have the digests that were declared. Its last bytes are not handed on
// unless it has, so that nobody takes it for whole.
type summed struct {
	io.Reader

	left   int64 // below zero: the length is not known
	verify *digest.Verifier
}

func (s *summed) Read(buf []byte) (int, error) {
	n, err := s.Reader.Read(buf)
	_, _ = s.verify.Write(buf[:n]) // it does not fail
	known := s.left >= 0
	if known {
		s.left -= int64(n)
	}
	if errors.Is(err, io.EOF) || known && s.left == 0 && n > 0 {
		if bad := s.verify.Verify(); bad != nil {
			return 0, bad
		}
	}
	return n, err
}
