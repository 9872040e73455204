package rest

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"runtime"
	"strings"
)

// Answers in JSON are sent compressed where that is worth it: a page of 1,000 files is 474 KB of
// JSON and 89 KB as gzip. Never compressed are
//
//   - contents and pictures, which are not JSON and mostly compressed already;
//   - answers that hold a secret (route.secret: links, codes, tokens). Names in the same answer are
//     chosen by others, and the length of a compressed answer would tell how much a guess in a name
//     has in common with the secret (BREACH, 2013);
//   - answers that a browser asks for in the name of another site, whatever is in them;
//   - answers with an ETag, which stands for these bytes and no others (RFC 9110 §8.8.3.3).
const (
	smallestZipped = 1400    // bytes: less fits into one packet as it is
	mostPackers    = 4       // a packer holds some 800 KB
	packedGuess    = 1 << 14 // bytes, to begin with
)

// packers compress answers. When all of them are busy an answer goes out as it is: nobody waits.
type packers chan *gzip.Writer

func newPackers() packers {
	n := min(mostPackers, runtime.NumCPU())
	p := make(packers, n)
	for range n {
		p <- nil // made when it is used first
	}
	return p
}

// packed returns raw as it is sent, and says in h that it is compressed if it is. Where no packer
// is free or nothing is gained it is not.
func (p packers) packed(raw []byte, h http.Header) []byte {
	h.Add("Vary", "Accept-Encoding")
	z := p.pack(raw)
	if z == nil {
		return raw
	}
	h.Set("Content-Encoding", "gzip")
	return z
}

func (p packers) pack(raw []byte) []byte {
	var z *gzip.Writer
	select {
	case z = <-p:
	default:
		return nil
	}
	defer func() { p <- z }()
	b := bytes.NewBuffer(make([]byte, 0, packedGuess))
	if z == nil {
		z, _ = gzip.NewWriterLevel(b, gzip.BestSpeed) // the level is a valid one
	} else {
		z.Reset(b)
	}
	_, err := z.Write(raw)
	if err != nil || z.Close() != nil || b.Len() >= len(raw) { // a buffer takes everything
		return nil
	}
	return b.Bytes()
}

// mayPack reports whether the answer may be sent compressed.
func (c *call) mayPack(size int) bool {
	if c.r.Method != http.MethodGet || c.route.secret || size < smallestZipped || c.w.Header().Get("ETag") != "" {
		return false
	}
	switch c.r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin": // a program; an address that was typed; a page of ours
	default:
		return false
	}
	return acceptsGzip(c.r.Header.Values("Accept-Encoding"))
}

// acceptsGzip reads Accept-Encoding (RFC 9110 §12.5.3); a weight of nothing but zeros refuses.
func acceptsGzip(lines []string) bool {
	for one := range strings.SplitSeq(strings.Join(lines, ","), ",") {
		coding, weight, _ := strings.Cut(one, ";")
		if !strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			continue
		}
		q, weighed := strings.CutPrefix(strings.TrimSpace(weight), "q=")
		return !weighed || strings.Trim(q, "0.") != ""
	}
	return false
}
