package zipline

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestManifestRoundTrip(t *testing.T) {
	t.Parallel()
	s, entries := mixed()
	back, err := Decode(Encode(entries))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(entries, back); diff != "" {
		t.Errorf("-frozen +thawed:\n%s", diff)
	}
	a, b := mustLayout(t, entries), mustLayout(t, back)
	if a.ETag() != b.ETag() || !bytes.Equal(mustRead(t, a, s, 0, a.Size(), Options{}), mustRead(t, b, s, 0, b.Size(), Options{})) {
		t.Error("the archive of the thawed manifest is another one")
	}
}

func TestDamagedManifest(t *testing.T) {
	t.Parallel()
	_, entries := mixed()
	good := Encode(entries)
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 0x10
		if _, err := Decode(bad); err == nil {
			t.Fatalf("a flipped bit in byte %d went unseen", i)
		}
		if _, err := Decode(good[:i]); err == nil {
			t.Fatalf("the first %d bytes went as a whole", i)
		}
	}
	huge := binary.AppendUvarint([]byte(manifestMagic), 1<<60)
	if _, err := Decode(binary.LittleEndian.AppendUint32(huge, crc32.ChecksumIEEE(huge))); err == nil {
		t.Error("1<<60 entries in a few bytes")
	}
}

// FuzzDecode adds the right checksum to its input, which would otherwise be refused at once.
func FuzzDecode(f *testing.F) {
	_, entries := mixed()
	for n := range 8 {
		b := Encode(entries[:n])
		f.Add(b[len(manifestMagic) : len(b)-4])
	}
	f.Add([]byte("\x01\x01a\x00\x80\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, body []byte) {
		b := append([]byte(manifestMagic), body...)
		b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
		entries, err := Decode(b)
		if err != nil {
			return
		}
		if again := Encode(entries); !bytes.Equal(again, b) {
			t.Errorf("%x is also written as %x", b, again)
		}
		if a, err := Layout(entries); err == nil && a.Size() < 22 {
			t.Errorf("an archive of %d bytes", a.Size())
		}
	})
}
