package zipline

import (
	"encoding/binary"
	"math"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// Record signatures, sizes and fields of the zip format (PKWARE APPNOTE.TXT 6.3.10 §4.3, §4.4).
const (
	localSignature     = 0x04034b50
	centralSignature   = 0x02014b50
	end64Signature     = 0x06064b50
	locator64Signature = 0x07064b50
	endSignature       = 0x06054b50

	localFixed   = 30 // bytes before name and extra
	centralFixed = 46
	end64Size    = 56
	locator64    = 20
	endSize      = 22

	version20 = 20 // required for folders; the usual value for stored files
	version45 = 45 // required for ZIP64
	madeBy    = 3<<8 | version45

	flagUTF8 = 1 << 11 // names are UTF-8; always set, so that readers do not guess

	zip64Extra = 0x0001
	timeExtra  = 0x5455 // "UT", extended timestamp (Info-ZIP)

	fileMode   = 0o100644 << 16
	folderMode = 0o040755<<16 | 0x10 // 0x10: MS-DOS directory attribute

	max16 = math.MaxUint16 // max16 and max32 mean "see the ZIP64 field"
	max32 = math.MaxUint32
)

// buf is a byte slice to which its methods append little-endian fields in place.
type buf []byte

// u16 appends v in 2 bytes.
func (b *buf) u16(v uint16) { *b = binary.LittleEndian.AppendUint16(*b, v) }

// u32 appends v in 4 bytes.
func (b *buf) u32(v uint32) { *b = binary.LittleEndian.AppendUint32(*b, v) }

// u64 appends v in 8 bytes.
func (b *buf) u64(v uint64) { *b = binary.LittleEndian.AppendUint64(*b, v) }

// cap32 returns v, or max32 if v does not fit into 32 bits.
func cap32(v int64) uint32 { return uint32(min(v, max32)) }

// isBig reports whether v needs a ZIP64 field: 2^32-1 or more, as that value itself marks a ZIP64
// field.
func isBig(v int64) bool { return v >= max32 }

// localSize returns the length in bytes of the local header of e, as localHeader returns it.
func localSize(e *Entry) int64 {
	return localFixed + int64(len(e.Name)) + int64(len(localExtra(e)))
}

// centralSize returns the length of the central header of e, whose local header is at offset start.
func centralSize(e *Entry, start int64) int64 {
	return centralFixed + int64(len(e.Name)) + int64(len(centralExtra(e, start)))
}

// localExtra returns the extra field of a local header: both sizes if ZIP64 is needed (§4.5.3
// requires both), and the timestamp. Newer Java versions refuse a ZIP64 field that is not needed
// (openjdk/jdk#15273).
func localExtra(e *Entry) []byte {
	var b buf
	if isBig(int64(e.Size)) {
		b.u16(zip64Extra)
		b.u16(16)
		b.u64(uint64(e.Size))
		b.u64(uint64(e.Size))
	}
	return appendTime(b, e.Time)
}

// centralExtra returns the extra field of a central header, with only the ZIP64 values that do not
// fit the record.
func centralExtra(e *Entry, start int64) []byte {
	var field, b buf
	if isBig(int64(e.Size)) {
		field.u64(uint64(e.Size))
		field.u64(uint64(e.Size))
	}
	if isBig(start) {
		field.u64(uint64(start))
	}
	if len(field) > 0 {
		b.u16(zip64Extra)
		b.u16(uint16(len(field)))
		b = append(b, field...)
	}
	return appendTime(b, e.Time)
}

// appendTime appends the extended timestamp in Unix seconds, which has no time zone. Readers
// disagree about its sign, so times before 1970 and after 2038 only have the DOS time.
func appendTime(b buf, t drive.Time) buf {
	unix := t.Std().Unix()
	if t == 0 || unix < 0 || unix > math.MaxInt32 {
		return b
	}
	b.u16(timeExtra)
	b.u16(5)
	b = append(b, 1) // the modification time is present
	b.u32(uint32(unix))
	return b
}

// dosTime returns the MS-DOS time in UTC, rounded down to two seconds and clamped to 1980-2107. The
// format specifies local time without a zone; UTC makes the bytes the same everywhere.
func dosTime(t drive.Time) (clock, date uint16) {
	std := t.Std()
	first, last := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2107, 12, 31, 23, 59, 58, 0, time.UTC)
	if std.Before(first) {
		std = first
	}
	if std.After(last) {
		std = last
	}
	clock = uint16(std.Hour()<<11 | std.Minute()<<5 | std.Second()/2)
	date = uint16((std.Year()-1980)<<9 | int(std.Month())<<5 | std.Day())
	return clock, date
}

