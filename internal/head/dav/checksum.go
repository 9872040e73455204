package dav

import (
	"context"
	"encoding/hex"
	"net/http"
	"strings"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
)

// ocChecksum is the header by which clients of ownCloud and Nextcloud declare the digests of a
// body: "SHA1:" and hex digits, several separated by spaces.
const ocChecksum = "OC-Checksum"

// Checksums parses OC-Checksum and skips unknown algorithms. It returns nil if the header is
// absent. It fails with drive.BadRequest for a digest that is not hexadecimal or has the wrong
// length.
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

// DeclaredDigests parses OC-Checksum, the digests of a whole file, for an upload to verify. If an
// algorithm occurs twice, the last digest counts. Without the header the set is empty. It fails
// with drive.BadRequest for a malformed header.
func DeclaredDigests(h http.Header) (digest.Set, error) {
	all, err := Checksums(h)
	set := digest.Set{}
	for _, d := range all {
		switch d.Algo {
		case digest.FieldSHA256:
			set[digest.SHA256] = d.Value
		case digest.FieldSHA1:
			set[digest.SHA1] = d.Value
		case digest.FieldMD5:
			set[digest.MD5] = d.Value
		case digest.FieldCRC32, digest.FieldCRC32C: // Checksums returns none
		}
	}
	return set, err
}

// patchChecksum handles PATCH with X-Recalculate-Hash, by which Nextcloud clients ask for the
// digest of a file after they have set its time. It returns the verified digest of the content.
// Without one it computes nothing and answers 405.
func (c *call) patchChecksum(ctx context.Context) error {
	algo := digest.Algo(strings.ToLower(c.r.Header.Get("X-Recalculate-Hash")))
	if !c.view.Sabre || algo != digest.SHA1 && algo != digest.MD5 && algo != digest.SHA256 {
		return notAllowed(c.r.Method)
	}
	e, err := c.find(ctx, c.at)
	if err != nil {
		return err
	}
	sum := e.Digests[string(algo)]
	if sum == "" {
		return notAllowed(c.r.Method)
	}
	c.w.Header()[ocChecksum] = []string{strings.ToUpper(string(algo)) + ":" + sum}
	return c.respondChanged(false)
}
