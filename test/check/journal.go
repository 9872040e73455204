package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// The journal of a staged upload, read from its description (docs/formats/journal.md) alone: frames
// of size u16, kind u8, since u8, payload, CRC-32C of all before it, little-endian. Kinds that do
// not change what has arrived are skipped.
const (
	journalHeader = 1
	journalPart   = 2 // n u32, flags u8, gen u64, size u64, crc32 u32, ...
	journalDrop   = 3 // n u32, gen u64
	journalTail   = 9 // n u32, size u64, flags u8, gen u64, crc32 u32, ...
	frameHead     = 4 // bytes before the payload
	frameTail     = 4 // bytes after it
)

// arrived is a part that a journal names, or the first bytes of one.
type arrived struct {
	size int64
	crc  uint32
	tail bool
}

var errJournal = errors.New("this is not a journal")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// readJournal returns the parts and tails that a journal names, and how many bytes behind its last
// whole frame a crash has left.
func readJournal(b []byte) (parts map[int]arrived, torn int, err error) {
	parts = map[int]arrived{}
	le, begun := binary.LittleEndian, false
	for len(b) >= frameHead+frameTail {
		payload := int(le.Uint16(b))
		whole := frameHead + payload + frameTail
		if len(b) < whole || crc32.Checksum(b[:whole-frameTail], castagnoli) != le.Uint32(b[whole-frameTail:]) {
			break
		}
		kind, p := b[2], b[frameHead:frameHead+payload]
		switch {
		case !begun && (kind != journalHeader || payload < 8 || string(p[:8]) != "SDJOURNL"):
			return nil, 0, errJournal
		case kind == journalPart && payload >= 25:
			parts[int(le.Uint32(p))] = arrived{int64(le.Uint64(p[13:])), le.Uint32(p[21:]), false}
		case kind == journalTail && payload >= 25:
			parts[int(le.Uint32(p))] = arrived{int64(le.Uint64(p[4:])), le.Uint32(p[21:]), true}
		case kind == journalDrop && payload >= 4:
			delete(parts, int(le.Uint32(p)))
		case kind == journalPart || kind == journalDrop || kind == journalTail:
			return nil, 0, fmt.Errorf("a record of kind %d has %d bytes: %w", kind, payload, errJournal)
		}
		begun, b = true, b[whole:]
	}
	if !begun {
		return nil, 0, errJournal
	}
	return parts, len(b), nil
}
