package fetch

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// Kind is the expected type of a document.
type Kind uint8

// Kinds of documents.
const (
	Any Kind = iota
	PDF
)

// headSize is the number of bytes in which the PDF header must occur: readers search as far (ISO
// 32000-1 annex H, implementation note 13).
const headSize = 1024

// pdfMagic begins the header of a PDF.
var pdfMagic = []byte("%PDF-")

// check verifies the start of a document and returns a reader for the whole document. It returns an
// *Error with Empty or NotPDF for anything but a PDF, such as a login page with status 200.
func (k Kind) check(body io.ReadCloser, h http.Header) (io.ReadCloser, error) {
	if k == Any {
		return body, nil
	}
	head := make([]byte, headSize)
	n, err := io.ReadFull(body, head)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF { //nolint:errorlint // ReadFull returns these unwrapped; a wrapped one is a broken connection
		return nil, err
	}
	switch head = head[:n]; {
	case n == 0:
		return nil, &Error{Final, Empty, nil}
	case !bytes.Contains(head, pdfMagic):
		return nil, &Error{Final, NotPDF, fmt.Errorf("Content-Type %q", h.Get("Content-Type"))}
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), body), body}, nil
}
