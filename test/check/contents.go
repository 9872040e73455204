package main

import (
	"bufio"
	"crypto/md5"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"lukechampine.com/blake3"
)

// blobRow is a row of blobs.
type blobRow struct {
	id, file, digest string
	size, partSize   int64
	crc              uint32
	parts            []byte
}

// contents hashes the file of every blob (P1, P3, B1), and reports files that no row explains (B3).
func (c *checker) contents() error {
	explained := map[string]string{} // file name → reason why it may exist
	var blobs []blobRow
	err := c.db.each(func(scan func(...any) error) error {
		var b blobRow
		err := scan(&b.id, &b.file, &b.digest, &b.size, &b.partSize, &b.crc, &b.parts)
		blobs = append(blobs, b)
		explained[b.file] = "blob"
		return err
	}, `SELECT id, file, digest, size, part_size, crc32, parts FROM blobs`)
	if err != nil {
		return err
	}
	for _, b := range blobs {
		if err := c.blob(b); err != nil {
			return err
		}
	}
	err = c.db.each(func(scan func(...any) error) error {
		var file string
		err := scan(&file)
		explained[file] = "released"
		return err
	}, `SELECT file FROM released`)
	if err != nil {
		return err
	}
	for id, r := range c.rows {
		if r.open() {
			explained[id] = "upload"
		}
	}
	return c.strays(explained)
}

// place returns the path of a blob's file: its directory is the last two digits of its id.
func (c *checker) place(file string) string {
	id := file
	if m := slotName.FindStringSubmatch(file); m != nil {
		id = m[1]
	}
	return filepath.Join(c.blobs, "blobs", id[max(0, len(id)-2):], file)
}

// blob checks one blob: its file exists and has the size and the digests of the row.
func (c *checker) blob(b blobRow) error {
	f, err := c.openContent(b.file)
	if errors.Is(err, fs.ErrNotExist) {
		c.found("P1", "blob %s: its file %s is not there", b.id, b.file)
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	sums, err := c.hashers(b)
	if err != nil {
		return err
	}
	whole := crc32.NewIEEE()
	to := []io.Writer{whole}
	for _, s := range sums {
		to = append(to, s.h)
	}
	crcs, size, err := readParts(f, b.partSize, to)
	if err != nil {
		return err
	}
	c.hashed, c.bytes = c.hashed+1, c.bytes+size
	if size != b.size {
		c.found("P1", "blob %s: its file has %d bytes, its row says %d", b.id, size, b.size)
		return nil
	}
	for _, s := range sums {
		if got := hex.EncodeToString(s.h.Sum(nil)); got != s.want {
			c.found("B1", "blob %s: the %s of its file is %s, its row says %s", b.id, s.algo, got, s.want)
		}
	}
	c.partSums(b, crcs, whole.Sum32())
	return nil
}

// sum is a digest of a blob in the database, and its hash to recompute it.
type sum struct {
	algo, want string
	h          hash.Hash
}

// hashers returns the digests of a blob to recompute. It does not check SM3.
func (c *checker) hashers(b blobRow) ([]sum, error) {
	sums := []sum{{"blake3", b.digest, blake3.New(32, nil)}}
	err := c.db.each(func(scan func(...any) error) error {
		var algo, want string
		err := scan(&algo, &want)
		switch algo {
		case "sha256":
			sums = append(sums, sum{algo, want, sha256.New()})
		case "md5":
			sums = append(sums, sum{algo, want, md5.New()})
		}
		return err
	}, `SELECT algo, digest FROM aliases WHERE blob_id = ?`, b.id)
	return sums, err
}

// readParts feeds f to the hashes. It returns the CRC-32 of each slice of partSize bytes, and the
// size.
func readParts(f io.Reader, partSize int64, hashes []io.Writer) (crcs []uint32, size int64, err error) {
	in := bufio.NewReaderSize(f, 256<<10)
	for {
		if _, err := in.Peek(1); errors.Is(err, io.EOF) {
			return crcs, size, nil
		}
		part := crc32.NewIEEE()
		n, err := io.CopyN(io.MultiWriter(append([]io.Writer{part}, hashes...)...), in, max(1, partSize))
		size += n
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, 0, err
		}
		crcs = append(crcs, part.Sum32())
	}
}

// partEntry is the size of an entry in blobs.parts: a chaining value of 32 bytes, a CRC-32 in
// little-endian.
const partEntry = 36

// partSums compares the CRC-32 of the whole file and of its parts with the row.
func (c *checker) partSums(b blobRow, crcs []uint32, whole uint32) {
	if whole != b.crc {
		c.found("B1", "blob %s: the CRC-32 of its file is %08x, its row says %08x", b.id, whole, b.crc)
	}
	if b.size > 0 && len(b.parts) != partEntry*len(crcs) {
		c.found("P3", "blob %s: %d bytes describe %d parts", b.id, len(b.parts), len(crcs))
		return
	}
	for i, crc := range crcs {
		if want := binary.LittleEndian.Uint32(b.parts[i*partEntry+32:]); crc != want {
			c.found("B1", "blob %s: the CRC-32 of part %d is %08x, its row says %08x", b.id, i, crc, want)
		}
	}
}

// strays reports every file below blobs and quarantine that explained, by file name, does not
// contain.
func (c *checker) strays(explained map[string]string) error {
	top := filepath.Join(c.blobs, "blobs")
	look := func(path, name string) {
		switch {
		case path != c.place(name):
			c.found("B3", "%s is not where a file of that name belongs", path)
		case explained[name] != "":
		case strings.HasPrefix(name, "put-"):
			c.left("B3", "%s was never finished", name)
		default:
			c.found("B3", "nothing explains %s%s", name, c.known(name))
		}
	}
	var packs []string
	err := files(top, func(path string) {
		if strings.HasSuffix(path, packSuffix) {
			packs = append(packs, path)
			return
		}
		look(path, filepath.Base(path))
	})
	for _, path := range packs {
		if err == nil {
			err = c.packed(path, func(name string) { look(filepath.Join(filepath.Dir(path), name), name) })
		}
	}
	if err != nil {
		return err
	}
	return files(filepath.Join(c.blobs, "quarantine"), func(path string) {
		c.found("B3", "%s could not be explained by an auditor", path)
	})
}

// known describes the upload with an id for a message; "" if there is none.
func (c *checker) known(id string) string {
	if r := c.rows[id]; r != nil {
		return fmt.Sprintf(" (upload in state %s)", r.state)
	}
	return ""
}

// files calls fn for all non-directories below top. A missing top is empty.
func files(top string, fn func(path string)) error {
	return filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path == top {
			return nil
		}
		if err == nil && !d.IsDir() {
			fn(path)
		}
		return err
	})
}
