package thumb

import (
	"encoding/binary"
	"io"
	"iter"
	"os"
	"path/filepath"

	"example.org/smartdrive/internal/base/drive"
)

// boxes yields the type and the content of each box of an ISO base media file (ISO 14496-12, 4.2).
// It stops at a box that is truncated or longer than 4 GiB.
func boxes(rest []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for len(rest) >= 8 {
			size := int64(binary.BigEndian.Uint32(rest))
			if size < 8 || size > int64(len(rest)) || !yield(string(rest[4:8]), rest[8:size]) {
				return
			}
			rest = rest[size:]
		}
	}
}

// box returns the content of the first box at a path of box types; nil if there is none, content
// itself for an empty path.
func box(content []byte, path ...string) []byte {
	if len(path) == 0 {
		return content
	}
	for kind, inner := range boxes(content) {
		if kind == path[0] {
			if kind == "meta" { // its boxes follow a version and flags
				inner = inner[min(4, len(inner)):]
			}
			return box(inner, path[1:]...)
		}
	}
	return nil
}

// turnedByEXIF returns the orientation in the EXIF file that heif-convert wrote to dir, and 1 if
// there is none. It also returns 1 if the HEIC has a rotation or mirroring property: heif-convert
// has applied that, and the EXIF only repeats it (ISO 23008-12, 6.5.10 and A.4).
func turnedByEXIF(heic File, dir string) int {
	const asIs = 1
	head := make([]byte, min(heic.Size(), headSize))
	if _, err := heic.ReadAt(head, 0); err != nil && err != io.EOF { //nolint:errorlint // as io.ReaderAt returns it
		return asIs
	}
	properties := box(head, "meta", "iprp", "ipco")
	for kind := range boxes(properties) {
		if kind == "irot" || kind == "imir" {
			return asIs
		}
	}
	if properties == nil {
		return asIs
	}
	f, err := os.Open(filepath.Join(dir, helperOut+".exif")) //nolint:gosec // in the directory that was made for it
	if err != nil {
		return asIs // the file has no EXIF
	}
	defer f.Close() //nolint:errcheck // it was read
	exif, err := io.ReadAll(io.LimitReader(f, int64(64*drive.KiB)))
	if err != nil {
		return asIs
	}
	return orientation(exif)
}
