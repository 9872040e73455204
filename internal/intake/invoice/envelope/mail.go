package envelope

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"path"
	"slices"
	"strings"

	"example.org/smartdrive/internal/intake/invoice"
	"example.org/smartdrive/internal/intake/invoice/syntax"
)

// Limits of an e-mail.
const (
	maxMailHeader = 1 << 20  // bytes of the header of a message
	maxMailDepth  = 8        // nesting of multiparts and messages: forwarded mails have three or four levels
	maxMailParts  = 1000     // parts in total
	maxMailFile   = 16 << 20 // bytes of an attached PDF or archive, which is held in memory
)

// mailHeaders holds the header fields that an e-mail may begin with, in lower case, in addition to
// X-... and ARC-...
var mailHeaders = []string{
	"received", "return-path", "delivered-to", "from", "to", "cc", "sender", "reply-to", "subject", "date", "message-id", "mime-version",
	"content-type", "content-transfer-encoding", "dkim-signature", "authentication-results", "envelope-to", "in-reply-to", "references",
}

// isMail reports whether a file begins with a header field of an e-mail (RFC 5322).
func isMail(head []byte) bool {
	name, _, ok := bytes.Cut(head[:min(len(head), 80)], []byte(":"))
	if !ok {
		return false
	}
	field := strings.ToLower(string(name))
	return slices.Contains(mailHeaders, field) || strings.HasPrefix(field, "x-") || strings.HasPrefix(field, "arc-")
}

// attached is a file or text in an e-mail, decoded while it is read.
type attached struct {
	*bufio.Reader
	head []byte // leading bytes
}

// parts visits the parts of an e-mail and calls fn for each attached file and text.
type parts struct {
	left int // remaining parts
	fn   func(attached) error
}

// errStop stops a traversal without an error.
var errStop = errors.New("enough")

// eachAttached calls fn for each file and text in an e-mail, in order, until fn fails. errStop
// stops it without an error.
func eachAttached(in io.ReaderAt, size int64, fn func(attached) error) error {
	p := &parts{left: maxMailParts, fn: fn}
	err := p.message(io.NewSectionReader(in, 0, size), 0)
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

// limited returns a syntax.Error of kind Limit with the formatted text.
func limited(format string, args ...any) error {
	return &syntax.Error{Kind: syntax.Limit, Text: fmt.Sprintf(format, args...)}
}

// errMail reports that the structure of an e-mail is damaged.
var errMail = &syntax.Error{Kind: syntax.Malformed, Text: "the e-mail is damaged"}

// guarded is a reader that fails after left bytes, with an error about the header of the e-mail. A
// negative left means no limit.
type guarded struct {
	in   io.Reader
	left int
}

// Read fails with an error of kind Limit once left bytes are read; a negative left does not limit.
func (g *guarded) Read(p []byte) (int, error) {
	if g.left == 0 {
		return 0, limited("the header of the e-mail is longer than %d bytes", maxMailHeader)
	}
	n := len(p)
	if g.left > 0 {
		n = min(n, g.left)
	}
	n, err := g.in.Read(p[:n])
	if g.left > 0 {
		g.left -= n
	}
	return n, err
}

// message traverses a message: the file itself, or one forwarded in it. It fails with a
// syntax.Error for a damaged or too long header.
func (p *parts) message(in io.Reader, depth int) error {
	g := &guarded{in, maxMailHeader}
	m, err := mail.ReadMessage(g)
	if err != nil {
		return ofMail(err)
	}
	g.left = -1
	return p.part(m.Header.Get, m.Body, depth)
}

// part decodes the transfer encoding of a part and traverses it: nested multiparts and messages, or
// an attached file. It fails with an error of kind Limit for too many or too deeply nested parts.
func (p *parts) part(field func(string) string, body io.Reader, depth int) error {
	if p.left--; p.left < 0 {
		return limited("the e-mail has more than %d parts", maxMailParts)
	}
	if depth > maxMailDepth {
		return limited("the e-mail has more than %d parts within each other", maxMailDepth)
	}
	kind, params, err := mime.ParseMediaType(field("Content-Type"))
	if err != nil {
		kind = ""
	}
	switch strings.ToLower(strings.TrimSpace(field("Content-Transfer-Encoding"))) {
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	}
	switch {
	case strings.HasPrefix(kind, "multipart/") && params["boundary"] != "":
		return p.multipart(multipart.NewReader(body, params["boundary"]), depth)
	case kind == "message/rfc822":
		err := p.message(body, depth+1)
		if bad, ok := errors.AsType[*syntax.Error](err); ok && bad.Kind == syntax.Malformed {
			return nil // ignore a damaged message and read the rest
		}
		return err
	}
	buffered := bufio.NewReaderSize(body, 64<<10)
	head, err := buffered.Peek(syntax.SniffBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		if _, bad := errors.AsType[base64.CorruptInputError](err); bad {
			return nil // ignore a damaged attachment: it says nothing about the rest
		}
		return ofMail(err)
	}
	return p.fn(attached{buffered, head})
}

// multipart traverses the parts of a multipart up to its end. It fails with the error of a part, or
// a syntax.Error for a damaged body.
func (p *parts) multipart(m *multipart.Reader, depth int) error {
	for {
		one, err := m.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return ofMail(err)
		}
		if err := p.part(one.Header.Get, one, depth+1); err != nil {
			return err
		}
	}
}

