package zipline

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"unicode/utf8"

	"smartdrive/internal/base/drive"
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
// There is one encoding of a manifest: numbers are as short as they can be. The ETag is made from
// these bytes.
const manifestMagic = "SDZM\x01"

const (
	kindNothing = iota
	kindBlob
	kindInline
)

// minEntryBytes is the shortest encoding of an entry: it bounds what a count may make Decode
// allocate.
const minEntryBytes = 1 + 1 + 1 + 4 + 1

// errManifest is a manifest that Encode did not write.
var errManifest = errors.New("damaged manifest")

// Encode returns the frozen form of a manifest: what is kept at seal.
func Encode(entries []Entry) []byte {
	b := make([]byte, 0, 16+64*len(entries))
	b = append(b, manifestMagic...)
	b = binary.AppendUvarint(b, uint64(len(entries)))
	for i := range entries {
		b = appendEntry(b, &entries[i])
	}
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

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

func appendBytes[T string | []byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func (e *Entry) kind() byte {
	switch {
	case e.Blob != "":
		return kindBlob
	case len(e.Inline) > 0:
		return kindInline
	}
	return kindNothing
}

// Decode reads what Encode wrote; anything else is an error.
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

// decoder takes from b. Once something was wrong, bad stays set and everything is zero.
type decoder struct {
	b    []byte
	text string // what b is the end of: all names share it
	bad  bool
}

func (d *decoder) fail() {
	d.b, d.bad = nil, true
}

func (d *decoder) entry(e *Entry) {
	e.Name = d.string()
	kind := d.take(1)[0]
	e.Size = drive.ByteSize(d.uvarint())
	e.CRC32 = binary.LittleEndian.Uint32(d.take(4))
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

// take returns the next n bytes, or as many zeros.
func (d *decoder) take(n int) []byte {
	if n > len(d.b) {
		d.fail()
		return make([]byte, min(n, 4))
	}
	p := d.b[:n]
	d.b = d.b[n:]
	return p
}

func (d *decoder) bytes() []byte {
	n := d.uvarint()
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	return d.take(int(n))
}

func (d *decoder) string() string {
	n := len(d.bytes())
	end := len(d.text) - len(d.b)
	return d.text[end-n : end]
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	d.skip(n)
	return v
}

func (d *decoder) varint() int64 {
	v, n := binary.Varint(d.b)
	d.skip(n)
	return v
}

// skip goes over a number of n bytes, which must not be written with more than it needs.
func (d *decoder) skip(n int) {
	if n <= 0 || n > 1 && d.b[n-1] == 0 {
		d.fail()
		return
	}
	d.b = d.b[n:]
}
