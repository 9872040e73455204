package dav

import (
	"encoding/xml"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"example.org/smartdrive/internal/domain/property"
)

// The namespaces that Namespaces in XML 1.0 §3 reserves: only the prefix xml is bound to the first
// one, and no prefix to the second.
const (
	xmlSpace   = "http://www.w3.org/XML/1998/namespace"
	xmlnsSpace = "http://www.w3.org/2000/xmlns/"
)

// checkNames fails with errName or errTwice for an element whose name or attributes break
// Namespaces in XML 1.0, which package xml does not check. A response that repeats the element
// would be ill-formed.
func checkNames(start xml.StartElement) error {
	if !isName(start.Name) {
		return errName
	}
	seen := make(map[Name]bool, len(start.Attr))
	for _, a := range start.Attr {
		if seen[a.Name] {
			return errTwice
		}
		seen[a.Name] = true
		if prefix, declares := declared(a.Name); declares {
			if !mayDeclare(prefix, a.Value) {
				return errName
			}
		} else if !isName(a.Name) {
			return errName
		}
	}
	return nil
}

// declared returns the prefix that an attribute declares; "" for the default namespace. declares is
// false for an attribute that declares none.
func declared(n Name) (prefix string, declares bool) {
	switch {
	case n.Space == "xmlns":
		return n.Local, true
	case n.Space == "" && n.Local == "xmlns":
		return "", true
	}
	return "", false
}

// mayDeclare reports whether a document may bind prefix to the namespace space; prefix "" is the
// default namespace.
func mayDeclare(prefix, space string) bool {
	switch {
	case prefix == "":
		return space != xmlSpace && space != xmlnsSpace
	case prefix == "xmlns" || space == xmlnsSpace || !isLocal(prefix):
		return false
	case space == "": // §2.2: a prefix cannot be undeclared
		return false
	}
	return (prefix == "xml") == (space == xmlSpace)
}

// isName reports whether an element or attribute of this name can be written.
func isName(n Name) bool { return n.Space != "xmlns" && n.Space != xmlnsSpace && isLocal(n.Local) }

// isLocal reports whether s is a valid name without a colon. Package xml only checks qualified
// names, whose local part it lets begin with a digit.
func isLocal(s string) bool {
	if s == "" || !utf8.ValidString(s) || strings.ContainsAny(s, ":/<>&\"'= \t\r\n") {
		return false
	}
	t, err := xml.NewDecoder(strings.NewReader("<" + s + "/>")).RawToken()
	start, ok := t.(xml.StartElement)
	return err == nil && ok && start.Name.Space == "" && start.Name.Local == s && len(start.Attr) == 0
}

// writeElement appends an element with every namespace declaration that it needs, so that the text
// can be inserted anywhere. e.Inner must be well-formed already.
func writeElement(b *strings.Builder, e element) {
	name := e.Name.Local
	if e.Name.Space == xmlSpace {
		name = "xml:" + name
		b.WriteString("<" + name)
	} else {
		b.WriteString("<" + name + ` xmlns="` + escape(e.Name.Space) + `"`)
	}
	for i, a := range e.Attrs {
		if _, declares := declared(a.Name); declares {
			continue
		}
		switch a.Name.Space {
		case "":
			b.WriteString(" " + a.Name.Local)
		case xmlSpace:
			b.WriteString(" xml:" + a.Name.Local)
		default:
			prefix := "a" + strconv.Itoa(i)
			b.WriteString(` xmlns:` + prefix + `="` + escape(a.Name.Space) + `" ` + prefix + ":" + a.Name.Local)
		}
		b.WriteString(`="` + escape(a.Value) + `"`)
	}
	if e.Inner == "" {
		b.WriteString("/>")
		return
	}
	b.WriteString(">" + e.Inner + "</" + name + ">")
}

// wellFormed returns stored XML in a form that can be part of a response. Ill-formed XML, which
// earlier releases stored, becomes "".
func wellFormed(inner string) string {
	if !strings.Contains(inner, "<") { // escaped text
		return inner
	}
	root, err := parseXML([]byte("<a>" + inner + "</a>"))
	if err != nil {
		return ""
	}
	return root.Inner
}

// writable returns the stored properties that can be part of a response.
func writable(all []property.Property) []property.Property {
	all = slices.DeleteFunc(all, func(p property.Property) bool { return !isName(Name{Space: p.Space, Local: p.Local}) })
	for i := range all {
		all[i].Value = wellFormed(all[i].Value)
	}
	return all
}
