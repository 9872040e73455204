package main

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A pack is a file that contains several small contents (docs/formats/pack.md).
const (
	packSuffix = ".pack"
	packBlock  = 4096
	slotHead   = 40
)

// slotName matches the file name of a content in a pack: the pack, the first block and the number
// of blocks.
var slotName = regexp.MustCompile(`^(put-\d+-[0-9a-f-]{36})\.([0-9a-f]{4})\.([0-9a-f]{2})$`)

// openContent opens the content of a blob: its own file or, if that is missing, its slot in a pack.
func (c *checker) openContent(file string) (io.ReadCloser, error) {
	f, missing := os.Open(c.place(file))
	m := slotName.FindStringSubmatch(file)
	if m == nil || !errors.Is(missing, fs.ErrNotExist) {
		return f, missing
	}
	pack, err := os.ReadFile(c.place(m[1]) + packSuffix)
	if err != nil {
		return nil, err
	}
	block, _ := strconv.ParseInt(m[2], 16, 64)
	if b := slotAt(pack, m[1], block); b != nil {
		return io.NopCloser(bytes.NewReader(b)), nil
	}
	return nil, missing
}

// ofBucket returns the contents of a pack in the bucket format, by their first unit, or nil for
// another format.
func ofBucket(pack []byte) map[int64][]byte {
	const unit, index = 512, 32
	if len(pack) < 4096 || string(pack[:4]) != "SDPI" {
		return nil
	}
	le := binary.LittleEndian
	all := map[int64][]byte{}
	for i := range int(le.Uint32(pack[24:])) {
		e := pack[index+8*i:]
		at, size := unit*int(le.Uint16(e[2:]))+slotHead, int(le.Uint32(e[4:]))
		all[int64(le.Uint16(e))] = pack[at : at+size]
	}
	return all
}

// slotAt returns the content of the slot at a block, or nil if no valid slot begins there.
func slotAt(pack []byte, name string, block int64) []byte {
	if all := ofBucket(pack); all != nil {
		return all[block]
	}
	if int64(len(pack)) < block*packBlock+slotHead {
		return nil
	}
	b := pack[block*packBlock:]
	id, err := hex.DecodeString(strings.ReplaceAll(name[len(name)-36:], "-", ""))
	le := binary.LittleEndian
	sum := crc32.Checksum(b[:36], crc32.MakeTable(crc32.Castagnoli))
	if err != nil || string(b[:4]) != "SDPK" || le.Uint32(b[4:]) != 1 || !bytes.Equal(b[12:28], id) || int64(le.Uint32(b[28:])) != block || le.Uint32(b[36:]) != sum {
		return nil
	}
	size := int(le.Uint32(b[8:]))
	if len(b) < slotHead+size {
		return nil
	}
	return b[slotHead : slotHead+size]
}

// packed calls fn with the name of each content in a pack.
func (c *checker) packed(path string, fn func(name string)) error {
	pack, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	name := strings.TrimSuffix(filepath.Base(path), packSuffix)
	if all := ofBucket(pack); all != nil {
		for unit, b := range all {
			fn(fmt.Sprintf("%s.%04x.%02x", name, unit, (len(b)+slotHead+511)/512))
		}
		return nil
	}
	for block := int64(0); block*packBlock < int64(len(pack)); {
		b := slotAt(pack, name, block)
		if b == nil {
			block++
			continue
		}
		blocks := int64(slotHead+len(b)+packBlock-1) / packBlock
		fn(fmt.Sprintf("%s.%04x.%02x", name, block, blocks))
		block += blocks
	}
	return nil
}
