package nextcloud

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"smartdrive/internal/base/drive"
)

// related reads the parts of a multipart/related body (RFC 2387), each of which says how long it
// is:
//
//	body     = *part "--" boundary "--"
//	part     = "--" boundary CRLF *(name ":" value CRLF) CRLF bytes CRLF
//	bytes    = as many as Content-Length of the part says
//
// Nothing is searched for in the bytes. A line may end in LF alone. What says where the next part
// begins must be right, or nothing that follows can be told apart: such a fault ends the body.
type related struct {
	in       *bufio.Reader
	boundary string
	begun    bool
	left     int64 // bytes of the part before that nobody has read
}

// maxPartHeader bounds the header of a part, in bytes: a path of 4 KiB, and the rest.
const maxPartHeader = 16 << 10

// next passes over what is left of the part before, and reads the header of the next one, whose
// bytes Read returns then. io.EOF: there is none.
func (p *related) next() (http.Header, int64, error) {
	if _, err := io.Copy(io.Discard, p); err != nil {
		return nil, 0, err
	}
	room := maxPartHeader
	if p.begun {
		if end, err := p.line(&room); err != nil || end != "" {
			return nil, 0, orMalformed(err, "a line end behind the bytes of a part")
		}
	}
	p.begun = true
	switch delimiter, err := p.line(&room); {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, 0, err
	case delimiter == "--"+p.boundary+"--":
		return nil, 0, io.EOF
	case err != nil || delimiter != "--"+p.boundary:
		return nil, 0, orMalformed(err, "the boundary")
	}
	h, err := p.header(&room)
	if err != nil {
		return nil, 0, err
	}
	size, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
	if err != nil || size < 0 {
		return nil, 0, orMalformed(nil, "Content-Length of each part")
	}
	p.left = size
	return h, size, nil
}

func (p *related) header(room *int) (http.Header, error) {
	h := http.Header{}
	for {
		line, err := p.line(room)
		if err != nil {
			return nil, orMalformed(err, "an empty line behind the header of a part")
		}
		if line == "" {
			return h, nil
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" {
			return nil, orMalformed(nil, "a name and a colon")
		}
		h.Add(textproto.CanonicalMIMEHeaderKey(name), strings.TrimSpace(value))
	}
}

// line reads a line, without its end, as long as there is room for it. At the end of the body it
// returns what there is and io.EOF.
func (p *related) line(room *int) (string, error) {
	var line []byte
	for {
		some, err := p.in.ReadSlice('\n')
		if *room -= len(some); *room < 0 {
			return "", drive.Bad("body", drive.TooLong, "limit", maxPartHeader, "sent", maxPartHeader-*room)
		}
		line = append(line, some...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err == nil || errors.Is(err, io.EOF):
			text, _ := strings.CutSuffix(string(line), "\n")
			return strings.TrimSuffix(text, "\r"), err
		default:
			return "", err
		}
	}
}

// orMalformed is an error of the body that is known already, or says what was expected in it.
func orMalformed(err error, expected string) error {
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return drive.Bad("body", drive.Malformed, "expected", expected)
}

// Read implements io.Reader: it reads the bytes of a part.
func (p *related) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	if int64(len(b)) > p.left {
		b = b[:p.left]
	}
	n, err := p.in.Read(b)
	p.left -= int64(n)
	if errors.Is(err, io.EOF) && p.left > 0 {
		return n, drive.Wrap(io.ErrUnexpectedEOF, drive.BadRequest, "field", "body", "reason", "cut")
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}
