package dav

import (
	"slices"
	"strconv"
	"strings"
)

// spelling chooses the namespace prefixes of a response. Most clients accept any. Some Nextcloud
// clients, such as that for iOS, ignore namespaces and expect the prefixes of sabre/dav
// (View.Sabre); with others they see an empty listing.
type spelling struct {
	sabre  bool
	spaces []string // namespaces with an assigned prefix: x1, x2, ...
}

// spelling returns a new spelling for one response of the view.
func (v View) spelling() *spelling { return &spelling{sabre: v.Sabre} }

const (
	// sabreSpace, ownCloud and nextcloud are the namespaces with a prefix that clients expect.
	sabreSpace = "http://sabredav.org/ns"
	ownCloud   = "http://owncloud.org/ns"
	nextcloud  = "http://nextcloud.org/ns"
)

// sabreLetter rewrites the prefix D of "DAV:" to d, as sabre/dav spells it.
var sabreLetter = strings.NewReplacer("<D:", "<d:", "</D:", "</d:", ` xmlns:D="DAV:"`, ` xmlns:d="DAV:"`)

// dav returns XML of this package, which uses the prefix D, with the prefix that the view's clients
// expect. The XML must not contain unescaped text from outside.
func (s *spelling) dav(xml string) string {
	if !s.sabre {
		return xml
	}
	return sabreLetter.Replace(xml)
}

// name returns the qualified name of an element and the attribute that declares its namespace, with
// a leading space; "" if none is needed. It may assign a new prefix and store it in s.spaces.
func (s *spelling) name(n Name) (name, declared string) {
	switch {
	case n.Space == "DAV:" && s.sabre:
		return "d:" + n.Local, ""
	case n.Space == "DAV:":
		return "D:" + n.Local, ""
	case n.Space == xmlSpace:
		return "xml:" + n.Local, ""
	case !s.sabre || n.Space == "":
		return n.Local, ` xmlns="` + escape(n.Space) + `"`
	case n.Space == sabreSpace:
		return "s:" + n.Local, ""
	case n.Space == ownCloud:
		return "oc:" + n.Local, ""
	case n.Space == nextcloud:
		return "nc:" + n.Local, ""
	}
	i := slices.Index(s.spaces, n.Space)
	if i < 0 {
		i = len(s.spaces)
		s.spaces = append(s.spaces, n.Space)
	}
	prefix := "x" + strconv.Itoa(i+1)
	return prefix + ":" + n.Local, " xmlns:" + prefix + `="` + escape(n.Space) + `"`
}
