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

	"smartdrive/internal/intake/invoice"
	"smartdrive/internal/intake/invoice/syntax"
)

// Limits of an e-mail.
const (
	maxMailHeader = 1 << 20  // bytes of its header, and of that of a message within it
	maxMailDepth  = 8        // multiparts and messages within each other: forwarded mails have three or four
	maxMailParts  = 1000     // in all
	maxMailFile   = 16 << 20 // bytes of an attached PDF or archive, which is held in memory
)

// mailHeaders are what e-mails begin with, in small letters; X-... and ARC-... besides.
var mailHeaders = []string{
	"received", "return-path", "delivered-to", "from", "to", "cc", "sender", "reply-to", "subject", "date", "message-id", "mime-version",
	"content-type", "content-transfer-encoding", "dkim-signature", "authentication-results", "envelope-to", "in-reply-to", "references",
}

// isMail reports whether a file begins like an e-mail (RFC 5322): with a field of a header.
func isMail(head []byte) bool {
	name, _, ok := bytes.Cut(head[:min(len(head), 80)], []byte(":"))
	if !ok {
		return false
	}
	field := strings.ToLower(string(name))
	return slices.Contains(mailHeaders, field) || strings.HasPrefix(field, "x-") || strings.HasPrefix(field, "arc-")
}

// attached is a file of an e-mail, decoded while it is read.
type attached struct {
	*bufio.Reader
	head []byte // what it begins with
}

// parts walks through an e-mail.
type parts struct {
	left int // parts that may still come
	fn   func(attached) error
}

// errStop ends a walk without an error.
var errStop = errors.New("enough")

