package nextcloud

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"

	"example.org/smartdrive/internal/base/drive"
)

// related reads the parts of a multipart/related body (RFC 2387) with a Content-Length in each
// part:
//
//	body     = *part "--" boundary "--"
//	part     = "--" boundary CRLF *(name ":" value CRLF) CRLF bytes CRLF
//	bytes    = as many as Content-Length of the part says
//
// It does not search the bytes for the boundary. A line may end in LF alone. A fault in a delimiter
// or length ends the body, because nothing after it can be parsed.
type related struct {
	in       *bufio.Reader
	boundary string
	begun    bool
	left     int64 // unread bytes of the current part
}

// maxPartHeader bounds the header of a part in bytes: a path of 4 KiB and the other fields.
const maxPartHeader = 16 << 10

// next skips the unread bytes of the current part and reads the header of the next one. Read then
// returns the bytes of that part; the int64 is their number. It returns io.EOF after the last part.
// A malformed delimiter, header or length fails with drive.BadRequest; then nothing more can be
// read.
func (r *related) next() (http.Header, int64, error) {
	if _, err := io.Copy(io.Discard, r); err != nil {
		return nil, 0, err
	}
	room := maxPartHeader
	if r.begun {
		if end, err := r.line(&room); err != nil || end != "" {
			return nil, 0, orMalformed(err, "a line end behind the bytes of a part")
		}
	}
	r.begun = true
	switch delimiter, err := r.line(&room); {
	case err != nil && !errors.Is(err, io.EOF):
		return nil, 0, err
	case delimiter == "--"+r.boundary+"--":
		return nil, 0, io.EOF
	case err != nil || delimiter != "--"+r.boundary:
		return nil, 0, orMalformed(err, "the boundary")
	}
	h, err := r.header(&room)
	if err != nil {
		return nil, 0, err
	}
	size, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64)
	if err != nil || size < 0 {
		return nil, 0, orMalformed(nil, "Content-Length of each part")
	}
	r.left = size
	return h, size, nil
}

// header reads the header of a part. room is how many bytes are left for it; header reduces it. It
// fails with drive.BadRequest for a malformed or too long header.
func (r *related) header(room *int) (http.Header, error) {
	h := http.Header{}
	for {
		line, err := r.line(room)
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

// line returns the next line without its end, and subtracts its length from room. It fails with
// drive.BadRequest if room runs out. At the end of the body it returns the remaining text and
// io.EOF.
func (r *related) line(room *int) (string, error) {
	var line []byte
	for {
		some, err := r.in.ReadSlice('\n')
		if *room -= len(some); *room < 0 {
			return "", drive.BadField("body", drive.TooLong, "limit", maxPartHeader, "sent", maxPartHeader-*room)
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

// orMalformed returns err, or drive.BadRequest with the expectation if err is nil or io.EOF.
func orMalformed(err error, expected string) error {
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return drive.BadField("body", drive.Malformed, "expected", expected)
}

// Read implements io.Reader for the bytes of the current part. It fails with drive.BadRequest,
// reason "cut", if the body ends early.
func (r *related) Read(b []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	if int64(len(b)) > r.left {
		b = b[:r.left]
	}
	n, err := r.in.Read(b)
	r.left -= int64(n)
	if errors.Is(err, io.EOF) && r.left > 0 {
		return n, drive.Wrap(io.ErrUnexpectedEOF, drive.BadRequest, "field", "body", "reason", "cut")
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}
