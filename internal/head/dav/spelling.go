package dav

import (
	"slices"
	"strconv"
	"strings"
)

// spelling is which prefixes the elements of an answer have. To most clients they are all the same.
// Some of Nextcloud, that of iOS among them, look for the letters of sabre/dav (View.Sabre)
// and know nothing of namespaces: to them a listing of others is empty.
type spelling struct {
	sabre  bool
	spaces []string // namespaces that have got a prefix: x1, x2, ...
}

func (v View) spelling() *spelling { return &spelling{sabre: v.Sabre} }

const (
	sabreSpace = "http://sabredav.org/ns"
	ownCloud   = "http://owncloud.org/ns"
	nextcloud  = "http://nextcloud.org/ns"
)

var sabreLetter = strings.NewReplacer("<D:", "<d:", "</D:", "</d:", ` xmlns:D="DAV:"`, ` xmlns:d="DAV:"`)

// dav spells XML of this package, in which nothing is from outside but what has no prefix.
func (s *spelling) dav(xml string) string {
	if !s.sabre {
		return xml
	}
	return sabreLetter.Replace(xml)
}

// name is how an element of a name is written, and the attribute that declares its prefix.
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
