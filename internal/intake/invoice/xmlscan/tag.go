package xmlscan

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// Name is the name of an element or attribute. Space is 0 for no namespace, n for the n-th
// namespace passed to New, and Foreign for any other.
type Name struct {
	Space int
	Local []byte
}

// Foreign is the Name.Space of namespaces that were not passed to New.
const Foreign = -1

// Attr is an attribute with its decoded value.
type Attr struct {
	Name  Name
	Value []byte
	raw   []byte // name as written, with prefix
}

// element is an open element.
type element struct {
	begin int // offset of its name in Scanner.names
	bound int // number of prefixes bound outside of it
	name  Name
}

// binding binds a prefix to a namespace, as in Name.Space.
type binding struct {
	prefix string
	space  int
}

// startTag opens an element. The argument tag is the text between < and >.
func (s *Scanner) startTag(tag []byte) error {
	if len(s.open) == 0 && s.rooted {
		return s.fail(Malformed, "a second root element")
	}
	if len(s.open) == s.limits.Depth {
		return s.fail(Limit, "elements are nested deeper than %d", s.limits.Depth)
	}
	if n := len(tag); n > 0 && tag[n-1] == '/' {
		s.selfClosed, tag = true, tag[:n-1]
	}
	n := nameLength(tag)
	raw, rest := tag[:n], tag[n:]
	s.rooted = true
	s.open = append(s.open, element{begin: len(s.names), bound: len(s.bound)})
	s.names = append(s.names, raw...)
	if err := s.attributes(rest); err != nil {
		return err
	}
	name, err := s.resolve(raw, true)
	if err != nil {
		return err
	}
	current := &s.open[len(s.open)-1]
	kept := s.names[current.begin:]
	current.name = Name{Space: name.Space, Local: kept[len(kept)-len(name.Local):]}
	s.name = name
	for i := range s.attrs {
		if s.attrs[i].Name, err = s.resolve(s.attrs[i].raw, false); err != nil {
			return err
		}
	}
	return nil
}

// endTag closes an element. If it is not the innermost open one, the error is of kind Malformed.
func (s *Scanner) endTag(tag []byte) error {
	tag = bytes.TrimRight(tag, " \t\r\n")
	if len(s.open) == 0 || !bytes.Equal(tag, s.names[s.open[len(s.open)-1].begin:]) {
		return s.fail(Malformed, "</%.60s> ends nothing", tag)
	}
	s.closeElement()
	return nil
}

// closeElement closes the innermost element. Its name stays valid until the next Start.
func (s *Scanner) closeElement() {
	last := s.open[len(s.open)-1]
	s.name = Name{Space: last.name.Space, Local: s.names[len(s.names)-len(last.name.Local):]}
	s.open, s.names, s.bound = s.open[:len(s.open)-1], s.names[:last.begin], s.bound[:last.bound]
}

// attributes parses the attributes of a tag into s.attrs and binds the prefixes that they declare.
// It fails with an Error of kind Malformed, or Limit for too many.
func (s *Scanner) attributes(rest []byte) error {
	s.attrs, s.scratch = s.attrs[:0], s.scratch[:0]
	for count := 0; ; count++ {
		trimmed := bytes.TrimLeft(rest, " \t\r\n")
		if len(trimmed) == 0 {
			return nil
		}
		if count == s.limits.Attributes {
			return s.fail(Limit, "an element has more than %d attributes", s.limits.Attributes)
		}
		n := nameLength(trimmed)
		name, after := trimmed[:n], bytes.TrimLeft(trimmed[n:], " \t\r\n")
		if len(trimmed) == len(rest) || len(after) == 0 || after[0] != '=' {
			return s.fail(Malformed, "an attribute is not written name=\"value\"")
		}
		after = bytes.TrimLeft(after[1:], " \t\r\n")
		if len(after) == 0 || after[0] != '"' && after[0] != '\'' {
			return s.fail(Malformed, "the attribute %.60q has no value in quotes", name)
		}
		end := bytes.IndexByte(after[1:], after[0]) + 1
		if end == 0 {
			return s.fail(Malformed, "the attribute %.60q has no value in quotes", name)
		}
		value, err := s.attributeValue(after[1:end])
		if err != nil {
			return err
		}
		rest = after[end+1:]
		if err := s.attribute(name, value); err != nil {
			return err
		}
	}
}

