// Package envelope finds invoices inside of other files: the XML embedded in a PDF (Factur-X,
// ZUGFeRD, XRechnung), the invoices in a zip or in an OFD (the format of the Chinese tax
// administration), and the attachments of an e-mail. It opens one level only, except for PDFs and
// archives attached to an e-mail.
//
// A PDF holds at most one invoice. A zip or an e-mail may hold several; each is a document, in the
// order of the file. If an e-mail has an invoice as XML, its PDFs count as pictures of invoices and
// are ignored.
package envelope

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"iter"
	"path"
	"slices"
	"strings"

	"example.org/smartdrive/internal/intake/invoice"
	"example.org/smartdrive/internal/intake/invoice/pdf"
	"example.org/smartdrive/internal/intake/invoice/syntax"
)

// Kind is a kind of envelope: a file that contains invoices as embedded or attached files.
type Kind uint8

// Kinds of envelopes.
const (
	None Kind = iota
	PDF
	Zip  // also OFD, which is a zip
	Mail // RFC 5322, a file .eml
)

// Sniff returns the kind of envelope, given the leading bytes of a file; None for any other file.
// It needs 1 KiB of them.
func Sniff(head []byte) Kind {
	switch {
	case bytes.Contains(head[:min(len(head), 1024)], []byte("%PDF-")):
		return PDF
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return Zip
	case isMail(head):
		return Mail
	}
	return None
}

// Limits of a zip: number of members, and size of the directory in bytes.
const (
	maxMembers   = 10_000
	maxDirectory = 4 << 20
)

// Decode yields the documents of an envelope, in order. A document that cannot be decoded yields a
// *syntax.Error instead, like syntax.Decode, and the others follow. An envelope without invoices
// yields one error of kind Unsupported. An error of reading in ends the sequence.
func Decode(kind Kind, in io.ReaderAt, size int64, limits Limits) iter.Seq2[*invoice.Document, error] {
	return func(yield func(*invoice.Document, error) bool) {
		from, ended := &source{ReaderAt: in}, false
		tell := func(doc *invoice.Document, err error) bool {
			if from.failed != nil {
				doc, err = nil, from.failed
			}
			ended = !yield(doc, err) || from.failed != nil
			return !ended
		}
		newOpening(size, limits).each(kind, from, size, tell)
		if from.failed != nil && !ended { // the error was not reported yet
			yield(nil, from.failed)
		}
	}
}

// each calls yield for the documents of an envelope, or of one attached to it, until yield returns
// false.
func (o *opening) each(kind Kind, in io.ReaderAt, size int64, yield func(*invoice.Document, error) bool) {
	switch kind {
	case PDF:
		yield(o.fromPDF(in, size))
	case Mail:
		o.fromMail(in, size, yield)
	default:
		o.fromZip(in, size, yield)
	}
}

// source reads the file of an envelope and stores the first I/O error in failed. Such an error says
// nothing about the documents, and the libraries in between do not return it in a recognizable
// type.
type source struct {
	io.ReaderAt
	failed error
}

// ReadAt reads and keeps an error other than io.EOF in failed, so that a failure of the source is
// not taken for a damaged envelope.
func (s *source) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.ReaderAt.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		s.failed = err
	}
	return n, err
}

// invoiceNames holds the standard names of the XML in a PDF, in lower case.
var invoiceNames = []string{"factur-x.xml", "zugferd-invoice.xml", "xrechnung.xml", "order-x.xml"}

// find opens a PDF and returns its embedded files, and the index at of the invoice among them; -1
// if the PDF has no invoice. It fails with a *pdf.Error for a malformed PDF, with the error of
// spend if it unpacks to too much, and with the error of reading in.
func (o *opening) find(in io.ReaderAt, size int64) (at int, files []pdf.File, err error) {
	d, err := pdf.Open(in, size, o.ofPDFs())
	if err != nil {
		return -1, nil, err
	}
	if files, err = d.Files(); err != nil {
		return -1, nil, err
	}
	at = slices.IndexFunc(files, func(f pdf.File) bool { return slices.Contains(invoiceNames, strings.ToLower(f.Name)) })
	if at < 0 {
		at = slices.IndexFunc(files, func(f pdf.File) bool { return strings.EqualFold(path.Ext(f.Name), ".xml") })
	}
	return at, files, nil
}

// fromPDF decodes the invoice embedded in a PDF. It fails with a syntax.Error: Unsupported if there
// is none, or the kind of the damage.
func (o *opening) fromPDF(in io.ReaderAt, size int64) (*invoice.Document, error) {
	at, files, err := o.find(in, size)
	if err != nil {
		return nil, ofPDF(err)
	}
	if at < 0 {
		return nil, &syntax.Error{Kind: syntax.Unsupported, Text: "the PDF has no invoice as XML embedded; send the XML, or a PDF of Factur-X, ZUGFeRD 2 or XRechnung"}
	}
	xml, err := files[at].Open()
	if err != nil {
		return nil, ofPDF(err)
	}
	doc, err := decode(o.unpack(xml), o.limits.Limits)
	return doc, ofPDF(err)
}

