package drive

import "strings"

// Address is a path in a place. A place is the caller's own drive, a space, or a folder shared with
// the caller.
//
//	/Photos/a.jpg            in the caller's own drive
//	//Design/Plans/a.pdf     in the space of that name, case-insensitive
//	//<id>/a.pdf             in the space or below the folder with that id
//
// This form is accepted wherever a path is.
type Address struct {
	Place string // name or id; empty: the caller's own drive
	Path  Path
}

// ParseAddress parses an address: an absolute path in the caller's own account, or //NAME/path in
// the place called NAME. It fails as ParseName and ParsePath do.
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

// String returns the form that ParseAddress parses.
func (a Address) String() string {
	if a.Place == "" {
		return a.Path.String()
	}
	if len(a.Path) == 0 {
		return "//" + a.Place
	}
	return "//" + a.Place + a.Path.String()
}
