//go:build linux

package bench

import (
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/usecase/upload"
)

// accept changes the staged upload in dir as if parts had arrived in random order, as
// docs/formats/journal.md describes: holes in the data, and a record for each part. cv returns the
// chaining value of a part. The process that owns the directory must not have opened the upload
// yet.
func accept(b *testing.B, dir string, v upload.View, parts []int, cv func(n int) digest.CV) {
	b.Helper()
	const kindPart, formatVersion, payload = 2, 1, 81
	le, castagnoli := binary.LittleEndian, crc32.MakeTable(crc32.Castagnoli)
	var all []byte
	for _, i := range rand.Perm(len(parts)) {
		n := parts[i]
		size := min(int64(v.PartSize), int64(*v.Size)-int64(n)*int64(v.PartSize))
		frame := le.AppendUint16(nil, payload)
		frame = append(frame, kindPart, formatVersion)
		frame = le.AppendUint32(frame, uint32(n))
		frame = append(frame, 0) // flags
		frame = le.AppendUint64(frame, 1)
		frame = le.AppendUint64(frame, uint64(size))
		frame = le.AppendUint32(frame, 0)          // CRC-32 of the bytes, checked only by a scrub
		frame = le.AppendUint64(frame, 0)          // time
		frame = append(frame, make([]byte, 16)...) // session
		sum := cv(n)
		frame = append(frame, sum[:]...)
		all = append(all, le.AppendUint32(frame, crc32.Checksum(frame, castagnoli))...)
	}
	journal, err := os.OpenFile(filepath.Join(dir, "journal"), os.O_APPEND|os.O_WRONLY, 0)
	must(b, err)
	_, err = journal.Write(all)
	must(b, err)
	must(b, journal.Close())
	must(b, os.Truncate(filepath.Join(dir, "data"), int64(*v.Size)))
}

// stagedDir returns the directory of a staged upload below the directory of blobs.
func stagedDir(b *testing.B, blobs, id string) string {
	b.Helper()
	found, err := filepath.Glob(filepath.Join(blobs, "staging", "*", "*", "*", id))
	must(b, err)
	if len(found) != 1 {
		b.Fatalf("upload %s is staged in %d places", id, len(found))
	}
	return found[0]
}
