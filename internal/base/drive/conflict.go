package drive

// Conflict is the policy for a name that exists already.
type Conflict string

// The policies.
const (
	ConflictFail    Conflict = "fail"    // fail with NameTaken
	ConflictRename  Conflict = "rename"  // use "name (2).ext", "name (3).ext", ...
	ConflictReplace Conflict = "replace" // add a version to the existing file
)

// ParseConflict parses a policy; the empty string is def. The error is a BadRequest.
func ParseConflict(s string, def Conflict) (Conflict, error) {
	switch c := Conflict(s); c {
	case "":
		return def, nil
	case ConflictFail, ConflictRename, ConflictReplace:
		return c, nil
	}
	return "", BadField("conflict", NotAllowed, "allowed", []Conflict{ConflictFail, ConflictRename, ConflictReplace}, "sent", s)
}