// ofMail converts an error of the e-mail's structure into a *syntax.Error. It returns errors of the
// underlying file unchanged.
func ofMail(err error) error {
	if err == nil || errors.Is(err, errStop) {
		return err
	}
	if _, ours := errors.AsType[*syntax.Error](err); ours {
		return err
	}
	if strings.Contains(err.Error(), "message too large") { // error text of net/textproto
		return limited("the header of the e-mail is longer than %d bytes", maxMailHeader)
	}
	_, bad := errors.AsType[base64.CorruptInputError](err)
	for _, broken := range []error{io.ErrUnexpectedEOF, io.EOF, bufio.ErrBufferFull} { // ErrBufferFull: an overlong line of quoted-printable
		bad = bad || errors.Is(err, broken)
	}
	if bad {
		return errMail
	}
	for _, text := range []string{"malformed", "multipart:", "mime:", "quotedprintable:", "mail:"} { // these packages have no error types
		if strings.Contains(err.Error(), text) {
			return errMail
		}
	}
	return err
}

// isInvoice reports whether an attached file looks like one XML invoice, by its first bytes; NDJSON
// does not.
func (a attached) isInvoice() bool {
	format := syntax.Sniff(a.head)
	return format != syntax.Unknown && format != syntax.NDJSON
}

// hold reads an attached PDF or archive into memory. More than maxMailFile bytes give an error of
// kind Limit.
func (a attached) hold() (*bytes.Reader, error) {
	raw, err := io.ReadAll(io.LimitReader(a, maxMailFile+1))
	if err != nil {
		return nil, ofMail(err)
	}
	if len(raw) > maxMailFile {
		return nil, limited("a file in the e-mail is larger than %d bytes", maxMailFile)
	}
	return bytes.NewReader(raw), nil
}

// eachInvoice calls plain for each XML invoice attached to an e-mail. If there is none, it calls
// packed for each attached PDF and archive instead, because a PDF next to an XML is only its
// picture. It stops at the first error of a callback or of the e-mail and returns it; errStop ends
// it without an error.
func eachInvoice(in io.ReaderAt, size int64, plain func(attached) error, packed func(Kind, *bytes.Reader) error) error {
	found := false
	err := eachAttached(in, size, func(a attached) error {
		if !a.isInvoice() {
			return nil
		}
		found = true
		return plain(a)
	})
	if err != nil || found {
		return err
	}
	return eachAttached(in, size, func(a attached) error {
		kind := Sniff(a.head)
		if kind != PDF && kind != Zip {
			return nil
		}
		file, err := a.hold()
		if err != nil {
			return err
		}
		return packed(kind, file)
	})
}

