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

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/server"
)

// progressReporter sends interim responses (status 104) with the Upload-Offset while a long body
// arrives (§4.2.1, §4.4.1). The bytes before that offset are durable, so the client may discard
// them.
type progressReporter struct {
	c     *call
	begun time.Time
	next  time.Time
}

// firstProgress is the time from the beginning until the first interim response, and the shortest
// pause between two. Later pauses are at least the elapsed time divided by progressShare: many
// clients read no response before they have sent everything, and the unread ones must fit into
// their socket buffer (300 in a day, about 200 bytes each).
const (
	firstProgress = time.Second
	progressShare = 32
)

// progress returns a function that reports the offset to the client; the upload calls it each time
// further bytes are durable. It returns nil if the client does not support interim responses.
func (c *call) progress() func(drive.ByteSize) {
	if !supportsDraft(c.r) || !c.r.ProtoAtLeast(1, 1) {
		return nil
	}
	now := c.Now()
	return (&progressReporter{c: c, begun: now, next: now.Add(firstProgress)}).send
}

// send sends an interim response with the offset; it does nothing if the last one is too recent.
func (p *progressReporter) send(offset drive.ByteSize) {
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

// wantsDigest reports whether the client asks for the file's SHA-256 (Want-Repr-Digest, RFC 9530
// §4): a dictionary from algorithms to preferences from 0 to 10.
func wantsDigest(h http.Header) bool {
	wanted := false
	for member := range strings.SplitSeq(server.JoinHeader(h, "Want-Repr-Digest"), ",") {
		name, value, _ := strings.Cut(strings.Trim(member, " \t"), "=")
		if name != "sha-256" {
			continue
		}
		n, err := strconv.Atoi(value)
		wanted = err == nil && n > 0 && n <= 10 // the last duplicate counts (RFC 9651 §4.2.2)
	}
	return wanted
}

// hashingBody is the body of a request that brings a whole file; it computes the SHA-256 while it
// is read.
type hashingBody struct {
	io.ReadCloser
	sum hash.Hash
}

// Read adds the bytes that it returns to sum.
func (h *hashingBody) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	_, _ = h.sum.Write(p[:n])
	return n, err
}

// body returns the body of the request. whole says that the body is the whole file. If the client
// then wants the file's digest, c.sum is set and hashes the bytes as they are read, because reading
// the file again would double the work.
func (c *call) body(whole bool) io.ReadCloser {
	in := server.RequestBody(c.r)
	if !whole || !wantsDigest(c.r.Header) {
		return in
	}
	c.sum = sha256.New()
	return &hashingBody{in, c.sum}
}

// setDigest adds the SHA-256 of the file (Repr-Digest) to the response if c.sum is set. The body
// must have been read completely.
func (c *call) setDigest() {
	if c.sum != nil {
		c.w.Header().Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(c.sum.Sum(nil))+":")
	}
}
