package syntax

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash"

	"smartdrive/internal/intake/invoice/xmlscan"
)

// embedded reads an embedded file without keeping it.
func (b *builder) embedded(s *xmlscan.Scanner, n *node) error {
	b.ref.embedded = true
	into := unbase64{sum: sha256.New()}
	if err := s.ReadAll(&into); err != nil {
		return err
	}
	if err := into.close(); err != nil {
		return err
	}
	if into.size > 0 {
		b.ref.attachment.Size = into.size
		b.ref.attachment.SHA256 = hex.EncodeToString(into.sum.Sum(nil))
	}
	return b.close(n)
}

// unbase64 hashes what base64 stands for. Spaces between groups are allowed.
type unbase64 struct {
	sum   hash.Hash
	size  int64
	group [4]byte
	n     int
	ended bool // the last group was padded
	buf   []byte
}

func (u *unbase64) Write(text []byte) (int, error) {
	u.buf = u.buf[:0]
	for _, c := range text {
		if c <= ' ' {
			continue
		}
		u.group[u.n] = c
		if u.n++; u.n == 4 {
			if err := u.decode(); err != nil {
				return 0, err
			}
		}
	}
	u.size += int64(len(u.buf))
	u.sum.Write(u.buf)
	return len(text), nil
}

func (u *unbase64) decode() error {
	u.n = 0
	if u.ended {
		return errBase64()
	}
	var out [3]byte
	n, err := base64.StdEncoding.Decode(out[:], u.group[:])
	if err != nil {
		return errBase64()
	}
	u.ended = n < 3
	u.buf = append(u.buf, out[:n]...)
	return nil
}

func errBase64() error { return &Error{Kind: BadValue, Text: "an embedded file is not valid base64"} }

func (u *unbase64) close() error {
	if u.n != 0 {
		return errBase64()
	}
	return nil
}
