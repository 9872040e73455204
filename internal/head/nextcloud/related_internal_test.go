package nextcloud

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"example.org/smartdrive/internal/base/drive"
)

// Whatever comes, the parts lie one behind the other in the body, none is longer than it says, and
// a body is refused in words of the protocol. However it is cut into reads, it says the same.
func FuzzRelated(f *testing.F) {
	for _, body := range []string{
		"--b\r\nContent-Length: 3\r\nX-File-Path: /a\r\n\r\nabc\r\n--b--\r\n",
		"--b\nContent-Length: 0\n\n\n--b\nContent-Length: 1\n\n\n\n--b--",
		"--b--", "", "--b\r\n\r\n", "--b\r\nContent-Length: 9223372036854775807\r\n\r\nx", "--b\r\nContent-Length: -1\r\n\r\n", "--b\r\n: x\r\n\r\n",
		"--b\r\nContent-Length: 5\r\n\r\n--b--\r\n--b--",
	} {
		f.Add([]byte(body), "b")
	}
	f.Fuzz(func(t *testing.T, body []byte, boundary string) {
		if boundary == "" || strings.ContainsAny(boundary, "\r\n") {
			return // no header has such a boundary
		}
		once, err := readRelated(bytes.NewReader(body), boundary)
		if err != nil && drive.KindOf(err) != drive.BadRequest {
			t.Errorf("%v", err)
		}
		at := 0
		for _, content := range once {
			i := bytes.Index(body[at:], content)
			if i < 0 {
				t.Fatalf("%q is not in the body behind byte %d", content, at)
			}
			at += i + len(content)
		}
		again, slow := readRelated(iotest.OneByteReader(bytes.NewReader(body)), boundary)
		if len(again) != len(once) || (err == nil) != (slow == nil) {
			t.Errorf("%d parts (%v), and byte by byte %d (%v)", len(once), err, len(again), slow)
		}
	})
}

// readRelated reads a body to its end.
func readRelated(r io.Reader, boundary string) (all [][]byte, err error) {
	p := &related{in: bufio.NewReaderSize(r, 16), boundary: boundary}
	for {
		_, size, err := p.next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		content, err := io.ReadAll(p)
		if err != nil {
			return all, err
		}
		if int64(len(content)) != size {
			return all, errors.New("a part is not as long as it says")
		}
		all = append(all, content)
	}
}
