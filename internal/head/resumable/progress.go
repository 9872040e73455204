package resumable

import (
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/head/server"
)

// progress tells a client that waits how far its long body has come, by interim responses with an
// Upload-Offset (§4.2.1, §4.4.1): what it holds for a resumption before that may be forgotten.
type progress struct {
	c     *call
	begun time.Time
	next  time.Time
}

// firstProgress is after how long there is one. The pauses then grow with the time that has passed,
// so that a client that reads nothing before it has sent everything, as many do, has no more of
// them waiting than its socket takes: 300 in a day, of some 200 bytes each.
const (
	firstProgress = time.Second
	progressShare = 32
)

// progress returns what is told of each part that is kept; nil: the client does not know of these
// responses.
func (c *call) progress() func(drive.ByteSize) {
	if !speaks(c.r) || !c.r.ProtoAtLeast(1, 1) {
		return nil
	}
	now := c.Now()
	return (&progress{c: c, begun: now, next: now.Add(firstProgress)}).kept
}

func (p *progress) kept(offset drive.ByteSize) {
	now := p.c.Now()
	if now.Before(p.next) {
		return
	}
	p.next = now.Add(max(firstProgress, now.Sub(p.begun)/progressShare))
	h := p.c.w.Header()
	h.Set(offsetField, formatInteger(offset))
	p.c.w.WriteHeader(statusResumable)
	h.Del(offsetField)
}

// wantsDigest reports whether the client would like to know the SHA-256 of the whole
// (Want-Repr-Digest, RFC 9530 §4): it is a dictionary of algorithms and how much each is wanted,
// from 0 to 10.
func wantsDigest(h http.Header) bool {
	wanted := false
	for member := range strings.SplitSeq(server.Joined(h, "Want-Repr-Digest"), ",") {
		name, value, _ := strings.Cut(strings.Trim(member, " \t"), "=")
		if name != "sha-256" {
			continue
		}
		n, err := strconv.Atoi(value)
		wanted = err == nil && n > 0 && n <= 10 // the last of several counts (RFC 9651 §4.2.2)
	}
	return wanted
}

// hashed is the body of a request that brings all of a file, and hashes it on the way.
type hashed struct {
	io.ReadCloser
	sum hash.Hash
}

func (b *hashed) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	_, _ = b.sum.Write(p[:n])
	return n, err
}

// body is what the request brings. Where it brings all of a file, and its digest is wanted, it is
// known at the end: to read the file for that alone would double the work.
func (c *call) body(whole bool) io.ReadCloser {
	in := server.Incoming(c.r)
	if !whole || !wantsDigest(c.r.Header) {
		return in
	}
	c.sum = sha256.New()
	return &hashed{in, c.sum}
}

// setDigest says the digest of the file in the answer to the request that has brought it.
func (c *call) setDigest() {
	if c.sum != nil {
		c.w.Header().Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(c.sum.Sum(nil))+":")
	}
}