// eachAttached tells of each file and text in an e-mail, in its order.
func eachAttached(in io.ReaderAt, size int64, fn func(attached) error) error {
	p := &parts{left: maxMailParts, fn: fn}
	err := p.message(io.NewSectionReader(in, 0, size), 0)
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

func mailLimit(format string, args ...any) error {
	return &syntax.Error{Kind: syntax.Limit, Text: fmt.Sprintf(format, args...)}
}

var errMail = &syntax.Error{Kind: syntax.Malformed, Text: "the e-mail is damaged"}

// guarded ends with an error behind so many bytes, until it is lifted.
type guarded struct {
	in   io.Reader
	left int
}

func (g *guarded) Read(p []byte) (int, error) {
	if g.left == 0 {
		return 0, mailLimit("the header of the e-mail is longer than %d bytes", maxMailHeader)
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

// message walks through a message: the file, or one that was forwarded in it.
func (p *parts) message(in io.Reader, depth int) error {
	g := &guarded{in, maxMailHeader}
	m, err := mail.ReadMessage(g)
	if err != nil {
		return ofMail(err)
	}
	g.left = -1
	return p.part(m.Header.Get, m.Body, depth)
}

// part walks through a part with a header.
func (p *parts) part(field func(string) string, body io.Reader, depth int) error {
	if p.left--; p.left < 0 {
		return mailLimit("the e-mail has more than %d parts", maxMailParts)
	}
	if depth > maxMailDepth {
		return mailLimit("the e-mail has more than %d parts within each other", maxMailDepth)
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
			return nil // what else the mail has is read
		}
		return err
	}
	buffered := bufio.NewReaderSize(body, 64<<10)
	head, err := buffered.Peek(syntax.SniffBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		if _, bad := errors.AsType[base64.CorruptInputError](err); bad {
			return nil // a picture that is damaged says nothing about the rest
		}
		return ofMail(err)
	}
	return p.fn(attached{buffered, head})
}

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

// ofMail turns the errors of an e-mail into that of a document. Those of the file that it is read
// from stay what they are.
func ofMail(err error) error {
	if err == nil || errors.Is(err, errStop) {
		return err
	}
	if _, ours := errors.AsType[*syntax.Error](err); ours {
		return err
	}
	if strings.Contains(err.Error(), "message too large") { // net/textproto
		return mailLimit("the header of the e-mail is longer than %d bytes", maxMailHeader)
	}
	_, bad := errors.AsType[base64.CorruptInputError](err)
	for _, broken := range []error{io.ErrUnexpectedEOF, io.EOF, bufio.ErrBufferFull} { // a line of quoted-printable without end
		bad = bad || errors.Is(err, broken)
	}
	if bad {
		return errMail
	}
	for _, text := range []string{"malformed", "multipart:", "mime:", "quotedprintable:", "mail:"} { // their errors have no types
		if strings.Contains(err.Error(), text) {
			return errMail
		}
	}
	return err
}

// isInvoice reports whether an attached file is an invoice itself.
func (a attached) isInvoice() bool {
	format := syntax.Sniff(a.head)
	return format != syntax.Unknown && format != syntax.NDJSON
}

// hold reads an attached PDF or archive into memory.
func (a attached) hold() (*bytes.Reader, error) {
	raw, err := io.ReadAll(io.LimitReader(a, maxMailFile+1))
	if err != nil {
		return nil, ofMail(err)
	}
	if len(raw) > maxMailFile {
		return nil, mailLimit("a file in the e-mail is larger than %d bytes", maxMailFile)
	}
	return bytes.NewReader(raw), nil
}

// eachInvoice tells of the files of an e-mail that carry invoices: those that are one, or else PDFs
// and archives. Of an e-mail that has an invoice as XML, a PDF is the picture.
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

// fromMail yields the invoices that are attached to an e-mail.
func fromMail(in io.ReaderAt, size int64, limits syntax.Limits, yield func(*invoice.Document, error) bool) {
	found := false
	tell := func(doc *invoice.Document, err error) error {
		found = true
		if !yield(doc, err) {
			return errStop
		}
		return nil
	}
	err := eachInvoice(in, size, func(a attached) error {
		doc, err := decode(a, limits)
		return tell(doc, ofMail(err))
	}, func(kind Kind, file *bytes.Reader) error {
		if n, err := Count(kind, file, file.Size()); n == 0 || err != nil {
			return err
		}
		for doc, err := range Decode(kind, file, file.Size(), limits) {
			if stop := tell(doc, err); stop != nil {
				return stop
			}
		}
		return nil
	})
	switch {
	case err != nil:
		yield(nil, err)
	case !found:
		yield(nil, &syntax.Error{Kind: syntax.Unsupported, Text: "the e-mail has no invoice attached: neither XML, nor a PDF or an archive with XML in it"})
	}
}

func countMail(in io.ReaderAt, size int64) (n int, err error) {
	err = eachInvoice(in, size, func(attached) error { n++; return nil }, func(kind Kind, file *bytes.Reader) error {
		more, err := Count(kind, file, file.Size())
		n += more
		return err
	})
	if _, ours := errors.AsType[*syntax.Error](err); ours {
		return n + 1, nil // what is damaged is a document that cannot be read
	}
	return n, err
}

// extractMail looks for an embedded file in each invoice of an e-mail.
func extractMail(in io.ReaderAt, size int64, sum string, to io.Writer) error {
	found := false
	look := func(err error) error {
		if err == nil {
			found = true
			return errStop
		}
		if _, bad := errors.AsType[*syntax.Error](err); bad || errors.Is(err, ErrNoFile) {
			return nil // another one may have it
		}
		return err
	}
	err := eachInvoice(in, size, func(a attached) error {
		file, err := a.hold()
		if err != nil {
			return look(err)
		}
		return look(Extract(file, file.Size(), sum, to))
	}, func(_ Kind, file *bytes.Reader) error { return look(Extract(file, file.Size(), sum, to)) })
	if err == nil && !found {
		err = ErrNoFile
	}
	return err
}

// Counter counts the documents of a member while it is written to it, as package bundle says.
type Counter struct {
	Name string // of the member

	head  []byte
	lines int
	text  bool // the line has something in it
}

// Write implements io.Writer. It never fails.
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

// Documents is how many there are, once all was written. 0: it carries some at most; see Count.
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

// Kind says which envelope the member is.
func (c *Counter) Kind() Kind { return Sniff(c.head) }
