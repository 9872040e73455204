package s3

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// entryVersion is the format version of entries that this program writes, and the newest it reads.
const entryVersion = 1

// Flags of an entry.
const (
	flagUnread  = 1 << iota // the part is known only from the listing: size and ETag
	flagRoot                // a root follows the chaining value
	flagHexETag             // the ETag is 32 hex digits, stored as 16 bytes
)

// entryLen is the length in bytes of an entry's fixed part.
const entryLen = 1 + 1 + 4 + 8 + 8 + 4 + 8 + 16 + digest.Size

// maxETag is the longest ETag accepted, in bytes. An MD5 has 32; stores may use others.
const maxETag = 255

// entry is the journal's record of an accepted part. CompleteMultipartUpload names the ETag, so
// other bytes under the same part number never become content.
type entry struct {
	blob.Part
	gen  int64 // under which the part was accepted
	time drive.Time
	etag string // as returned by the store, without quotes
}

// errEntry reports an entry that encode cannot have written.
var errEntry = errors.New("entry of the journal is damaged")

// encode returns e in the binary form in which Redis stores it; integers are little-endian
// (docs/formats/redis.md). An ETag of 32 hex digits takes 16 bytes. It does not change e.
func (e entry) encode() []byte {
	le := binary.LittleEndian
	etag, flags := []byte(e.etag), byte(0)
	if raw, err := hex.DecodeString(e.etag); err == nil && len(raw) == 16 && hex.EncodeToString(raw) == e.etag {
		etag, flags = raw, flagHexETag
	}
	if e.Unread {
		flags |= flagUnread
	}
	if !e.Root.IsZero() {
		flags |= flagRoot
	}
	b := make([]byte, 0, entryLen+digest.Size+1+len(etag))
	b = append(b, entryVersion, flags)
	b = le.AppendUint32(b, uint32(e.N))
	b = le.AppendUint64(b, uint64(e.gen))
	b = le.AppendUint64(b, uint64(e.Size))
	b = le.AppendUint32(b, e.CRC32)
	b = le.AppendUint64(b, uint64(e.time))
	b = append(b, e.Session[:]...)
	b = append(b, e.CV[:]...)
	if flags&flagRoot != 0 {
		b = append(b, e.Root[:]...)
	}
	return append(append(b, byte(len(etag))), etag...)
}

// decodeEntry decodes the output of encode. It returns errEntry for damaged bytes, and an error
// that names both versions for an entry of a newer program.
func decodeEntry(b []byte) (e entry, err error) {
	le := binary.LittleEndian
	if len(b) > 0 && b[0] > entryVersion {
		return entry{}, fmt.Errorf("entry of the journal has format version %d, this program reads up to %d", b[0], entryVersion)
	}
	if len(b) < entryLen+1 || b[0] != entryVersion || b[1]&^(flagUnread|flagRoot|flagHexETag) != 0 {
		return entry{}, errEntry
	}
	flags := b[1]
	e.N, e.gen, e.Size = int(le.Uint32(b[2:])), int64(le.Uint64(b[6:])), drive.ByteSize(le.Uint64(b[14:]))
	e.CRC32, e.time, e.Unread = le.Uint32(b[22:]), drive.Time(le.Uint64(b[26:])), flags&flagUnread != 0
	copy(e.Session[:], b[34:])
	copy(e.CV[:], b[50:])
	rest := b[entryLen:]
	if flags&flagRoot != 0 {
		if len(rest) < digest.Size+1 {
			return entry{}, errEntry
		}
		copy(e.Root[:], rest)
		rest = rest[digest.Size:]
	}
	if e.N < 0 || e.Size < 0 || int(rest[0]) != len(rest)-1 || (flags&flagRoot != 0) == e.Root.IsZero() {
		return entry{}, errEntry
	}
	return e, e.readETag(rest[1:], flags&flagHexETag != 0)
}

// readETag sets the ETag from b; packed: b holds the bytes of 32 hex digits. It returns errEntry if
// encode would have chosen the other form.
func (e *entry) readETag(b []byte, packed bool) error {
	e.etag = string(b)
	raw, err := hex.DecodeString(e.etag)
	isHex := err == nil && len(raw) == 16 && hex.EncodeToString(raw) == e.etag
	switch {
	case packed && len(b) != 16, !packed && isHex:
		return errEntry // encode would have chosen the other form
	case packed:
		e.etag = hex.EncodeToString(b)
	}
	return nil
}
