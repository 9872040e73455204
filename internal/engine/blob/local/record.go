package local

import (
	"encoding/binary"
	"errors"
	"fmt"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
)

// formatVersion is the journal format that this program writes, and the newest it reads.
const formatVersion = 1

// sinceFirst is the "since" field of all kinds below: the version that introduced them. A kind
// added later carries its own version, so that an older program can report it.
const sinceFirst = 1

// magic is the first field of the header frame's payload and identifies a journal file.
const magic = "SDJOURNL"

// kind is the second field of a frame. The numbers are part of the format: append, never reorder.
type kind uint8

const (
	kindHeader   kind = iota + 1 // identity and shape of the upload; the first frame
	kindPart                     // an accepted part
	kindDrop                     // a part or tail was removed
	kindFence                    // generations up to gen are refused
	kindBoot                     // the boot under which the next frames are written
	kindSynced                   // all bytes accepted so far are durable
	kindVerified                 // no part is suspect anymore
	kindDoubt                    // parts are suspect; flags is the reason
	kindTail                     // an accepted tail
)

// Flags of a part or tail record.
const (
	flagDurable = 1 << iota // the bytes were on disk before the record was written
	flagRoot                // a root follows the chaining value
)

// Reasons of a doubt record, for people who inspect a journal.
const (
	doubtCut  = 1 // bytes after the last whole frame were cut off
	doubtSync = 2 // a sync failed
	doubtKept = 3 // an older doubt, in a rewritten journal
)

// Sizes in bytes.
const (
	frameHead = 2 + 1 + 1     // size, kind and since
	frameOver = frameHead + 4 // frameHead and the CRC
	headerLen = 8 + 2 + 16 + 8 + 8 + 8 + 16
	partLen   = 4 + 1 + 8 + 8 + 4 + 8 + 16 + digest.Size // part or tail, without root
)

// record is a decoded frame. The kind determines which fields are used.
type record struct {
	kind    kind
	n       int
	flags   byte // flags of a part or tail, reason of a doubt
	gen     int64
	size    drive.ByteSize
	crc32   uint32
	time    drive.Time
	session [16]byte
	cv      digest.CV
	root    digest.Sum

	id       [16]byte       // upload id; header only
	boot     [16]byte       // header and boot only
	begun    drive.Time     // header only
	partSize drive.ByteSize // header only
}

// errDamaged reports a whole frame with content that this program never writes.
var errDamaged = errors.New("journal is damaged")

// append appends the frame of r, with length and checksum, to b and returns the extended slice.
func (r record) append(b []byte) []byte {
	start := len(b)
	b = append(b, 0, 0, byte(r.kind), sinceFirst)
	b = r.appendPayload(b)
	binary.LittleEndian.PutUint16(b[start:], uint16(len(b)-start-frameHead))
	return binary.LittleEndian.AppendUint32(b, digest.CRC32C(b[start:]))
}

// appendPayload appends the payload of r, whose fields depend on r.kind, to b and returns the
// extended slice. It adds neither length nor checksum; integers are little-endian.
func (r record) appendPayload(b []byte) []byte {
	le := binary.LittleEndian
	switch r.kind {
	case kindHeader:
		b = append(b, magic...)
		b = le.AppendUint16(b, formatVersion)
		b = append(b, r.id[:]...)
		b = le.AppendUint64(b, uint64(r.begun))
		b = le.AppendUint64(b, uint64(r.partSize))
		b = le.AppendUint64(b, uint64(r.size))
		b = append(b, r.boot[:]...)
	case kindPart:
		b = le.AppendUint32(b, uint32(r.n))
		b = append(b, r.flags)
		b = le.AppendUint64(b, uint64(r.gen))
		b = le.AppendUint64(b, uint64(r.size))
		b = r.appendSums(b)
	case kindDrop:
		b = le.AppendUint32(b, uint32(r.n))
		b = le.AppendUint64(b, uint64(r.gen))
	case kindFence:
		b = le.AppendUint64(b, uint64(r.gen))
	case kindBoot:
		b = append(b, r.boot[:]...)
	case kindDoubt:
		b = append(b, r.flags)
	case kindTail:
		b = le.AppendUint32(b, uint32(r.n))
		b = le.AppendUint64(b, uint64(r.size))
		b = append(b, r.flags)
		b = le.AppendUint64(b, uint64(r.gen))
		b = r.appendSums(b)
	case kindSynced, kindVerified: // no payload
	}
	return b
}

// appendSums appends the fields with which parts and tails end to b, and returns the extended
// slice. The root is included only with flagRoot.
func (r record) appendSums(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, r.crc32)
	b = le.AppendUint64(b, uint64(r.time))
	b = append(b, r.session[:]...)
	b = append(b, r.cv[:]...)
	if r.flags&flagRoot != 0 {
		b = append(b, r.root[:]...)
	}
	return b
}