// fromMail yields the invoices attached to an e-mail, directly or in attached archives and PDFs,
// and the errors of those that cannot be read. An e-mail without any yields one error.
func (o *opening) fromMail(in io.ReaderAt, size int64, yield func(*invoice.Document, error) bool) {
	found := false
	tell := func(doc *invoice.Document, err error) error {
		found = true
		if !yield(doc, err) {
			return errStop
		}
		return nil
	}
	err := eachInvoice(in, size, func(a attached) error {
		doc, err := decode(a, o.limits.Limits)
		return tell(doc, ofMail(err))
	}, func(kind Kind, file *bytes.Reader) error {
		if n, err := o.count(kind, file, file.Size()); n == 0 || err != nil {
			return err
		}
		var stop error
		o.each(kind, file, file.Size(), func(doc *invoice.Document, err error) bool {
			stop = tell(doc, err)
			return stop == nil
		})
		return stop
	})
	switch {
	case err != nil:
		yield(nil, err)
	case !found:
		yield(nil, &syntax.Error{Kind: syntax.Unsupported, Text: "the e-mail has no invoice attached: neither XML, nor a PDF or an archive with XML in it"})
	}
}

// countMail counts the invoices attached to an e-mail. A damaged part ends the count and counts as
// one. It fails only with an error of reading in.
func (o *opening) countMail(in io.ReaderAt, size int64) (n int, err error) {
	err = eachInvoice(in, size, func(attached) error { n++; return nil }, func(kind Kind, file *bytes.Reader) error {
		more, err := o.count(kind, file, file.Size())
		n += more
		return err
	})
	if _, ours := errors.AsType[*syntax.Error](err); ours {
		return n + 1, nil // a damaged part counts as one unreadable document
	}
	return n, err
}

// extractMail tries each invoice of an e-mail in turn and writes the file with the sum to to.
// Invoices that cannot be read are skipped. It fails with ErrNoFile.
func (o *opening) extractMail(in io.ReaderAt, size int64, sum string, to io.Writer) error {
	found := false
	look := func(err error) error {
		if err == nil {
			found = true
			return errStop
		}
		if _, bad := errors.AsType[*syntax.Error](err); bad || errors.Is(err, ErrNoFile) {
			return nil // another invoice may have it
		}
		return err
	}
	err := eachInvoice(in, size, func(a attached) error {
		file, err := a.hold()
		if err != nil {
			return look(err)
		}
		return look(o.extractFrom(file, file.Size(), sum, to))
	}, func(_ Kind, file *bytes.Reader) error { return look(o.extractFrom(file, file.Size(), sum, to)) })
	if err == nil && !found {
		err = ErrNoFile
	}
	return err
}

// Counter counts the documents of a bundle's member while the bytes of the member are written to
// it. It does not look into envelopes; see Count. Set Name before the first Write.
type Counter struct {
	Name string // file name of the member

	head  []byte
	lines int
	text  bool // the current line is not blank
}

// Write counts the non-empty lines of p and keeps the first bytes for sniffing. It never fails.
func (c *Counter) Write(p []byte) (int, error) {
	if room := syntax.SniffBytes - len(c.head); room > 0 {
		c.head = append(c.head, p[:min(room, len(p))]...)
	}
	for rest := p; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte{'\n'})
		c.text = c.text || len(bytes.TrimSpace(line)) > 0
		if ended && c.text {
			c.lines++
			c.text = false
		}
		rest = after
	}
	return len(p), nil
}

// Documents returns the number of documents, after all bytes were written. 0: the member is not an
// invoice itself, but may be an envelope; see Count.
func (c *Counter) Documents() int {
	if c.text {
		c.lines, c.text = c.lines+1, false
	}
	ext := strings.ToLower(path.Ext(c.Name))
	switch format := syntax.Sniff(c.head); {
	case format == syntax.NDJSON, format == syntax.Unknown && (ext == ".ndjson" || ext == ".jsonl"):
		return c.lines
	case format != syntax.Unknown, ext == ".xml":
		return 1
	}
	return 0
}

// Kind returns the kind of envelope of the member.
func (c *Counter) Kind() Kind { return Sniff(c.head) }
