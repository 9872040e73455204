package rest

import (
	"bytes"
	"compress/gzip"
	"testing"
)

// While all compressors are busy, a response is sent uncompressed. A free compressor is used again.
func TestCompressionNeverWaits(t *testing.T) {
	t.Parallel()
	p, raw := newCompressors(), bytes.Repeat([]byte("the same again and again "), 1000)
	for range 2 { // one that is new, and one that was used before
		if z := p.gzip(raw); len(z) == 0 || len(z) > len(raw)/10 {
			t.Fatalf("%d bytes of %d", len(z), len(raw))
		}
	}
	var busy []*gzip.Writer
	for range cap(p) {
		busy = append(busy, <-p)
	}
	if z := p.gzip(raw); z != nil {
		t.Errorf("%d bytes from a packer that is busy", len(z))
	}
	for _, one := range busy {
		p <- one
	}
	if z := p.gzip(raw); z == nil {
		t.Error("nothing when they are free again")
	}
}
