package dav

import (
	"context"
	"encoding/hex"
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

// Declared reads OC-Checksum of a whole file. The digests are verified before the file is there,
// and kept with its content. Of one algorithm the last counts.
func Declared(h http.Header) (digest.Set, error) {
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
		case digest.FieldCRC32, digest.FieldCRC32C: // Checksums reads none
		}
	}
	return set, err
}

// giveChecksum is PATCH with X-Recalculate-Hash, by which clients of Nextcloud ask for the digest
// of a file after they have set its time. A content never changes, so the digest that was verified
// is the answer. Where none was, nothing is computed, and PATCH is not allowed.
func (c *call) giveChecksum(ctx context.Context) error {
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
	return c.made(false)
}