// attribute handles one attribute: it binds a prefix, or adds the attribute to attrs. A duplicate
// name gives an Error.
func (s *Scanner) attribute(name, value []byte) error {
	if string(name) == "xmlns" {
		return s.bind("", value)
	}
	if prefix, ok := bytes.CutPrefix(name, []byte("xmlns:")); ok {
		if len(value) == 0 {
			return s.fail(Malformed, "the prefix %.60q stands for nothing", prefix)
		}
		return s.bind(string(prefix), value)
	}
	for i := range s.attrs {
		if bytes.Equal(s.attrs[i].raw, name) {
			return s.fail(Malformed, "the attribute %.60q is there twice", name)
		}
	}
	s.attrs = append(s.attrs, Attr{raw: name, Value: value})
	return nil
}

// attributeValue checks a value and decodes its references. The result shares value or s.scratch,
// so it is valid up to the next tag. It fails with an Error of kind Malformed.
func (s *Scanner) attributeValue(value []byte) ([]byte, error) {
	if bytes.IndexByte(value, '<') >= 0 {
		return nil, s.fail(Malformed, "a < in the value of an attribute")
	}
	if err := s.checkText(value); err != nil || bytes.IndexByte(value, '&') < 0 {
		return value, err
	}
	from := len(s.scratch)
	for len(value) > 0 {
		if value[0] != '&' {
			s.scratch, value = append(s.scratch, value[0]), value[1:]
			continue
		}
		r, n, err := s.character(value)
		if err != nil {
			return nil, err
		}
		s.scratch, value = utf8.AppendRune(s.scratch, r), value[n:]
	}
	return s.scratch[from:len(s.scratch):len(s.scratch)], nil
}

// bind binds a prefix to a namespace until the innermost element ends.
func (s *Scanner) bind(prefix string, uri []byte) error {
	for i := s.open[len(s.open)-1].bound; i < len(s.bound); i++ {
		if s.bound[i].prefix == prefix {
			return s.fail(Malformed, "the prefix %.60q is declared twice", prefix)
		}
	}
	space := Foreign
	if len(uri) == 0 {
		space = 0
	}
	for i := range s.spaces {
		if string(uri) == s.spaces[i] {
			space = i + 1
		}
	}
	s.bound = append(s.bound, binding{prefix, space})
	return nil
}

// resolve returns the name with its namespace. The default namespace applies to elements only. An
// unbound prefix gives an Error.
func (s *Scanner) resolve(raw []byte, isElement bool) (Name, error) {
	if len(raw) == 0 {
		return Name{}, s.fail(Malformed, "a tag without a name")
	}
	prefix, local, found := bytes.Cut(raw, []byte{':'})
	if !found {
		prefix, local = nil, raw
		if !isElement {
			return Name{Local: local}, nil
		}
	} else if len(prefix) == 0 || len(local) == 0 || bytes.IndexByte(local, ':') >= 0 {
		return Name{}, s.fail(Malformed, "the name %.60q", raw)
	}
	for _, b := range slices.Backward(s.bound) {
		if b.prefix == string(prefix) {
			return Name{Space: b.space, Local: local}, nil
		}
	}
	switch string(prefix) {
	case "":
		return Name{Local: local}, nil
	case "xml":
		return Name{Space: Foreign, Local: local}, nil
	}
	return Name{}, s.fail(Malformed, "the prefix %.60q is not declared", prefix)
}

// nameLength returns the length of the name at the beginning of b. All characters beyond ASCII
// count as letters.
func nameLength(b []byte) int {
	for i, c := range b {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == ':' || c >= utf8.RuneSelf
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '-' && c != '.') {
			return i
		}
	}
	return len(b)
}
