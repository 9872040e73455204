package envelope

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"example.org/smartdrive/internal/intake/invoice/syntax"
)

// ErrNoFile reports that no invoice in a file has an embedded file with this SHA-256.
var ErrNoFile = errors.New("there is no such embedded file")

// Extract writes to to the file with the SHA-256 sum, in hex, that is embedded in an invoice. in is
// the XML invoice, or an envelope that contains it. It reads the invoice twice, so that it writes
// nothing before it has found the file. ErrNoFile: there is no such file. *syntax.Error: the
// invoice or envelope is invalid.
func Extract(in io.ReaderAt, size int64, sum string, to io.Writer) error {
	from := &source{ReaderAt: in}
	err := newOpening(size, Limits{Unpacked: 2 * Unpacked(size)}).extractFrom(from, size, sum, to)
	if err != nil && from.failed != nil {
		return from.failed
	}
	return err
}

// extractFrom writes the embedded file with the SHA-256 sum, from the invoice or envelope in, to
// to. It fails with ErrNoFile if no invoice contains such a file. After an error a part may be
// written.
func (o *opening) extractFrom(in io.ReaderAt, size int64, sum string, to io.Writer) error {
	head := make([]byte, syntax.SniffBytes)
	n, err := in.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch Sniff(head[:n]) {
	case None:
		return extract(func() (io.ReadCloser, error) { return io.NopCloser(io.NewSectionReader(in, 0, size)), nil }, sum, to)
	case Zip:
		return o.extractZip(in, size, sum, to)
	case Mail:
		return o.extractMail(in, size, sum, to)
	case PDF:
		at, files, err := o.find(in, size)
		if err != nil || at < 0 {
			return errors.Join(ofPDF(err), ErrNoFile)
		}
		return ofPDF(extract(func() (io.ReadCloser, error) {
			xml, err := files[at].Open()
			if err != nil {
				return nil, err
			}
			return io.NopCloser(o.unpack(xml)), nil
		}, sum, to))
	}
	return ErrNoFile
}

// extractZip tries each .xml member of an archive in turn and writes the file with the sum to to.
// Members that cannot be read are skipped. It fails with ErrNoFile.
func (o *opening) extractZip(in io.ReaderAt, size int64, sum string, to io.Writer) error {
	archive, err := openZip(in, size)
	if err != nil {
		return ofZip(err)
	}
	for _, f := range archive.File {
		if !strings.EqualFold(path.Ext(f.Name), ".xml") {
			continue
		}
		err := extract(func() (io.ReadCloser, error) {
			xml, err := openMember(f)
			if err != nil {
				return nil, err
			}
			return &member{bufio.NewReaderSize(o.unpack(xml), syntax.SniffBytes), xml}, nil
		}, sum, to)
		if _, bad := errors.AsType[*syntax.Error](err); bad || errors.Is(err, errOther) || errors.Is(err, ErrNoFile) {
			continue // another invoice may have it
		}
		return ofZip(err)
	}
	return ErrNoFile
}

// extract finds the embedded file in one XML invoice and writes it. It opens the invoice twice. It
// fails with ErrNoFile if the invoice has no file with the sum, or with the error of look.
func extract(open func() (io.ReadCloser, error), sum string, to io.Writer) error {
	sums, err := look(open, -1, nil)
	if err != nil {
		return err
	}
	at := slices.Index(sums, sum)
	if at < 0 {
		return ErrNoFile
	}
	_, err = look(open, at, to)
	return err
}

// look opens an XML invoice, calls syntax.Extract for its n-th embedded file, and closes it. With n
// -1 nothing is written. It returns the SHA-256 sums of the embedded files. It fails with ErrNoFile
// for an invoice in JSON, which has no embedded files.
func look(open func() (io.ReadCloser, error), n int, to io.Writer) (sums []string, err error) {
	in, err := open()
	if err != nil {
		return nil, err
	}
	defer func() {
		if closed := in.Close(); err == nil && closed != nil {
			err = fmt.Errorf("close an invoice: %w", closed)
		}
	}()
	buffered := bufio.NewReaderSize(in, 64<<10)
	if head, _ := buffered.Peek(1); bytes.HasPrefix(head, []byte("{")) { // the own model has no embedded files
		return nil, ErrNoFile
	}
	return syntax.Extract(buffered, syntax.Limits{}, n, to)
}
