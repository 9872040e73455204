package dav

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/server"
)

const (
	maxBody      = 256 << 10 // bytes of an XML body: enough for a PROPPATCH of every property that a node may have
	maxDepth     = 32        // nesting of elements
	maxNames     = 500       // properties in one request
	maxNameBytes = 512       // bytes of a property name with its namespace
)

// Name is the name of a property: a namespace and a local name.
type Name = xml.Name

// element is a parsed XML element with its children.
type element struct {
	Name     xml.Name
	Attrs    []xml.Attr
	Children []element
	Text     string
	Inner    string // the XML inside of the element, with all namespaces declared
}

// child returns the first child with the local name in the namespace DAV:; false if there is none.
func (e element) child(name string) (element, bool) {
	for _, c := range e.Children {
		if c.Name == dav(name) {
			return c, true
		}
	}
	return element{}, false
}

// dav returns the name of a property or element in the namespace "DAV:".
func dav(local string) Name { return Name{Space: "DAV:", Local: local} }

// readBody reads and parses the XML body of a request. found is false for an empty body. It fails
// with drive.BadRequest for malformed XML, for elements nested deeper than maxDepth, and for a
// document type, because that could define entities. It fails with drive.TooLarge above maxBody
// bytes, and with the error of server.RefuseEncoding for a compressed body.
func readBody(r *http.Request) (root element, found bool, err error) {
	if err := server.RefuseEncoding(r); err != nil {
		return element{}, false, err
	}
	raw, err := io.ReadAll(io.LimitReader(server.RequestBody(r), maxBody+1))
	switch {
	case err != nil:
		return element{}, false, err
	case len(raw) > maxBody:
		return element{}, false, drive.Fail(drive.TooLarge, "field", "body", "limit", maxBody)
	case len(bytes.TrimSpace(raw)) == 0:
		return element{}, false, nil
	}
	root, err = parseXML(raw)
	return root, err == nil, err
}

// parseXML parses a document into its root element. It fails with drive.BadRequest or
// drive.TooLarge.
func parseXML(raw []byte) (element, error) {
	raw, _, err := transform.Bytes(unicode.BOMOverride(encoding.Nop.NewDecoder()), raw)
	if err != nil {
		return element{}, malformed(err)
	}
	d := xml.NewDecoder(bytes.NewReader(raw))
	d.CharsetReader = charset
	for {
		t, err := d.Token()
		switch t := t.(type) {
		case xml.StartElement:
			root, err := readElement(d, t, 1)
			if err == nil {
				err = expectEnd(d)
			}
			if err != nil {
				return element{}, malformed(err)
			}
			return root, nil
		case xml.Directive:
			return element{}, malformed(errDirective)
		}
		if err != nil {
			return element{}, malformed(err)
		}
	}
}

// charset decodes input whose XML declaration names the encoding label. It is the CharsetReader of
// the parser. Input labeled UTF-16 is returned unchanged, because parseXML has already converted it
// by its byte order mark (XML 1.0 §4.3.3). For an encoding other than ASCII, UTF-8, UTF-16, Latin-1
// and Windows-1252 it fails with errCharset.
func charset(label string, in io.Reader) (io.Reader, error) {
	switch strings.ToLower(label) {
	case "us-ascii", "ascii", "utf8", "utf-16": // package xml rejects other bytes
		return in, nil
	case "iso-8859-1", "latin1", "windows-1252":
		return charmap.Windows1252.NewDecoder().Reader(in), nil
	}
	return nil, errCharset
}

var (
	// errCharset reports an encoding other than those that readBody decodes.
	errCharset = errors.New("an encoding that is not read here")
	// errDirective reports a document type declaration, which request bodies must not have.
	errDirective = errors.New("a document type")
	// errDeep reports elements nested deeper than maxDepth.
	errDeep = errors.New("too deep")
	// errName reports an element or attribute name that Namespaces in XML does not allow.
	errName = errors.New("a name that namespaces in XML do not allow")
	// errTwice reports an element with two equal attributes.
	errTwice = errors.New("an attribute that an element has twice")
)

// malformed wraps err as drive.BadRequest for the field "body". An err that contains a drive.Error
// is returned unchanged.
func malformed(err error) error {
	if _, known := errors.AsType[*drive.Error](err); known {
		return err
	}
	return drive.Wrap(err, drive.BadRequest, "field", "body", "reason", string(drive.Malformed), "expected", "XML without a document type")
}

// expectEnd reads d to its end. It fails with errDirective if anything but white space, comments
// and processing instructions follows the root element.
func expectEnd(d *xml.Decoder) error {
	for {
		t, err := d.Token()
		if err == io.EOF {
			return nil
		}
		switch t := t.(type) {
		case xml.StartElement, xml.Directive:
			return errDirective
		case xml.CharData:
			if len(bytes.TrimSpace(t)) > 0 {
				return errDirective
			}
		}
		if err != nil {
			return err
		}
	}
}

// readElement reads the rest of the element that start begins, up to its end tag. It fails with
// errDeep below maxDepth, errDirective, the error of checkNames, drive.TooLarge if the re-encoded
// children exceed maxBody, or an error of the decoder.
func readElement(d *xml.Decoder, start xml.StartElement, depth int) (element, error) {
	if depth > maxDepth {
		return element{}, errDeep
	}
	if err := checkNames(start); err != nil {
		return element{}, err
	}
	e := element{Name: start.Name, Attrs: start.Attr}
	var text, inner strings.Builder
	for {
		t, err := d.Token()
		if err != nil {
			return element{}, err
		}
		switch t := t.(type) {
		case xml.StartElement:
			c, err := readElement(d, t.Copy(), depth+1)
			if err != nil {
				return element{}, err
			}
			e.Children = append(e.Children, c)
			writeElement(&inner, c)
			if inner.Len() > maxBody { // every level repeats the namespace declarations
				return element{}, drive.Fail(drive.TooLarge, "field", "body", "limit", maxBody)
			}
		case xml.CharData:
			text.Write(t)
			_ = xml.EscapeText(&inner, t) // a Builder does not fail
		case xml.Directive:
			return element{}, errDirective
		case xml.EndElement:
			e.Text, e.Inner = text.String(), inner.String()
			return e, nil
		}
	}
}
