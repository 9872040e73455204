// Package envelope finds the invoices in files that carry them: the XML that is embedded in a PDF
// (Factur-X, ZUGFeRD, XRechnung), the members of a zip or of an OFD that are invoices (what the
// tax administration of China gives out), and what is attached to an e-mail. It opens one envelope,
// and never one within another, but for the PDFs and archives that are attached to an e-mail.
//
// A PDF carries one invoice at most. A zip and an e-mail may carry several; each is a document, in
// the order of the archive. Of an e-mail with XML, PDFs are pictures.
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

	"smartdrive/internal/intake/invoice"
	"smartdrive/internal/intake/invoice/pdf"
	"smartdrive/internal/intake/invoice/syntax"
)

// Kind is a sort of envelope.
type Kind uint8

// The kinds.
const (
	None Kind = iota
	PDF
	Zip  // and OFD, which is one
	Mail // RFC 5322, a file .eml
)

// Sniff says which envelope begins like this.
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

// Limits of a zip: how many members it has, and how large its directory may be in bytes.
const (
	maxMembers   = 10_000
	maxDirectory = 4 << 20
)

// Decode reads the documents of an envelope, as syntax.Decode does those of a member. An envelope
// that holds none is one error of the kind Unsupported.
func Decode(kind Kind, in io.ReaderAt, size int64, limits syntax.Limits) iter.Seq2[*invoice.Document, error] {
	return func(yield func(*invoice.Document, error) bool) {
		from, ended := &source{ReaderAt: in}, false
		tell := func(doc *invoice.Document, err error) bool {
			if from.failed != nil {
				doc, err = nil, from.failed
			}
			ended = !yield(doc, err) || from.failed != nil
			return !ended
		}
		switch kind {
		case PDF:
			tell(fromPDF(from, size, limits))
		case Mail:
			fromMail(from, size, limits, tell)
		default:
			fromZip(from, size, limits, tell)
		}
		if from.failed != nil && !ended { // nobody has told of it
			yield(nil, from.failed)
		}
	}
}

// source is the file that an envelope is read from. It keeps an error of reading, which says
// nothing about the documents: the libraries between here and there have no types for theirs.
type source struct {
	io.ReaderAt
	failed error
}

func (s *source) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.ReaderAt.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		s.failed = err
	}
	return n, err
}

// invoiceNames are the names that standards give to the XML in a PDF, in small letters.
var invoiceNames = []string{"factur-x.xml", "zugferd-invoice.xml", "xrechnung.xml", "order-x.xml"}

// find opens a PDF and says which of its files is the invoice; -1: none.
func find(in io.ReaderAt, size int64) (at int, files []pdf.File, err error) {
	d, err := pdf.Open(in, size, pdf.Limits{})
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

func fromPDF(in io.ReaderAt, size int64, limits syntax.Limits) (*invoice.Document, error) {
	at, files, err := find(in, size)
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
	doc, err := decode(xml, limits)
	return doc, ofPDF(err)
}

// ofPDF turns the errors of a PDF into those of a document.
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

// decode reads the one document of an XML.
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

// fromZip yields the members of an archive that are invoices.
func fromZip(in io.ReaderAt, size int64, limits syntax.Limits, yield func(*invoice.Document, error) bool) {
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
		doc, err := fromMember(f, limits)
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

// errOther is an XML that is not an invoice: the parts of an OFD.
var errOther = errors.New("not an invoice")

func fromMember(f *zip.File, limits syntax.Limits) (*invoice.Document, error) {
	in, err := openMember(f)
	if err != nil {
		return nil, err
	}
	defer in.Close() //nolint:errcheck // it was only read
	doc, err := decode(in, limits)
	return doc, ofZip(err)
}

// member is a member of an archive that is open, and whose head was looked at.
type member struct {
	*bufio.Reader
	io.Closer
}

// openMember opens an invoice of an archive; another XML is errOther.
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

// ofZip turns the errors of an archive into those of a document.
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

// openZip reads the directory of an archive.
func openZip(in io.ReaderAt, size int64) (*zip.Reader, error) {
	room, err := checkDirectory(in, size)
	if err != nil {
		return nil, err
	}
	archive, err := zip.NewReader(within{in, size}, size)
	if err != nil {
		return nil, err
	}
	const header = 30 // bytes before each member, at least
	for _, f := range archive.File {
		if room -= header; room < 0 || f.CompressedSize64 > uint64(room) { // some share bytes, which would be read as often as they are named
			return nil, zip.ErrFormat
		}
		room -= int64(f.CompressedSize64)
	}
	return archive, nil
}

// within reads a file at places that its own text names, which may lie outside of it.
type within struct {
	io.ReaderAt
	size int64
}

// errOutside is the error of a place outside of the file. What the reader itself would say to it
// cannot be told from an error of the disk.
var errOutside = errors.New("a place outside of the file")

func (w within) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > w.size {
		return 0, errOutside
	}
	return w.ReaderAt.ReadAt(p, off)
}

// checkDirectory refuses an archive whose directory would take much memory, before it is read. That
// must be where and as large as its end says: the reader goes by where it begins, to whatever end.
// room is how many bytes the members have before it.
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
	large := directory == 1<<16-1 || begins == 1<<32-1 // ask for a second record
	if members > maxMembers || directory > maxDirectory || large {
		return 0, &syntax.Error{Kind: syntax.Limit, Text: fmt.Sprintf("the archive has more than %d members or a directory larger than %d bytes", maxMembers, maxDirectory)}
	}
	if begins+directory != size-int64(len(end)) {
		return 0, &syntax.Error{Kind: syntax.Malformed, Text: "the archive is damaged"}
	}
	return begins, nil
}

// Count says how many documents Decode finds, without reading them: for a sender that has to
// declare them. What cannot be opened holds none. The error is the reader's own.
func Count(kind Kind, in io.ReaderAt, size int64) (int, error) {
	from := &source{ReaderAt: in}
	n, err := count(kind, from, size)
	if from.failed != nil {
		return 0, from.failed
	}
	return n, err
}

func count(kind Kind, in io.ReaderAt, size int64) (int, error) {
	if kind == PDF {
		at, _, err := find(in, size)
		if _, ours := errors.AsType[*pdf.Error](err); ours || err == nil && at < 0 {
			return 0, nil
		}
		return 1, err
	}
	if kind == Mail {
		return countMail(in, size)
	}
	n, err := countZip(in, size)
	if _, ours := errors.AsType[*syntax.Error](ofZip(err)); ours {
		return 0, nil
	}
	return n, err
}

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
