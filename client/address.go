package client

import (
	"path"
	"strings"
)

// A remote path is absolute: /folder/file in one's own drive, //SPACE/folder/file in a space, or
// //ID/folder/file below a folder that is shared by name. What is before the path is its place.

// SplitPlace cuts the place off a remote path: "//Design/a" is "//Design" and "/a". A path in one's
// own drive has the empty place.
func SplitPlace(p string) (place, rest string) {
	below, elsewhere := strings.CutPrefix(p, "//")
	if !elsewhere {
		return "", p
	}
	name, rest, _ := strings.Cut(below, "/")
	return "//" + name, "/" + rest
}

// CleanPath makes a remote path of what somebody has typed: "a//b/" is "/a/b".
func CleanPath(p string) string {
	place, rest := SplitPlace(p)
	if rest = path.Join("/", rest); place != "" && rest == "/" {
		return place
	}
	return place + rest
}

// JoinPath is the path of what is called name in a folder.
func JoinPath(folder, name string) string {
	place, rest := SplitPlace(folder)
	return CleanPath(place + path.Join("/", rest, name))
}

// DirPath is the folder that the last part of a path is in.
func DirPath(p string) string {
	place, rest := SplitPlace(p)
	return CleanPath(place + path.Dir(path.Join("/", rest)))
}

// isTop reports whether a path is the top folder of its place.
func isTop(p string) bool {
	_, rest := SplitPlace(p)
	return path.Join("/", rest) == "/"
}