// readFrame decodes the frame at the beginning of b and returns its length. Length 0 means that b
// does not begin with a whole frame: the end of the journal, or a torn frame. An error means that
// the frame is whole but invalid or of a newer format.
func readFrame(b []byte) (r record, length int, err error) {
	if len(b) < frameOver {
		return record{}, 0, nil
	}
	length = frameOver + int(binary.LittleEndian.Uint16(b))
	if len(b) < length || digest.CRC32C(b[:length-4]) != binary.LittleEndian.Uint32(b[length-4:]) {
		return record{}, 0, nil
	}
	r.kind = kind(b[2])
	if since := b[3]; since > formatVersion {
		return record{}, 0, newerFormat(int(since))
	}
	if b[3] == 0 {
		return record{}, 0, errDamaged
	}
	if err := r.readPayload(b[frameHead : length-4]); err != nil {
		return record{}, 0, err
	}
	return r, length, nil
}

// newerFormat returns the error for a newer format version.
func newerFormat(version int) error {
	return fmt.Errorf("journal has format version %d, this program reads up to %d", version, formatVersion)
}

// fixedLen holds the payload sizes of the kinds with a fixed size.
var fixedLen = map[kind]int{
	kindHeader: headerLen, kindDrop: 12, kindFence: 8, kindBoot: 16, kindSynced: 0, kindVerified: 0, kindDoubt: 1,
}

// readPayload decodes the payload p into r, whose kind the caller has set. It fails with errDamaged
// if the length is wrong or the kind unknown, and with another error if a header has a newer
// format.
func (r *record) readPayload(p []byte) error {
	if want, ok := fixedLen[r.kind]; ok && len(p) != want {
		return fmt.Errorf("record of kind %d has %d bytes: %w", r.kind, len(p), errDamaged)
	}
	le := binary.LittleEndian
	switch r.kind {
	case kindHeader:
		return r.readHeader(p)
	case kindPart:
		return r.readPart(p)
	case kindDrop:
		r.n, r.gen = int(le.Uint32(p)), int64(le.Uint64(p[4:]))
	case kindFence:
		r.gen = int64(le.Uint64(p))
	case kindBoot:
		copy(r.boot[:], p)
	case kindDoubt:
		r.flags = p[0]
	case kindSynced, kindVerified:
	case kindTail:
		return r.readTail(p)
	default:
		return fmt.Errorf("record of kind %d: %w", r.kind, errDamaged)
	}
	return nil
}

// readHeader decodes the payload of a header, whose length the caller has checked. It fails with
// errDamaged if the magic, the version or the part size, a power of two from 1 MiB on, is wrong,
// and with newerFormat for a newer version.
func (r *record) readHeader(p []byte) error {
	le := binary.LittleEndian
	if string(p[:8]) != magic {
		return fmt.Errorf("no journal: %w", errDamaged)
	}
	switch version := le.Uint16(p[8:]); {
	case version > formatVersion:
		return newerFormat(int(version))
	case version == 0:
		return fmt.Errorf("version 0: %w", errDamaged)
	}
	copy(r.id[:], p[10:])
	r.begun = drive.Time(le.Uint64(p[26:]))
	r.partSize, r.size = drive.ByteSize(le.Uint64(p[34:])), drive.ByteSize(le.Uint64(p[42:]))
	copy(r.boot[:], p[50:])
	if r.partSize < drive.MiB || r.partSize&(r.partSize-1) != 0 {
		return fmt.Errorf("part size %d: %w", r.partSize, errDamaged)
	}
	return nil
}

// readPart decodes the payload of a part. It fails with errDamaged if p is too short.
func (r *record) readPart(p []byte) error {
	le := binary.LittleEndian
	if len(p) < partLen {
		return errDamaged
	}
	r.n, r.flags = int(le.Uint32(p)), p[4]
	r.gen, r.size = int64(le.Uint64(p[5:])), drive.ByteSize(le.Uint64(p[13:]))
	return r.readSums(p)
}

// readTail decodes the payload of a tail: that of a part with the size at another offset, which was
// reserved from the first version on.
func (r *record) readTail(p []byte) error {
	le := binary.LittleEndian
	if len(p) < partLen {
		return errDamaged
	}
	r.n, r.size = int(le.Uint32(p)), drive.ByteSize(le.Uint64(p[4:]))
	r.flags, r.gen = p[12], int64(le.Uint64(p[13:]))
	return r.readSums(p)
}

// readSums decodes the last fields of parts and tails from p, the whole payload, of at least
// partLen bytes. It fails with errDamaged if the length does not match the flags or a flag is
// unknown.
func (r *record) readSums(p []byte) error {
	le := binary.LittleEndian
	r.crc32, r.time = le.Uint32(p[21:]), drive.Time(le.Uint64(p[25:]))
	copy(r.session[:], p[33:])
	copy(r.cv[:], p[49:])
	want := partLen
	if r.flags&flagRoot != 0 {
		want += digest.Size
	}
	if len(p) != want || r.flags&^(flagDurable|flagRoot) != 0 {
		return errDamaged
	}
	copy(r.root[:], p[partLen:])
	return nil
}
