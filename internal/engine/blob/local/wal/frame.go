package wal

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"example.org/smartdrive/internal/base/digest"
)

// formatVersion is the format that this program writes, and the newest it reads.
const formatVersion = 1

// magic is at the beginning of a segment.
const magic = "SDCONLOG"

// MaxContent is the largest content that the log accepts, in bytes.
const MaxContent = 32 << 10

// maxName is the longest name, in bytes.
const maxName = 255

// Sizes in bytes.
const (
	headerSize = len(magic) + 2 + 8 + 4
	frameHead  = 4 + 1 + 1 + 2 + 8 // size to number
	frameOver  = frameHead + 4     // frameHead and the CRC
)

// kind is the type of a frame. The numbers are part of the format: append, never reorder.
type kind uint8

const (
	kindContent   kind = iota + 1 // a content was written
	kindForgotten                 // a content was removed and must not be restored
)

// frame is one record of the log: a content, or the note that a content was removed.
type frame struct {
	kind    kind
	number  uint64 // of the segment
	name    string // of the content
	content []byte // bytes of the content; empty in a note
}

// size returns the encoded length in bytes.
func (f frame) size() int { return frameOver + len(f.name) + len(f.content) }

// append appends the frame to b, without number and checksum, which seal sets once the segment is
// known.
func (f frame) append(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, uint32(len(f.content)))
	b = append(b, byte(f.kind), formatVersion)
	b = le.AppendUint16(b, uint16(len(f.name)))
	b = le.AppendUint64(b, f.number)
	b = append(append(b, f.name...), f.content...)
	return append(b, 0, 0, 0, 0)
}

// seal sets number and checksum of all frames of b.
func seal(b []byte, number uint64) {
	le := binary.LittleEndian
	for len(b) > 0 {
		end := frameHead + int(le.Uint16(b[6:])) + int(le.Uint32(b))
		le.PutUint64(b[8:], number)
		le.PutUint32(b[end:], digest.CRC32C(b[:end]))
		b = b[end+4:]
	}
}

// header returns the header of a segment.
func header(number uint64) []byte {
	b := append(make([]byte, 0, headerSize), magic...)
	b = binary.LittleEndian.AppendUint16(b, formatVersion)
	b = binary.LittleEndian.AppendUint64(b, number)
	return binary.LittleEndian.AppendUint32(b, digest.CRC32C(b))
}

// readHeader returns the number of a segment; 0 if it is empty or its header is torn.
func readHeader(in io.Reader) (number uint64, err error) {
	var b [headerSize]byte
	if _, err := io.ReadFull(in, b[:]); err != nil {
		return 0, ignoreEOF(err)
	}
	le := binary.LittleEndian
	end := headerSize - 4
	if string(b[:len(magic)]) != magic || le.Uint32(b[end:]) != digest.CRC32C(b[:end]) {
		return 0, nil // no record was acknowledged
	}
	if version := le.Uint16(b[len(magic):]); version != formatVersion {
		return 0, newerFormat(int(version))
	}
	return le.Uint64(b[len(magic)+2:]), nil
}

// newerFormat returns the error for a newer format version.
func newerFormat(version int) error {
	return fmt.Errorf("the log of contents has format version %d, this program reads %d", version, formatVersion)
}

// readFrame reads the next frame of the segment with this number. ok is false without an error
// after the last frame: at the end of the file, and at bytes that are no intact frame of this
// segment. It returns an error for a newer format, an unknown kind, and an unreadable file.
func readFrame(in *bufio.Reader, number uint64) (f frame, ok bool, err error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return frame{}, false, ignoreEOF(err)
	}
	le := binary.LittleEndian
	size, name := int(le.Uint32(head[:])), int(le.Uint16(head[6:]))
	if size > MaxContent || name > maxName || le.Uint64(head[8:]) != number {
		return frame{}, false, nil
	}
	b := append(make([]byte, 0, frameOver+name+size), head[:]...)
	b = b[:cap(b)]
	if _, err := io.ReadFull(in, b[frameHead:]); err != nil {
		return frame{}, false, ignoreEOF(err)
	}
	end := len(b) - 4
	if le.Uint32(b[end:]) != digest.CRC32C(b[:end]) {
		return frame{}, false, nil
	}
	if since := head[5]; since > formatVersion {
		return frame{}, false, newerFormat(int(since))
	}
	f = frame{kind: kind(head[4]), number: number, name: string(b[frameHead : frameHead+name]), content: b[frameHead+name : end]}
	if f.kind != kindContent && f.kind != kindForgotten {
		return frame{}, false, fmt.Errorf("the log of contents has a record of kind %d, which there is not", f.kind)
	}
	return f, true, nil
}

// ignoreEOF returns err, or nil if the file has ended.
func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}
