package drive

// Conflict says what to do when the name is taken.
type Conflict string

// The policies.
const (
	ConflictFail    Conflict = "fail"    // refuse with NameTaken
	ConflictRename  Conflict = "rename"  // take "name (2).ext", "name (3).ext", ...
	ConflictReplace Conflict = "replace" // add a version to the file that is there
)

// ParseConflict reads a policy; empty means def.
func ParseConflict(s string, def Conflict) (Conflict, error) {
	switch c := Conflict(s); c {
	case "":
		return def, nil
	case ConflictFail, ConflictRename, ConflictReplace:
		return c, nil
	}
	return "", Bad("conflict", NotAllowed, "allowed", []Conflict{ConflictFail, ConflictRename, ConflictReplace}, "sent", s)
}
