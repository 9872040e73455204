package fetch

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// Kind is what a document must be.
type Kind uint8

// The kinds.
const (
	Any Kind = iota
	PDF
)

// headSize is within how many bytes a PDF must say that it is one: readers look as far (ISO 32000-1
// annex H, implementation note 13).
const headSize = 1024

var magic = []byte("%PDF-")

// check reads the beginning of a document, and returns it and the rest as one. A page that says
// "please log in" with status 200 is no PDF, whatever its address ends with.
func (k Kind) check(body io.ReadCloser, h http.Header) (io.ReadCloser, error) {
	if k == Any {
		return body, nil
	}
	head := make([]byte, headSize)
	n, err := io.ReadFull(body, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF { //nolint:errorlint // ReadFull's own: a wrapped one is a broken connection
		return nil, err
	}
	switch head = head[:n]; {
	case n == 0:
		return nil, &Error{Final, Empty, nil}
	case !bytes.Contains(head, magic):
		return nil, &Error{Final, NotPDF, fmt.Errorf("Content-Type %q", h.Get("Content-Type"))}
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), body), body}, nil
}
