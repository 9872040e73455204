package s3

import (
	"bytes"
	"strings"
	"testing"

	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/blobtest"
)

func examples() []entry {
	var all []entry
	for n, etag := range []string{"d41d8cd98f00b204e9800998ecf8427e", "", "D41D8CD98F00B204E9800998ECF8427E", strings.Repeat("e", maxETag), "x-7"} {
		e := entry{Part: blob.Part{N: n, Size: 5, CRC32: 7, Session: blobtest.Session}, gen: 3, time: blobtest.Begun, etag: etag}
		e.CV[0] = byte(n)
		if n == 0 {
			e.Root[31] = 1
		}
		e.Unread = n == 1
		all = append(all, e)
	}
	return all
}

func TestEntryRoundTrip(t *testing.T) {
	t.Parallel()
	for _, want := range examples() {
		got, err := decodeEntry(want.encode())
		if err != nil || got != want {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	newer := examples()[0].encode()
	newer[0]++
	if _, err := decodeEntry(newer); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("a newer entry: %v", err)
	}
}

// FuzzDecodeEntry checks that every input is rejected or encodes to the same bytes.
func FuzzDecodeEntry(f *testing.F) {
	for _, e := range examples() {
		f.Add(e.encode())
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decodeEntry(b)
		if err == nil && !bytes.Equal(e.encode(), b) {
			t.Errorf("%x is read as %+v, written as %x", b, e, e.encode())
		}
	})
}
