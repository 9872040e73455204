package digest

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"

	"lukechampine.com/blake3"

	"example.org/smartdrive/internal/base/drive"
)

// ProofAlgo is the keyed hash in the answer to a challenge.
type ProofAlgo string

// The keyed hashes. Both use the nonce as key and return 32 bytes.
const (
	ProofHMAC   ProofAlgo = "hmac-sha256" // RFC 2104
	ProofBlake3 ProofAlgo = "blake3"      // keyed BLAKE3, §2.3 of its paper
)

// ParseProofAlgo parses the `alg` of a proof. The error is a BadRequest.
func ParseProofAlgo(s string) (ProofAlgo, error) {
	switch a := ProofAlgo(s); a {
	case ProofHMAC, ProofBlake3:
		return a, nil
	}
	return "", drive.BadField("alg", drive.NotAllowed, "allowed", []ProofAlgo{ProofHMAC, ProofBlake3}, "sent", s)
}

// keyed returns a new hash with nonce as its key: HMAC-SHA-256 or keyed BLAKE3. It fails for an
// unknown algorithm.
func (a ProofAlgo) keyed(nonce Nonce) (hash.Hash, error) {
	switch a {
	case ProofHMAC:
		return hmac.New(sha256.New, nonce[:]), nil
	case ProofBlake3:
		return blake3.New(Size, nonce[:]), nil
	}
	return nil, fmt.Errorf("no proof algorithm %q", string(a))
}

// Answer returns the correct answer to challenge c for the content in src: the keyed hash over, for
// each range in order,
//
//	uint64le(offset) | uint32le(length) | the bytes
//
// Offset and length are included so that the answer for one choice of ranges does not fit another.
func Answer(ctx context.Context, src io.ReaderAt, c Challenge, algo ProofAlgo) ([]byte, error) {
	h, err := algo.keyed(c.Nonce)
	if err != nil {
		return nil, err
	}
	buf := make([]byte, min(readBuffer, longest(c.Ranges)))
	hashBytes := func(b []byte) error {
		_, err := h.Write(b)
		return err
	}
	for _, r := range c.Ranges {
		var head [12]byte
		binary.LittleEndian.PutUint64(head[:8], uint64(r.Offset))
		binary.LittleEndian.PutUint32(head[8:], r.Length)
		if err := hashBytes(head[:]); err != nil {
			return nil, err
		}
		if err := readRange(ctx, src, r.Offset, int64(r.Length), buf, hashBytes); err != nil {
			return nil, fmt.Errorf("answer challenge: %w", err)
		}
	}
	return h.Sum(nil), nil
}

// EqualAnswers compares two answers in constant time.
func EqualAnswers(right, sent []byte) bool { return hmac.Equal(right, sent) }

// longest returns the length in bytes of the longest range; 0 for none.
func longest(ranges []Range) (n int64) {
	for _, r := range ranges {
		n = max(n, int64(r.Length))
	}
	return n
}
