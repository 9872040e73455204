package xmlscan

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"unicode/utf8"
)

// Token is the kind of item that Next returns.
type Token uint8

// Tokens. EOF is returned after the root element has ended.
const (
	EOF   Token = iota
	Start       // start of the element Name with Attrs; <a/> gives a Start and an End
	End         // end of the element Name
	Text        // Text is a piece of character data; one text may arrive in several pieces
)

// Limits bound the cost of a document. All fields must be set. The buffer limits a tag to 64 KiB.
type Limits struct {
	Bytes      int64 // size of the document, decoded to UTF-8
	Depth      int   // nesting of elements
	Attributes int   // per element, including namespace declarations
}

// bufferBytes is the size of a buffer, and thereby the maximum length of a tag.
const bufferBytes = 64 << 10

// Scanner reads one document. Results of Name, Attrs and Text are valid until the next call of
// Next. It is not safe for concurrent use.
type Scanner struct {
	limits Limits
	spaces []string

	src        io.Reader
	srcErr     error // final error of src
	read       int64
	buf        []byte
	pos, end   int // buf[pos:end] is not consumed yet
	line       int
	transcoded bool

	name    Name
	attrs   []Attr
	text    []byte
	scratch []byte

	started, rooted bool
	selfClosed      bool // the next token is the End of the element just started
	inCDATA         bool

	names []byte    // names of the open elements, concatenated
	open  []element // open elements, the root first
	bound []binding // declared prefixes, the innermost last
}

// buffers pools the scanners' buffers.
var buffers = sync.Pool{New: func() any { return new([bufferBytes]byte) }}

// New returns a scanner that reads a document from src. Spaces lists the namespaces that the caller
// knows: Name.Space is 1 for the first. The caller must call Close.
func New(src io.Reader, limits Limits, spaces ...string) *Scanner {
	return &Scanner{limits: limits, spaces: spaces, src: src, line: 1, buf: buffers.Get().(*[bufferBytes]byte)[:]}
}

// Close releases the buffer. Results of the scanner become invalid.
func (s *Scanner) Close() {
	if s.buf != nil {
		buffers.Put((*[bufferBytes]byte)(s.buf))
		s.buf, s.pos, s.end = nil, 0, 0
	}
}

// Name returns the name of the element that has started or ended.
func (s *Scanner) Name() Name { return s.name }

// Attrs returns the attributes of the element that has started, without namespace declarations.
func (s *Scanner) Attrs() []Attr { return s.attrs }

// Text returns the current piece of text; it is valid until the next call of Next.
func (s *Scanner) Text() []byte { return s.text }

// Depth returns the number of open elements: 1 at the root's Start, 0 at its End.
func (s *Scanner) Depth() int { return len(s.open) }

// Line returns the line where the next token begins, from 1.
func (s *Scanner) Line() int { return s.line }

// Next returns the next token. After an error it must not be called again.
func (s *Scanner) Next() (Token, error) {
	if !s.started {
		if err := s.begin(); err != nil {
			return EOF, err
		}
	}
	if s.selfClosed {
		s.selfClosed = false
		s.closeElement()
		return End, nil
	}
	for {
		if s.pos == s.end {
			if err := s.fill(); errors.Is(err, io.EOF) {
				return EOF, s.finish()
			} else if err != nil {
				return EOF, err
			}
		}
		if s.inCDATA {
			if found, err := s.cdata(); found || err != nil {
				return Text, err
			}
			continue
		}
		if s.buf[s.pos] != '<' {
			if found, err := s.charData(); found || err != nil {
				return Text, err
			}
			continue
		}
		if token, err := s.markup(); token != EOF || err != nil {
			return token, err
		}
	}
}

// finish returns an Error of kind Malformed if the root element is missing or an element or CDATA
// section is open; else nil.
func (s *Scanner) finish() error {
	if !s.rooted || len(s.open) > 0 || s.inCDATA {
		return s.fail(Malformed, "the document ends too early")
	}
	return nil
}

// fill moves the unconsumed bytes to the front of the buffer and reads more. io.EOF: there is no
// more. A full buffer gives an Error of kind Limit.
func (s *Scanner) fill() error {
	if s.pos > 0 {
		s.end = copy(s.buf, s.buf[s.pos:s.end])
		s.pos = 0
	}
	if s.end == len(s.buf) {
		return s.fail(Limit, "a tag is longer than %d bytes", bufferBytes)
	}
	for tries := 0; s.srcErr == nil; tries++ {
		n, err := s.src.Read(s.buf[s.end:])
		s.end, s.read, s.srcErr = s.end+n, s.read+int64(n), err
		if s.read > s.limits.Bytes {
			return s.fail(Limit, "the document is longer than %d bytes", s.limits.Bytes)
		}
		if n > 0 {
			return nil
		}
		if tries == 100 {
			return io.ErrNoProgress
		}
	}
	return s.srcErr
}