// ofPDF converts an error of package pdf into a *syntax.Error. It returns other errors unchanged.
func ofPDF(err error) error {
	bad, ok := errors.AsType[*pdf.Error](err)
	if !ok {
		return err
	}
	kind := map[pdf.Kind]syntax.Kind{
		pdf.Damaged: syntax.Malformed, pdf.Encrypted: syntax.Refused, pdf.Limit: syntax.Limit, pdf.Unknown: syntax.Unsupported,
	}[bad.Kind]
	return &syntax.Error{Kind: kind, Text: bad.Text}
}

// decode decodes an XML invoice. Any other content gives an error of kind Unsupported.
func decode(in io.Reader, limits syntax.Limits) (*invoice.Document, error) {
	buffered := bufio.NewReaderSize(in, 64<<10)
	head, err := buffered.Peek(syntax.SniffBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	format := syntax.Sniff(head)
	if format == syntax.Unknown || format == syntax.NDJSON {
		return nil, &syntax.Error{Kind: syntax.Unsupported, Text: syntax.Named(head, "the XML in it is not an invoice of a format that is read here")}
	}
	for doc, err := range syntax.Decode(format, buffered, limits) {
		return doc, err
	}
	return nil, &syntax.Error{Kind: syntax.Malformed, Text: "there is no document"}
}

// fromZip yields each .xml member of an archive that is an invoice, or the error of reading it. A
// damaged archive yields one error, and so does an archive without an invoice.
func (o *opening) fromZip(in io.ReaderAt, size int64, yield func(*invoice.Document, error) bool) {
	archive, err := openZip(in, size)
	if err != nil {
		yield(nil, ofZip(err))
		return
	}
	found := 0
	for _, f := range archive.File {
		if !strings.EqualFold(path.Ext(f.Name), ".xml") {
			continue
		}
		doc, err := o.fromMember(f)
		if err != nil && errors.Is(err, errOther) {
			continue
		}
		found++
		if !yield(doc, err) {
			return
		}
	}
	if found == 0 {
		yield(nil, &syntax.Error{Kind: syntax.Unsupported, Text: "the archive has no invoice as XML in it"})
	}
}

// errOther reports an XML that is not an invoice, such as a part of an OFD.
var errOther = errors.New("not an invoice")

// fromMember decodes a member of an archive. errOther: it is not an invoice.
func (o *opening) fromMember(f *zip.File) (*invoice.Document, error) {
	in, err := openMember(f)
	if err != nil {
		return nil, err
	}
	defer in.Close() //nolint:errcheck // it was only read
	doc, err := decode(o.unpack(in), o.limits.Limits)
	return doc, ofZip(err)
}

// member is an open member of an archive, with its first bytes buffered.
type member struct {
	*bufio.Reader
	io.Closer
}

// openMember opens an invoice of an archive. The caller must close it. errOther: it is not an
// invoice.
func openMember(f *zip.File) (*member, error) {
	if f.Flags&1 != 0 {
		return nil, &syntax.Error{Kind: syntax.Refused, Text: "the archive is encrypted"}
	}
	in, err := f.Open()
	if err != nil {
		return nil, ofZip(err)
	}
	m := &member{bufio.NewReaderSize(in, syntax.SniffBytes), in}
	head, err := m.Peek(syntax.SniffBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(ofZip(err), in.Close())
	}
	if format := syntax.Sniff(head); format == syntax.Unknown || format == syntax.NDJSON {
		return nil, errors.Join(errOther, in.Close())
	}
	return m, nil
}

// ofZip converts an error of a zip into a *syntax.Error. It returns other errors unchanged.
func ofZip(err error) error {
	for _, broken := range []error{zip.ErrFormat, zip.ErrChecksum, io.ErrUnexpectedEOF, io.EOF, errOutside} {
		if errors.Is(err, broken) {
			return &syntax.Error{Kind: syntax.Malformed, Text: "the archive is damaged"}
		}
	}
	if _, ok := errors.AsType[flate.CorruptInputError](err); ok {
		return &syntax.Error{Kind: syntax.Malformed, Text: "the archive is damaged"}
	}
	if errors.Is(err, zip.ErrAlgorithm) {
		return &syntax.Error{Kind: syntax.Unsupported, Text: "the archive is packed in a way that is not supported"}
	}
	return err
}

// openZip checks and reads the directory of an archive. It fails with zip.ErrFormat for members
// that overlap and with the error of checkDirectory for a directory that is too large.
func openZip(in io.ReaderAt, size int64) (*zip.Reader, error) {
	room, err := checkDirectory(in, size)
	if err != nil {
		return nil, err
	}
	archive, err := zip.NewReader(boundedReaderAt{in, size}, size)
	if err != nil {
		return nil, err
	}
	const header = 30 // minimum bytes of the header before each member
	for _, f := range archive.File {
		if room -= header; room < 0 || f.CompressedSize64 > uint64(room) { // members overlap, and the overlap would be read once per member
			return nil, zip.ErrFormat
		}
		room -= int64(f.CompressedSize64)
	}
	return archive, nil
}

// boundedReaderAt reads a file at offsets that come from its own content and may be out of range.
type boundedReaderAt struct {
	io.ReaderAt
	size int64
}

// errOutside reports an offset outside of the file. The underlying reader's error for it would look
// like a disk error.
var errOutside = errors.New("a place outside of the file")

// ReadAt fails with errOutside for an offset outside of the file.
func (w boundedReaderAt) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > w.size {
		return 0, errOutside
	}
	return w.ReaderAt.ReadAt(p, off)
}

