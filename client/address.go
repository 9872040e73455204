package client

import (
	"path"
	"strings"
)

// A remote path is absolute: /folder/file in the user's own drive, //SPACE/folder/file in a space,
// or //ID/folder/file below a folder shared by name. The first component, "//SPACE" or "//ID", is
// the place of the path.

// SplitPlace splits a remote path into its place and the path there: "//Design/a" into "//Design"
// and "/a". The place of a path in the user's own drive is "".
func SplitPlace(p string) (place, rest string) {
	below, elsewhere := strings.CutPrefix(p, "//")
	if !elsewhere {
		return "", p
	}
	name, rest, _ := strings.Cut(below, "/")
	return "//" + name, "/" + rest
}

// CleanPath normalizes a remote path: "a//b/" becomes "/a/b". A place at the beginning (see
// SplitPlace) is kept as it is.
func CleanPath(p string) string {
	place, rest := SplitPlace(p)
	if rest = path.Join("/", rest); place != "" && rest == "/" {
		return place
	}
	return place + rest
}

// JoinPath returns the normalized path of the entry called name in a folder, in the folder's place.
func JoinPath(folder, name string) string {
	place, rest := SplitPlace(folder)
	return CleanPath(place + path.Join("/", rest, name))
}

// DirPath returns the path of the parent folder, in the same place. The top folder is its own
// parent.
func DirPath(p string) string {
	place, rest := SplitPlace(p)
	return CleanPath(place + path.Dir(path.Join("/", rest)))
}

// isTop reports whether a path is the top folder of its place.
func isTop(p string) bool {
	_, rest := SplitPlace(p)
	return path.Join("/", rest) == "/"
}
