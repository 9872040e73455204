package xmlscan

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"unicode/utf8"
)

// Token is what Next has found.
type Token uint8

// The tokens. A document is EOF after its root element has ended.
const (
	EOF   Token = iota
	Start       // Name and Attrs say which; <a/> is a Start and an End
	End         // Name says which
	Text        // Text is a piece of character data; one text may come in several
)

// Limits bound what a document may cost. All fields must be set; the buffer bounds a tag to 64 KiB
// less what precedes it.
type Limits struct {
	Bytes      int64 // of the document, decoded to UTF-8
	Depth      int   // of elements
	Attributes int   // of one element, declarations of namespaces included
}

const bufferBytes = 64 << 10

// Scanner reads one document. What Name, Attrs and Text return is valid until the next call of
// Next.
type Scanner struct {
	limits Limits
	spaces []string

	src        io.Reader
	srcErr     error // what src has ended with
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
	selfClosed      bool // the next token is the End of what was just started
	inCDATA         bool

	names []byte    // the names of the open elements, one after another
	open  []element // the open elements
	bound []binding // the prefixes that are declared, innermost last
}

var buffers = sync.Pool{New: func() any { return new([bufferBytes]byte) }}

// New reads a document from src. Spaces are the namespaces that the caller knows: Name.Space is 1
// for the first. Close gives the buffer back.
func New(src io.Reader, limits Limits, spaces ...string) *Scanner {
	return &Scanner{limits: limits, spaces: spaces, src: src, line: 1, buf: buffers.Get().(*[bufferBytes]byte)[:]}
}

// Close ends the use of the scanner; what it returned is not valid any more.
func (s *Scanner) Close() {
	if s.buf != nil {
		buffers.Put((*[bufferBytes]byte)(s.buf))
		s.buf, s.pos, s.end = nil, 0, 0
	}
}

// Name returns the name of the element that has started or ended.
func (s *Scanner) Name() Name { return s.name }

// Attrs returns the attributes of the element that has started, without declarations of namespaces.
func (s *Scanner) Attrs() []Attr { return s.attrs }

// Text returns the piece of text.
func (s *Scanner) Text() []byte { return s.text }

// Depth returns how many elements are open: 1 at the root's Start, 0 at its End.
func (s *Scanner) Depth() int { return len(s.open) }

// Line returns the line where the next token begins, from 1.
func (s *Scanner) Line() int { return s.line }

// Next finds the next token. After an error it must not be called again.
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

func (s *Scanner) finish() error {
	if !s.rooted || len(s.open) > 0 || s.inCDATA {
		return s.fail(Malformed, "the document ends too early")
	}
	return nil
}

// fill reads more behind what is not consumed. It returns io.EOF when there is no more.
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

// more is fill where the document must not end.
func (s *Scanner) more() error {
	err := s.fill()
	if errors.Is(err, io.EOF) {
		return s.fail(Malformed, "the document ends too early")
	}
	return err
}

func (s *Scanner) advance(n int) {
	s.line += bytes.Count(s.buf[s.pos:s.pos+n], []byte{'\n'})
	s.pos += n
}

// skipPast consumes everything up to and with a mark.
func (s *Scanner) skipPast(mark string) error {
	for {
		if i := bytes.Index(s.buf[s.pos:s.end], []byte(mark)); i >= 0 {
			s.advance(i + len(mark))
			return nil
		}
		s.advance(max(0, s.end-s.pos-len(mark)+1))
		if err := s.more(); err != nil {
			return err
		}
	}
}

// see makes sure that n bytes can be looked at, unless the document ends before.
func (s *Scanner) see(n int) error {
	for s.end-s.pos < n {
		if err := s.fill(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (s *Scanner) startsWith(mark string) bool {
	return bytes.HasPrefix(s.buf[s.pos:s.end], []byte(mark))
}

// markup consumes what begins with <. It returns EOF for what is skipped.
func (s *Scanner) markup() (Token, error) {
	if err := s.see(len("<![CDATA[")); err != nil {
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

// tag consumes a tag and returns what is between < and >.
func (s *Scanner) tag() ([]byte, error) {
	quote := byte(0)
	for i := 1; ; i++ {
		if s.pos+i == s.end {
			if err := s.more(); err != nil {
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

// cdata finds the next piece of a CDATA section, or its end.
func (s *Scanner) cdata() (bool, error) {
	if i := bytes.Index(s.buf[s.pos:s.end], []byte("]]>")); i >= 0 {
		piece := s.buf[s.pos : s.pos+i]
		s.advance(i + len("]]>"))
		s.inCDATA = false
		return s.piece(piece)
	}
	n := wholeRunes(s.buf[s.pos:max(s.pos, s.end-len("]]"))])
	if n == 0 {
		return false, s.more()
	}
	piece := s.buf[s.pos : s.pos+n]
	s.advance(n)
	return s.piece(piece)
}

// wholeRunes returns how many bytes of b are complete runes, but all of b if it does not end within
// one.
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