// checkDirectory rejects an archive with too large a directory before the directory is read. The
// directory must have the position and size that the end record declares, because the zip reader
// starts at that position and reads on to any end. The result room is the number of bytes in front
// of the directory, for all members. It fails with a syntax.Error of kind Malformed or Limit.
func checkDirectory(in io.ReaderAt, size int64) (room int64, err error) {
	const endBytes, commentMost = 22, 1<<16 - 1
	tail := make([]byte, min(size, endBytes+commentMost))
	if _, err := in.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	at := bytes.LastIndex(tail, []byte("PK\x05\x06"))
	if at < 0 || at+endBytes > len(tail) {
		return 0, &syntax.Error{Kind: syntax.Malformed, Text: "the archive is damaged"}
	}
	end := tail[at:]
	members := int(end[10]) | int(end[11])<<8
	directory := int64(end[12]) | int64(end[13])<<8 | int64(end[14])<<16 | int64(end[15])<<24
	begins := int64(end[16]) | int64(end[17])<<8 | int64(end[18])<<16 | int64(end[19])<<24
	large := directory == 1<<16-1 || begins == 1<<32-1 // values that announce a second record (zip64)
	if members > maxMembers || directory > maxDirectory || large {
		return 0, &syntax.Error{Kind: syntax.Limit, Text: fmt.Sprintf("the archive has more than %d members or a directory larger than %d bytes", maxMembers, maxDirectory)}
	}
	if begins+directory != size-int64(len(end)) {
		return 0, &syntax.Error{Kind: syntax.Malformed, Text: "the archive is damaged"}
	}
	return begins, nil
}

// Count returns the number of documents that Decode would yield, without decoding them. A file that
// cannot be opened counts as 0. It fails only with an error of reading in.
func Count(kind Kind, in io.ReaderAt, size int64) (int, error) {
	from := &source{ReaderAt: in}
	n, err := newOpening(size, Limits{}).count(kind, from, size)
	if from.failed != nil {
		return 0, from.failed
	}
	return n, err
}

// count returns the number of documents in an envelope; 0 for a damaged one or a PDF without an
// invoice. A PDF that unpacks to too much counts as one unreadable document. It fails only with an
// error of reading in.
func (o *opening) count(kind Kind, in io.ReaderAt, size int64) (int, error) {
	if kind == PDF {
		at, _, err := o.find(in, size)
		if _, ours := errors.AsType[*pdf.Error](err); ours || err == nil && at < 0 {
			return 0, nil
		}
		if _, ours := errors.AsType[*syntax.Error](err); ours {
			err = nil
		}
		return 1, err
	}
	if kind == Mail {
		return o.countMail(in, size)
	}
	n, err := countZip(in, size)
	if _, ours := errors.AsType[*syntax.Error](ofZip(err)); ours {
		return 0, nil
	}
	return n, err
}

// countZip counts the invoices of an archive. A damaged member counts as one. It fails with the
// error of openZip.
func countZip(in io.ReaderAt, size int64) (n int, err error) {
	archive, err := openZip(in, size)
	if err != nil {
		return 0, err
	}
	for _, f := range archive.File {
		if !strings.EqualFold(path.Ext(f.Name), ".xml") {
			continue
		}
		member, err := openMember(f)
		if errors.Is(err, errOther) {
			continue
		}
		if n++; err == nil {
			err = member.Close()
		} else if _, ours := errors.AsType[*syntax.Error](err); ours {
			err = nil
		}
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}
