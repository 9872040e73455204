package syntax

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"example.org/smartdrive/internal/intake/invoice/xmlscan"
)

// A syntax is a table of rows. Each row maps an element, by its path below the root, to a place in
// the model. The table is converted into a tree once, and the decoder walks the tree along with the
// stream. Elements that are in no table are skipped.

// place returns a pointer to the destination in the model: *string, *invoice.Decimal, *invoice.Date
// or *bool.
type place func(b *builder) any

// row maps an element, or an attribute (path@name). begin runs at its start, and the element then
// counts as an item. to is the destination of its text. end runs at its end, after its children.
type row struct {
	path  string
	to    place
	begin func(b *builder)
	end   func(b *builder)
	file  bool // the text is base64 of an embedded file, which is hashed but not stored

	// handling of a second, different value; neither set: a contradiction
	also   func(b *builder, value any) // stores it as well
	detail bool                        // drops it and records a warning with its place
}

// withPrefix prefixes the paths of rows with a path.
func withPrefix(path string, rows []row) []row {
	below := slices.Clone(rows)
	for i := range below {
		if strings.HasPrefix(below[i].path, "@") {
			below[i].path = path + below[i].path
		} else {
			below[i].path = path + "/" + below[i].path
		}
	}
	return below
}

// node is an element or attribute in the tree of a syntax.
type node struct {
	space    int
	path     string
	children map[string]*node
	attrs    map[string]*node
	row      row

	counted  []counter // counters that this element increments
	scopes   []counter // counters that this element resets
	counters int       // in the root: number of counters
}

// grow converts tables into a tree. Spaces lists the prefixes that paths use, in the order of the
// scanner's namespaces.
func grow(spaces []string, tables ...[]row) *node {
	root := &node{children: map[string]*node{}}
	for _, r := range slices.Concat(tables...) {
		path, attr, isAttr := strings.Cut(r.path, "@")
		at := root.descend(spaces, path)
		if !isAttr {
			at.row = r
			continue
		}
		if at.attrs == nil {
			at.attrs = map[string]*node{}
		}
		at.attrs[attr] = &node{path: "@" + attr, row: r}
	}
	return root
}

// descend returns the node of a path below n, and creates missing nodes.
func (n *node) descend(spaces []string, path string) *node {
	for step := range strings.SplitSeq(path, "/") {
		if step == "" {
			continue
		}
		prefix, local, found := strings.Cut(step, ":")
		if !found {
			prefix, local = "", step
		}
		if n.children == nil {
			n.children = map[string]*node{}
		}
		next, ok := n.children[local]
		if !ok {
			next = &node{space: slices.Index(spaces, prefix) + 1, path: step}
			n.children[local] = next
		}
		n = next
	}
	return n
}

// find returns the node of an existing path, so that a tree can be made recursive.
func (n *node) find(path string) *node {
	for step := range strings.SplitSeq(path, "/") {
		n = n.children[step[strings.IndexByte(step, ':')+1:]]
	}
	return n
}

// walk decodes the root element, whose start has been read, to the end of the file. It fails with
// the first Error of the scanner or of a row.
func walk(s *xmlscan.Scanner, root *node, b *builder) error {
	b.path = append(b.path[:0], root)
	b.counts = append(b.counts[:0], make([]int32, root.counters)...)
	for {
		token, err := s.Next()
		if err != nil {
			return err
		}
		at := b.path[len(b.path)-1]
		b.lineNo = s.Line()
		switch token {
		case xmlscan.Start:
			name := s.Name()
			child := at.children[string(name.Local)]
			switch {
			case at.row.to != nil:
				err = &Error{Kind: Malformed, Text: fmt.Sprintf("the element %.60q stands within the value of %s", name.Local, at.path)}
			case child == nil || child.space != name.Space:
				err = skip(s)
			default:
				err = b.open(s, child)
			}
		case xmlscan.Text:
			if at.row.to != nil {
				err = b.append(s.Text())
			}
		case xmlscan.End:
			err = b.close(at)
			if b.path = b.path[:len(b.path)-1]; len(b.path) == 0 && err == nil {
				_, err = s.Next() // EOF, or an error after the root
				return err
			}
		case xmlscan.EOF:
			return errors.New("the scanner has ended inside of an element")
		}
		if err != nil {
			return fail(err, s.Line(), at)
		}
	}
}

// open handles the start of an element: it runs begin, stores attributes, and reads an embedded
// file. It fails with an Error for a value that cannot be stored.
func (b *builder) open(s *xmlscan.Scanner, n *node) error {
	b.text = b.text[:0]
	b.beginElement(n)
	if n.row.begin != nil {
		if b.items--; b.items < 0 {
			return &Error{Kind: Limit, Text: "too many lines, notes or the like"}
		}
		n.row.begin(b)
	}
	for _, attr := range s.Attrs() {
		if at, ok := n.attrs[string(attr.Name.Local)]; ok && attr.Name.Space == 0 {
			if err := b.set(at.row.to, at, attr.Value); err != nil {
				return err
			}
		}
	}
	if n.row.file {
		return b.embedded(s, n)
	}
	b.path = append(b.path, n)
	return nil
}

// close handles the end of an element: it stores its text and runs end. It fails with an Error for
// a text that cannot be stored.
func (b *builder) close(n *node) error {
	if n.row.to != nil {
		if err := b.set(n.row.to, n, b.text); err != nil {
			return err
		}
	}
	b.text = b.text[:0]
	if n.row.end != nil {
		n.row.end(b)
	}
	b.endElement(n)
	return nil
}

// skip reads to the end of the element that has started. It fails with the scanner's error.
func skip(s *xmlscan.Scanner) error {
	for depth := s.Depth(); s.Depth() >= depth; {
		if _, err := s.Next(); err != nil {
			return err
		}
	}
	return nil
}

// fail adds the line, and for an invalid value the element, to an Error.
func fail(err error, line int, at *node) error {
	var ours *Error
	if errors.As(err, &ours) && ours.Line == 0 {
		ours.Line = line
		if at.path != "" && ours.Kind == BadValue {
			ours.Text = fmt.Sprintf("%s: %s", at.path, ours.Text)
		}
	}
	return err
}
