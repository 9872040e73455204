package memory

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"example.org/smartdrive/internal/testkit/depth"
	"example.org/smartdrive/test/history"
)

// chunk appends a chunk of a PNG.
func chunk(to []byte, kind string, body []byte) []byte {
	to = binary.BigEndian.AppendUint32(to, uint32(len(body)))
	from := len(to)
	to = append(append(to, kind...), body...)
	return binary.BigEndian.AppendUint32(to, crc32.ChecksumIEEE(to[from:]))
}

// blank is a PNG without a content: colour 0 is grey, 6 has an alpha.
func blank(side int, colour byte, bytesPerPixel int, clear bool) []byte {
	header := binary.BigEndian.AppendUint32(nil, uint32(side))
	header = append(binary.BigEndian.AppendUint32(header, uint32(side)), 8, colour, 0, 0, 0)
	raw := chunk([]byte("\x89PNG\r\n\x1a\n"), "IHDR", header)
	if clear {
		raw = chunk(raw, "tRNS", []byte{0, 0})
	}
	var content bytes.Buffer
	w := zlib.NewWriter(&content)
	row := make([]byte, 1+side*bytesPerPixel)
	for range side {
		_, _ = w.Write(row) // into memory
	}
	_ = w.Close() // into memory
	return chunk(chunk(raw, "IDAT", content.Bytes()), "IEND", nil)
}

// progressive returns a grey progressive JPEG of zeros whose scans contain no coefficients.
func progressive(side, scans int) []byte {
	raw := []byte{0xff, 0xd8, 0xff, 0xdb, 0, 67, 0}
	raw = append(raw, bytes.Repeat([]byte{1}, 64)...)
	raw = append(raw, 0xff, 0xc2, 0, 11, 8, byte(side>>8), byte(side), byte(side>>8), byte(side), 1, 1, 0x11, 0)
	for _, class := range []byte{0x00, 0x10} { // one code of one bit: 0, which is end of block, or no difference
		raw = append(raw, 0xff, 0xc4, 0, 20, class, 1)
		raw = append(raw, make([]byte, 15+1)...)
	}
	blocks := ((side + 7) / 8) * ((side + 7) / 8)
	for i := range scans {
		first, last := byte(0), byte(0)
		if i > 0 {
			first, last = byte(1+(i-1)%63), byte(1+(i-1)%63)
		}
		raw = append(raw, 0xff, 0xda, 0, 8, 1, 1, 0, first, last, 0)
		raw = append(raw, make([]byte, (blocks+7)/8)...)
	}
	return append(raw, 0xff, 0xd9)
}

// images are asked for as thumbnails by two users at a time, which is as many as are decoded at a
// time.
func images(s *stage) plan {
	side := func(most int) int { return depth.Pick(64, most/4, most) }
	files := [][]byte{
		blank(side(11_500), 0, 1, false), // 126 MiB of grey
		blank(side(5_780), 6, 4, false),  // 127 MiB with alpha
		blank(side(5_780), 0, 1, true),   // the same, of a small file
		blank(20_000, 0, 1, true),        // 1.5 GB: refused
		progressive(side(5_160), 90),     // 127 MiB of coefficients and samples
		progressive(64, 20_000),          // refused
		blank(side(3_230), 6, 4, false),  // 40 MiB: decoded beside a large one
		blank(side(3_230), 0, 1, true),
	}
	const users = 3
	var nodes [users][]string
	for n := range users {
		u := s.user("image", n)
		for i, raw := range files {
			kind := "png"
			if raw[0] == 0xff {
				kind = "jpg"
			}
			// Bytes after the end of the image make the content distinct, so that no result is
			// cached.
			raw = append(bytes.Clone(raw), history.Content{Seed: uint64(n), Size: 16}.Bytes(0, 16)...)
			node := u.Do(s, "PUT", fmt.Sprintf("/files/%d.%s", i, kind), raw).JSON(s, 201)
			nodes[n] = append(nodes[n], node["id"].(string))
		}
	}
	size := 256
	return plan{run: func() {
		each(users*len(files), func(i int) {
			u := s.user("image", i%users)
			r := s.ask(u, "GET", fmt.Sprintf("/nodes/%s/thumbnail?size=%d", nodes[i%users][i/users], size), nil)
			s.Logf("image %d: %d %.120s", i/users, r.StatusCode, printable(r))
		})
		size = 512 // the first size is kept now
	}, end: nothing}
}