// versionNeeded returns the minimum version of the ZIP specification that a reader must support.
func versionNeeded(zip64 bool) uint16 {
	if zip64 {
		return version45
	}
	return version20
}

// appendShared appends the common fields of local and central headers, from the flags to the
// lengths.
func (b *buf) appendShared(e *Entry, extra int) {
	clock, date := dosTime(e.Time)
	b.u16(flagUTF8)
	b.u16(0) // stored
	b.u16(clock)
	b.u16(date)
	b.u32(e.CRC32)
	b.u32(cap32(int64(e.Size)))
	b.u32(cap32(int64(e.Size)))
	b.u16(uint16(len(e.Name)))
	b.u16(uint16(extra))
}

// localHeader returns the header that precedes the content of an entry, with name and extra fields.
func localHeader(e *Entry) []byte {
	extra := localExtra(e)
	b := make(buf, 0, localFixed+len(e.Name)+len(extra))
	b.u32(localSignature)
	b.u16(versionNeeded(isBig(int64(e.Size))))
	b.appendShared(e, len(extra))
	return append(append(b, e.Name...), extra...)
}

// centralHeader returns the header of entry i in the central directory, with name and extra fields.
// i counts from 0.
func (a *Archive) centralHeader(i int) []byte {
	e, start := &a.entries[i], a.starts[i]
	extra := centralExtra(e, start)
	b := make(buf, 0, centralFixed+len(e.Name)+len(extra))
	b.u32(centralSignature)
	b.u16(madeBy)
	b.u16(versionNeeded(isBig(int64(e.Size)) || isBig(start)))
	b.appendShared(e, len(extra))
	b.u16(0) // comment
	b.u16(0) // disk
	b.u16(0) // internal attributes
	if e.IsFolder() {
		b.u32(folderMode)
	} else {
		b.u32(fileMode)
	}
	b.u32(cap32(start))
	return append(append(b, e.Name...), extra...)
}

// endRecords returns the end records, with the ZIP64 records only if a value does not fit the old
// record.
func (a *Archive) endRecords() []byte {
	n := len(a.entries)
	from, to := a.starts[n], a.central[n]
	b := make(buf, 0, end64Size+locator64+endSize)
	if n >= max16 || isBig(from) || isBig(to-from) {
		b.appendEnd64(uint64(n), from, to)
	}
	count := uint16(min(n, max16))
	b.u32(endSignature)
	b.u16(0) // disk
	b.u16(0) // disk of the directory
	b.u16(count)
	b.u16(count)
	b.u32(cap32(to - from))
	b.u32(cap32(from))
	b.u16(0) // comment
	return b
}

// appendEnd64 appends the ZIP64 end record and its locator for a directory of n entries at offsets
// from to to.
func (b *buf) appendEnd64(n uint64, from, to int64) {
	b.u32(end64Signature)
	b.u64(end64Size - 12) // without these first 12 bytes
	b.u16(madeBy)
	b.u16(version45)
	b.u32(0) // disk
	b.u32(0) // disk of the directory
	b.u64(n)
	b.u64(n)
	b.u64(uint64(to - from))
	b.u64(uint64(from))
	b.u32(locator64Signature)
	b.u32(0) // disk of the record
	b.u64(uint64(to))
	b.u32(1) // disks
}
