package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// The journal of a staged upload, parsed by its specification (docs/formats/journal.md) only:
// frames of size u16, kind u8, since u8, payload, and CRC-32C of all preceding bytes,
// little-endian. Kinds that do not affect the received parts are skipped.
const (
	journalHeader = 1
	journalPart   = 2 // n u32, flags u8, gen u64, size u64, crc32 u32, ...
	journalDrop   = 3 // n u32, gen u64
	journalTail   = 9 // n u32, size u64, flags u8, gen u64, crc32 u32, ...
	frameHead     = 4 // bytes before the payload
	frameTail     = 4 // bytes after it
)

// arrived is a received part in a journal; tail marks a part of which only the first bytes arrived.
type arrived struct {
	size int64
	crc  uint32
	tail bool
}

// errJournal reports a file that is not a valid journal.
var errJournal = errors.New("this is not a journal")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// readJournal returns the received parts by number, and the number of bytes after the last complete
// frame, which a crash leaves behind.
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