// fillOrFail reads more input by fill. At the end of the input, where the document must not end, it
// returns an Error.
func (s *Scanner) fillOrFail() error {
	err := s.fill()
	if errors.Is(err, io.EOF) {
		return s.fail(Malformed, "the document ends too early")
	}
	return err
}

// advance consumes n buffered bytes and counts their line feeds.
func (s *Scanner) advance(n int) {
	s.line += bytes.Count(s.buf[s.pos:s.pos+n], []byte{'\n'})
	s.pos += n
}

// skipPast consumes everything up to and including a mark. It fails with the error of more if the
// document ends before it.
func (s *Scanner) skipPast(mark string) error {
	for {
		if i := bytes.Index(s.buf[s.pos:s.end], []byte(mark)); i >= 0 {
			s.advance(i + len(mark))
			return nil
		}
		s.advance(max(0, s.end-s.pos-len(mark)+1))
		if err := s.fillOrFail(); err != nil {
			return err
		}
	}
}

// fillTo fills the buffer to at least n unconsumed bytes, unless the document ends earlier. It
// fails only with an error of reading.
func (s *Scanner) fillTo(n int) error {
	for s.end-s.pos < n {
		if err := s.fill(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// startsWith reports whether the buffered, unconsumed bytes start with a mark; it reads nothing.
func (s *Scanner) startsWith(mark string) bool {
	return bytes.HasPrefix(s.buf[s.pos:s.end], []byte(mark))
}

// markup consumes markup that begins with <. For skipped markup it returns EOF without an error.
func (s *Scanner) markup() (Token, error) {
	if err := s.fillTo(len("<![CDATA[")); err != nil {
		return EOF, err
	}
	switch {
	case s.startsWith("<?"):
		return EOF, s.skipPast("?>")
	case s.startsWith("<!--"):
		s.advance(len("<!--"))
		return EOF, s.skipPast("-->")
	case s.startsWith("<![CDATA["):
		if len(s.open) == 0 {
			return EOF, s.fail(Malformed, "text outside of the root element")
		}
		s.advance(len("<![CDATA["))
		s.inCDATA = true
		return EOF, nil
	case s.startsWith("<!"):
		return EOF, s.fail(Refused, "a DOCTYPE or another declaration")
	}
	tag, err := s.tag()
	if err != nil {
		return EOF, err
	}
	if len(tag) > 0 && tag[0] == '/' {
		return End, s.endTag(tag[1:])
	}
	return Start, s.startTag(tag)
}

// tag consumes a tag and returns the text between < and >, which is valid until the next read. It
// fails with the error of more if the document ends within the tag.
func (s *Scanner) tag() ([]byte, error) {
	quote := byte(0)
	for i := 1; ; i++ {
		if s.pos+i == s.end {
			if err := s.fillOrFail(); err != nil {
				return nil, err
			}
		}
		switch c := s.buf[s.pos+i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '>':
			tag := s.buf[s.pos+1 : s.pos+i]
			s.advance(i + 1)
			return tag, nil
		}
	}
}

// cdata makes the next piece of a CDATA section the token, or consumes the section's end. If there
// is no token, the result is false.
func (s *Scanner) cdata() (bool, error) {
	if i := bytes.Index(s.buf[s.pos:s.end], []byte("]]>")); i >= 0 {
		piece := s.buf[s.pos : s.pos+i]
		s.advance(i + len("]]>"))
		s.inCDATA = false
		return s.piece(piece)
	}
	n := wholeRunes(s.buf[s.pos:max(s.pos, s.end-len("]]"))])
	if n == 0 {
		return false, s.fillOrFail()
	}
	piece := s.buf[s.pos : s.pos+n]
	s.advance(n)
	return s.piece(piece)
}

// wholeRunes returns the number of bytes of b up to the end of the last complete rune.
func wholeRunes(b []byte) int {
	for i := 1; i <= min(utf8.UTFMax-1, len(b)); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(b[len(b)-i:]) {
				return len(b) - i
			}
			break
		}
	}
	return len(b)
}
