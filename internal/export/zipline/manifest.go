package zipline

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"unicode/utf8"

	"example.org/smartdrive/internal/base/drive"
)

// The frozen manifest:
//
//	"SDZM" 1            magic and version
//	count               uvarint
//	count times:
//	  name              uvarint length, bytes
//	  kind              1 byte: 0 nothing, 1 Blob, 2 Inline
//	  size              uvarint, bytes
//	  crc32             4 bytes, little endian
//	  time              varint, Unix milliseconds
//	  blob or inline    uvarint length, bytes; not with kind 0
//	crc32               4 bytes, little endian, of everything before
//
// Each manifest has exactly one encoding: varints are minimal. The ETag is computed from these
// bytes.
const manifestMagic = "SDZM\x01"

const (
	// kindNone is an entry without content.
	kindNone = iota
	// kindBlob is an entry whose content is in the store.
	kindBlob
	// kindInline is an entry whose content is in the manifest itself.
	kindInline
)

// minEntryBytes is the length of the shortest encoded entry. It limits the allocation of Decode for
// a given count.
const minEntryBytes = 1 + 1 + 1 + 4 + 1

// errManifest reports a manifest that Encode did not write.
var errManifest = errors.New("damaged manifest")

// Encode returns the frozen manifest, as stored when a batch is sealed.
func Encode(entries []Entry) []byte {
	b := make([]byte, 0, 16+64*len(entries))
	b = append(b, manifestMagic...)
	b = binary.AppendUvarint(b, uint64(len(entries)))
	for i := range entries {
		b = appendEntry(b, &entries[i])
	}
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// appendEntry appends the encoded entry to b and returns the extended slice.
func appendEntry(b []byte, e *Entry) []byte {
	b = appendBytes(b, e.Name)
	b = append(b, e.kind())
	b = binary.AppendUvarint(b, uint64(e.Size))
	b = binary.LittleEndian.AppendUint32(b, e.CRC32)
	b = binary.AppendVarint(b, int64(e.Time))
	switch e.kind() {
	case kindBlob:
		b = appendBytes(b, e.Blob)
	case kindInline:
		b = appendBytes(b, e.Inline)
	}
	return b
}

// appendBytes appends the length of s as a uvarint, and s, to b and returns the extended slice.
func appendBytes[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// kind returns the encoded kind of the entry.
func (e *Entry) kind() byte {
	switch {
	case e.Blob != "":
		return kindBlob
	case len(e.Inline) > 0:
		return kindInline
	}
	return kindNone
}

// Decode decodes a manifest. Any bytes that Encode did not write are an error.
func Decode(b []byte) ([]Entry, error) {
	if len(b) < len(manifestMagic)+5 || string(b[:len(manifestMagic)]) != manifestMagic {
		return nil, fmt.Errorf("%w: no manifest of this version", errManifest)
	}
	body := b[:len(b)-4]
	if binary.LittleEndian.Uint32(b[len(body):]) != crc32.ChecksumIEEE(body) {
		return nil, fmt.Errorf("%w: checksum", errManifest)
	}
	d := decoder{b: body[len(manifestMagic):], text: string(body)}
	count := d.uvarint()
	if count > uint64(len(d.b)/minEntryBytes) {
		return nil, fmt.Errorf("%w: %d entries in %d bytes", errManifest, count, len(d.b))
	}
	entries := make([]Entry, count)
	for i := range entries {
		d.entry(&entries[i])
	}
	if d.bad || len(d.b) > 0 {
		return nil, fmt.Errorf("%w: entries", errManifest)
	}
	return entries, nil
}

// decoder consumes b. After an error, bad stays set and all reads return zero values.
type decoder struct {
	b    []byte
	text string // string ending with b: all names share its memory
	bad  bool
}

// fail marks the input as invalid and drops the rest of it; later reads return zero values.
func (d *decoder) fail() {
	d.b, d.bad = nil, true
}

// entry decodes the next entry into e, or marks the input as invalid.
func (d *decoder) entry(e *Entry) {
	e.Name = d.string()
	kind := d.next(1)[0]
	e.Size = drive.ByteSize(d.uvarint())
	e.CRC32 = binary.LittleEndian.Uint32(d.next(4))
	e.Time = drive.Time(d.varint())
	switch kind {
	case kindBlob:
		e.Blob = d.string()
	case kindInline:
		e.Inline = append([]byte(nil), d.bytes()...)
	}
	if kind != e.kind() || e.Size < 0 || !utf8.ValidString(e.Name) {
		d.fail()
	}
}

// next returns the next n bytes, or up to 4 zero bytes if the input is invalid.
func (d *decoder) next(n int) []byte {
	if n > len(d.b) {
		d.fail()
		return make([]byte, min(n, 4))
	}
	p := d.b[:n]
	d.b = d.b[n:]
	return p
}

// bytes decodes a length and as many bytes, which alias b.
func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	return d.next(int(n))
}

// string is like bytes and returns a substring of text.
func (d *decoder) string() string {
	n := len(d.bytes())
	end := len(d.text) - len(d.b)
	return d.text[end-n : end]
}

// uvarint decodes a minimal unsigned varint.
func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	d.skip(n)
	return v
}

// varint decodes a minimal signed varint.
func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	d.skip(n)
	return v
}

// skip consumes a varint of n bytes, which must be minimal.
func (d *decoder) skip(n int) {
	if n <= 0 || n > 1 && d.b[n-1] == 0 {
		d.fail()
		return
	}
	d.b = d.b[n:]
}
