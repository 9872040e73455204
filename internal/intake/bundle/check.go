package bundle

import (
	"encoding/hex"
	"fmt"
	"mime"
	"strings"

	"github.com/google/uuid"

	"example.org/smartdrive/internal/base/drive"
)

// Reason is the machine-readable code of a defect in a manifest.
type Reason string

// Reasons of an Error.
const (
	NotJSON       Reason = "not-json"       // not JSON, or JSON of another structure
	TooLarge      Reason = "too-large"      // more than MaxSize bytes
	UnknownSchema Reason = "unknown-schema" // schema version unknown to this program; a newer version may know it
	BadID         Reason = "bad-id"
	BadSource     Reason = "bad-source"
	NoTime        Reason = "no-time"
	NoMembers     Reason = "no-members"
	TooManyFiles  Reason = "too-many-members"
	BadName       Reason = "bad-name"
	SameName      Reason = "same-name" // two member names are equal, ignoring case
	BadSize       Reason = "bad-size"
	BadDigest     Reason = "bad-sha256"
	BadType       Reason = "bad-type"
	BadDocuments  Reason = "bad-documents"
)

// Error reports a defect of a manifest.
type Error struct {
	Reason Reason
	Member int    // position of the defective member, from 1; 0: the defect is not in one member
	Name   string // name of the defective member
	Text   string // explanation for people
}

func (e *Error) Error() string {
	if e.Member > 0 {
		return fmt.Sprintf("%s: member %d (%.300q): %s", MetaName, e.Member, e.Name, e.Text)
	}
	return fmt.Sprintf("%s: %s", MetaName, e.Text)
}

// bad returns an *Error that concerns the manifest as a whole, not one member. The formatted text
// is shown to the sender.
func bad(r Reason, format string, args ...any) error {
	return &Error{Reason: r, Text: fmt.Sprintf(format, args...)}
}

// Check returns an *Error for the first violation of the rules M1 to M3 of the package comment; nil
// for a valid manifest.
func (m *Manifest) Check() error {
	if m.Schema != Schema {
		return bad(UnknownSchema, "schema %d, known is %d", m.Schema, Schema)
	}
	if err := checkID(m.ID); err != nil {
		return err
	}
	if err := checkSource(m.Source); err != nil {
		return err
	}
	if m.CreatedAt.IsZero() {
		return bad(NoTime, "created_at is missing")
	}
	switch n := len(m.Members); {
	case n == 0:
		return bad(NoMembers, "there are no members")
	case n > MaxMembers:
		return tooMany()
	}
	return m.checkMembers()
}

// tooMany returns the *Error for a manifest of more than MaxMembers members.
func tooMany() error { return bad(TooManyFiles, "more than %d members", MaxMembers) }

// checkMembers checks names, sizes, digests, types and document counts of all members, and their
// sums. It returns an *Error for the first defective member.
func (m *Manifest) checkMembers() error {
	seen := make(map[string]int, len(m.Members))
	var size int64
	documents := 0
	for i, member := range m.Members {
		refuse := func(r Reason, format string, args ...any) error {
			return &Error{r, i + 1, member.Name, fmt.Sprintf(format, args...)}
		}
		if text := badName(member.Name); text != "" {
			return refuse(BadName, "%s", text)
		}
		folded := drive.Name(member.Name).Fold()
		if first, taken := seen[folded]; taken {
			return refuse(SameName, "the name of member %d", first)
		}
		seen[folded] = i + 1
		if member.Size < 0 || member.Size > maxBytes || size+member.Size > maxBytes {
			return refuse(BadSize, "a size of %d bytes", member.Size)
		}
		size += member.Size
		if sum, err := hex.DecodeString(member.SHA256); err != nil || len(sum) != 32 || strings.ToLower(member.SHA256) != member.SHA256 {
			return refuse(BadDigest, "sha256 is not 64 digits of lower-case hex")
		}
		if !goodType(member.Type) {
			return refuse(BadType, "%.80q is not a media type", member.Type)
		}
		if member.Documents < 0 || member.Documents > MaxDocuments-documents {
			return refuse(BadDocuments, "%d documents; a bundle holds 0 to %d", member.Documents, MaxDocuments)
		}
		documents += member.Documents
	}
	return nil
}

// CheckName returns an *Error if name is not valid for a member. A valid name is a drive name in
// NFC that does not begin with a dot and is not meta.json in any case.
func CheckName(name string) error {
	if text := badName(name); text != "" {
		return &Error{BadName, 1, name, text}
	}
	return nil
}

// badName returns the reason why name is not valid for a member; empty: it is valid.
func badName(name string) string {
	parsed, err := drive.ParseName(name)
	switch {
	case err != nil:
		return "a name that no drive takes"
	case string(parsed) != name:
		return "a name that is not in Unicode's normal form C"
	case strings.HasPrefix(name, "."):
		return "a name that begins with a dot"
	case parsed.Fold() == MetaName.Fold():
		return "the name of the manifest itself"
	}
	return ""
}

// CheckSource returns an *Error if source is not valid as the name of a source: a valid member name
// of at most MaxSource bytes.
func CheckSource(source string) error { return checkSource(source) }

// checkSource returns an *Error of reason BadSource unless source is a valid file name of at most
// MaxSource bytes.
func checkSource(source string) error {
	if text := badName(source); text != "" {
		return bad(BadSource, "source %.120q: %s", source, text)
	}
	if len(source) > MaxSource {
		return bad(BadSource, "source %.120q: a name of %d bytes, at most %d", source, len(source), MaxSource)
	}
	return nil
}

// checkID returns an *Error if id is not a UUIDv7 in canonical text form.
func checkID(id string) error {
	u, err := uuid.Parse(id)
	if err != nil || u.String() != id || u.Version() != 7 || u.Variant() != uuid.RFC4122 {
		return bad(BadID, "id %.80q is not a UUIDv7", id)
	}
	return nil
}

// goodType reports whether t is empty or a media type of at most maxType bytes.
func goodType(t string) bool {
	if t == "" {
		return true
	}
	_, _, err := mime.ParseMediaType(t)
	return err == nil && len(t) <= maxType && strings.Contains(t, "/")
}
