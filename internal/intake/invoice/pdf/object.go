package pdf

import (
	"bytes"
	"strconv"
	"unicode/utf16"
)

// A PDF object is represented as nil, bool, int64, float64, name, text, ref, array or dict.
type (
	name  string
	text  string
	array []any
	dict  map[name]any
	// ref is a reference to an object, by number. Its generation is ignored.
	ref int64
)

// parser parses objects from bytes.
type parser struct {
	in    []byte
	pos   int
	depth int // remaining nesting depth
}

// isSpace reports whether c is white space of PDF, which includes NUL.
func isSpace(c byte) bool {
	return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\f' || c == 0
}

// isDelimiter reports whether c is a delimiter, which ends a word without white space.
func isDelimiter(c byte) bool { return bytes.IndexByte([]byte("()<>[]{}/%"), c) >= 0 }

// space skips white space and comments.
func (p *parser) space() {
	for p.pos < len(p.in) {
		switch c := p.in[p.pos]; {
		case isSpace(c):
			p.pos++
		case c == '%':
			for p.pos < len(p.in) && p.in[p.pos] != '\n' && p.in[p.pos] != '\r' {
				p.pos++
			}
		default:
			return
		}
	}
}

// word consumes and returns the characters up to the next space or delimiter.
func (p *parser) word() string {
	from := p.pos
	for p.pos < len(p.in) && !isSpace(p.in[p.pos]) && !isDelimiter(p.in[p.pos]) {
		p.pos++
	}
	return string(p.in[from:p.pos])
}

// keyword skips white space and consumes the word want. If another word follows, it consumes
// nothing and returns false.
func (p *parser) keyword(want string) bool {
	p.space()
	from := p.pos
	if p.word() == want {
		return true
	}
	p.pos = from
	return false
}

// number consumes a non-negative integer. If there is none, it consumes nothing and returns false.
func (p *parser) number() (int64, bool) {
	p.space()
	from := p.pos
	n, err := strconv.ParseInt(p.word(), 10, 64)
	if err != nil || n < 0 {
		p.pos = from
		return 0, false
	}
	return n, true
}

// object parses the next object and advances pos behind it; nil for null. It fails with an Error of
// kind Damaged, or Limit for too deep nesting.
func (p *parser) object() (any, error) {
	if p.depth--; p.depth < 0 {
		return nil, limited("objects of the PDF are nested too deeply")
	}
	defer func() { p.depth++ }()
	p.space()
	if p.pos == len(p.in) {
		return nil, damaged("an object of the PDF does not end")
	}
	switch c := p.in[p.pos]; {
	case c == '/':
		return p.name(), nil
	case c == '(':
		return p.literal()
	case bytes.HasPrefix(p.in[p.pos:], []byte("<<")):
		return p.dict()
	case c == '<':
		return p.hex()
	case c == '[':
		return p.array()
	}
	if n, ok := p.number(); ok {
		return p.refOr(n), nil
	}
	return p.scalar()
}

// refOr returns a reference to object n if "0 R" follows, and otherwise the number n.
func (p *parser) refOr(n int64) any {
	from := p.pos
	if _, ok := p.number(); ok && p.keyword("R") {
		return ref(n)
	}
	p.pos = from
	return n
}

// scalar parses null, a boolean or a number; nil for null. It fails with an Error of kind Damaged
// for another word.
func (p *parser) scalar() (any, error) {
	switch word := p.word(); word {
	case "null":
		return nil, nil
	case "true":
		return true, nil
	case "false":
		return false, nil
	default:
		if n, err := strconv.ParseInt(word, 10, 64); err == nil {
			return n, nil
		}
		f, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return nil, damaged("%.20q is not an object of a PDF", word)
		}
		return f, nil
	}
}

// name parses /Name, in which #20 stands for a byte. Malformed escapes are kept as they are.
func (p *parser) name() name {
	p.pos++
	word := p.word()
	if !bytes.Contains([]byte(word), []byte("#")) {
		return name(word)
	}
	var out []byte
	for i := 0; i < len(word); i++ {
		if word[i] == '#' && i+2 < len(word) {
			if c, err := strconv.ParseUint(word[i+1:i+3], 16, 8); err == nil {
				out = append(out, byte(c))
				i += 2
				continue
			}
		}
		out = append(out, word[i])
	}
	return name(out)
}

