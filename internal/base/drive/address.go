package drive

import "strings"

// Address is a path in a place. A place is the caller's own drive, or one that is shared with them.
//
//	/Photos/a.jpg            in the caller's own drive
//	//Design/Plans/a.pdf     in the space of that name, whatever its case
//	//<id>/a.pdf             in the space of that id, or below the folder of that id
//
// The same form works wherever a path is asked for.
type Address struct {
	Place string // empty: the caller's own drive; else a name or an id
	Path  Path
}

// ParseAddress reads an address. The errors are those of ParsePath.
func ParseAddress(s string) (Address, error) {
	rest, elsewhere := strings.CutPrefix(s, "//")
	if !elsewhere {
		path, err := ParsePath(s)
		return Address{Path: path}, err
	}
	place, below, deeper := strings.Cut(rest, "/")
	name, err := ParseName(place)
	if err != nil {
		return Address{}, err
	}
	path := Path{}
	if deeper && below != "" {
		path, err = ParsePath("/" + below)
	}
	return Address{Place: string(name), Path: path}, err
}

// String returns the form that ParseAddress reads.
func (a Address) String() string {
	if a.Place == "" {
		return a.Path.String()
	}
	if len(a.Path) == 0 {
		return "//" + a.Place
	}
	return "//" + a.Place + a.Path.String()
}
