package xmlscan

import (
	"bytes"
	"io"
	"strconv"
	"unicode/utf8"
)

// charData makes the next piece of text the token. The result is false if there is no token yet:
// only part of a rune was read, or white space outside of the root element.
func (s *Scanner) charData() (bool, error) {
	window := s.buf[s.pos:s.end]
	if window[0] == '&' {
		return s.reference()
	}
	n := 0 // not IndexByte per mark: it would search a text with many & to its end each time
	for n < len(window) && window[n] != '<' && window[n] != '&' {
		n++
	}
	if n == len(window) {
		if n = wholeRunes(window); n == 0 {
			return false, s.fillOrFail()
		}
	}
	piece := window[:n]
	if bytes.Contains(piece, []byte("]]>")) {
		return false, s.fail(Malformed, "]]> in a text")
	}
	s.advance(n)
	return s.piece(piece)
}

// reference consumes a reference, &...;, and makes its character the token. It returns true; false
// for white space outside of the root element, which is no token. It fails with an Error for an
// unknown or malformed reference.
func (s *Scanner) reference() (bool, error) {
	const longest = len("&#x10ffff;")
	if err := s.fillTo(longest); err != nil {
		return false, err
	}
	r, n, err := s.character(s.buf[s.pos:min(s.end, s.pos+longest)])
	if err != nil {
		return false, err
	}
	s.advance(n)
	s.scratch = utf8.AppendRune(s.scratch[:0], r)
	return s.piece(s.scratch)
}

// character decodes the reference at the beginning of b and returns its length, too. An entity that
// is not predefined gives an Error of kind Refused.
func (s *Scanner) character(b []byte) (rune, int, error) {
	end := bytes.IndexByte(b, ';')
	if end < 0 {
		return 0, 0, s.fail(Refused, "an & that is not a character, or an entity")
	}
	switch name := string(b[1:end]); name {
	case "lt":
		return '<', end + 1, nil
	case "gt":
		return '>', end + 1, nil
	case "amp":
		return '&', end + 1, nil
	case "quot":
		return '"', end + 1, nil
	case "apos":
		return '\'', end + 1, nil
	default:
		if len(name) < 2 || name[0] != '#' {
			return 0, 0, s.fail(Refused, "the entity %.20q", name)
		}
		digits, base := name[1:], 10
		if digits[0] == 'x' {
			digits, base = digits[1:], 16
		}
		n, err := strconv.ParseUint(digits, base, 32)
		if err != nil || !isChar(rune(n)) || n > utf8.MaxRune {
			return 0, 0, s.fail(Malformed, "%.20q is not a character", name)
		}
		return rune(n), end + 1, nil
	}
}

// piece makes a text the token and returns true; false if the text is empty, or white space
// outside of the root element. It returns an Error of kind Malformed for any other text outside
// of the root element and for text that checkText refuses.
func (s *Scanner) piece(text []byte) (bool, error) {
	if err := s.checkText(text); err != nil {
		return false, err
	}
	if len(s.open) == 0 {
		if len(bytes.TrimLeft(text, " \t\r\n")) > 0 {
			return false, s.fail(Malformed, "text outside of the root element")
		}
		return false, nil
	}
	s.text = text
	return len(text) > 0, nil
}

// checkText returns an Error if text is not UTF-8 or contains a character that XML 1.0 §2.2
// excludes.
func (s *Scanner) checkText(text []byte) error {
	ascii := true
	for _, c := range text {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' {
			return s.fail(Malformed, "the control character %#x", c)
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	if ascii {
		return nil
	}
	if !utf8.Valid(text) {
		return s.fail(Malformed, "text that is not UTF-8")
	}
	if bytes.Contains(text, []byte("\uffff")) || bytes.Contains(text, []byte("\ufffe")) {
		return s.fail(Malformed, "U+FFFE or U+FFFF, which are no characters")
	}
	if s.transcoded && bytes.ContainsRune(text, utf8.RuneError) {
		return s.fail(Malformed, "text that is not in the encoding that the document names")
	}
	return nil
}

// isChar reports whether r matches the production Char of XML 1.0 §2.2.
func isChar(r rune) bool {
	return r == '\t' || r == '\n' || r == '\r' || r >= ' ' && r < 0xd800 || r >= 0xe000 && r < 0xfffe || r >= 0x10000 && r <= utf8.MaxRune
}

// ReadAll consumes the text of the current element up to and including its end, and writes it piece
// by piece. A child element gives an Error.
func (s *Scanner) ReadAll(to io.Writer) error {
	for {
		token, err := s.Next()
		switch {
		case err != nil:
			return err
		case token == End:
			return nil
		case token != Text:
			return s.fail(Malformed, "an element inside of a text")
		}
		if _, err := to.Write(s.text); err != nil {
			return err
		}
	}
}