// array parses an array from its first character on. It fails with an Error of kind Damaged if it
// does not end.
func (p *parser) array() (array, error) {
	p.pos++
	var all array
	for {
		p.space()
		if p.pos == len(p.in) {
			return nil, damaged("an array of the PDF does not end")
		}
		if p.in[p.pos] == ']' {
			p.pos++
			return all, nil
		}
		one, err := p.object()
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
}

// dict parses a dictionary from its first character on. Of equal keys the last one counts. It fails
// with an Error of kind Damaged if it does not end.
func (p *parser) dict() (dict, error) {
	p.pos += 2
	all := dict{}
	for {
		p.space()
		switch {
		case bytes.HasPrefix(p.in[p.pos:], []byte(">>")):
			p.pos += 2
			return all, nil
		case p.pos == len(p.in) || p.in[p.pos] != '/':
			return nil, damaged("a dictionary of the PDF does not end")
		}
		key := p.name()
		value, err := p.object()
		if err != nil {
			return nil, err
		}
		all[key] = value
	}
}

// literal parses (text), in which parentheses nest and a backslash escapes. It fails with an Error
// of kind Damaged if the text does not end.
func (p *parser) literal() (text, error) {
	p.pos++
	var out []byte
	for open := 1; p.pos < len(p.in); p.pos++ {
		switch c := p.in[p.pos]; c {
		case '\\':
			p.pos++
			out = p.escape(out)
			continue
		case '(':
			open++
		case ')':
			if open--; open == 0 {
				p.pos++
				return decodeText(out), nil
			}
		}
		out = append(out, p.in[p.pos])
	}
	return "", damaged("a text of the PDF does not end")
}

// escape appends the value of the escape sequence whose character after the backslash is at pos. It
// leaves pos at the sequence's last byte.
func (p *parser) escape(out []byte) []byte {
	if p.pos == len(p.in) {
		return out
	}
	c := p.in[p.pos]
	if i := bytes.IndexByte([]byte("nrtbf"), c); i >= 0 {
		return append(out, "\n\r\t\b\f"[i])
	}
	if c < '0' || c > '7' {
		if c == '\n' || c == '\r' {
			return out // line continuation
		}
		return append(out, c)
	}
	n, last := 0, p.pos
	for i := p.pos; i < len(p.in) && i < p.pos+3 && p.in[i] >= '0' && p.in[i] <= '7'; i++ {
		n, last = n*8+int(p.in[i]-'0'), i
	}
	p.pos = last
	return append(out, byte(n))
}

// hex parses a hexadecimal text; a missing last digit is 0. It fails with an Error of kind Damaged
// for another character or a missing end.
func (p *parser) hex() (text, error) {
	p.pos++
	end := bytes.IndexByte(p.in[p.pos:], '>')
	if end < 0 {
		return "", damaged("a text of the PDF does not end")
	}
	var digits []byte
	for _, c := range p.in[p.pos : p.pos+end] {
		if !isSpace(c) {
			digits = append(digits, c)
		}
	}
	p.pos += end + 1
	if len(digits)%2 == 1 {
		digits = append(digits, '0')
	}
	out := make([]byte, len(digits)/2)
	for i := range out {
		c, err := strconv.ParseUint(string(digits[2*i:2*i+2]), 16, 8)
		if err != nil {
			return "", damaged("a text of the PDF is not hexadecimal")
		}
		out[i] = byte(c)
	}
	return decodeText(out), nil
}

// decodeText decodes UTF-16 if the text has a byte order mark. It keeps other texts as they are,
// because relevant file names are ASCII.
func decodeText(raw []byte) text {
	if !bytes.HasPrefix(raw, []byte{0xfe, 0xff}) {
		return text(raw)
	}
	units := make([]uint16, 0, len(raw)/2)
	for i := 2; i+1 < len(raw); i += 2 {
		units = append(units, uint16(raw[i])<<8|uint16(raw[i+1]))
	}
	return text(utf16.Decode(units))
}
