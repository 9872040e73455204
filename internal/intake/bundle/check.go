package bundle

import (
	"encoding/hex"
	"fmt"
	"mime"
	"strings"

	"github.com/google/uuid"

	"smartdrive/internal/base/drive"
)

// Reason is what is wrong with a manifest, for a program.
type Reason string

// The reasons.
const (
	NotJSON       Reason = "not-json"       // or not of the form
	TooLarge      Reason = "too-large"      // more than MaxSize bytes
	UnknownSchema Reason = "unknown-schema" // a version that this program does not know: newer, perhaps, and not wrong
	BadID         Reason = "bad-id"
	BadSource     Reason = "bad-source"
	NoTime        Reason = "no-time"
	NoMembers     Reason = "no-members"
	TooManyFiles  Reason = "too-many-members"
	BadName       Reason = "bad-name"
	SameName      Reason = "same-name" // two members whose names are equal but for case
	BadSize       Reason = "bad-size"
	BadDigest     Reason = "bad-sha256"
	BadType       Reason = "bad-type"
	BadDocuments  Reason = "bad-documents"
)

// Error is a manifest that is refused.
type Error struct {
	Reason Reason
	Member int    // the member's place, from 1; 0: it is about the whole
	Name   string // the member's
	Text   string // a sentence for people
}

func (e *Error) Error() string {
	if e.Member > 0 {
		return fmt.Sprintf("%s: member %d (%.300q): %s", MetaName, e.Member, e.Name, e.Text)
	}
	return fmt.Sprintf("%s: %s", MetaName, e.Text)
}

func bad(r Reason, format string, args ...any) error {
	return &Error{Reason: r, Text: fmt.Sprintf(format, args...)}
}

// Check returns an *Error for what is wrong (M1 to M3).
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

func tooMany() error { return bad(TooManyFiles, "more than %d members", MaxMembers) }

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

// CheckName returns an *Error when no member may have this name: it must be a name of a drive as it
// is, in NFC, and neither hidden nor the manifest's own.
func CheckName(name string) error {
	if text := badName(name); text != "" {
		return &Error{BadName, 1, name, text}
	}
	return nil
}

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

// CheckSource returns an *Error when no source may have this name.
func CheckSource(source string) error { return checkSource(source) }

func checkSource(source string) error {
	if text := badName(source); text != "" {
		return bad(BadSource, "source %.120q: %s", source, text)
	}
	if len(source) > MaxSource {
		return bad(BadSource, "source %.120q: a name of %d bytes, at most %d", source, len(source), MaxSource)
	}
	return nil
}

func checkID(id string) error {
	u, err := uuid.Parse(id)
	if err != nil || u.String() != id || u.Version() != 7 || u.Variant() != uuid.RFC4122 {
		return bad(BadID, "id %.80q is not a UUIDv7", id)
	}
	return nil
}

func goodType(t string) bool {
	if t == "" {
		return true
	}
	_, _, err := mime.ParseMediaType(t)
	return err == nil && len(t) <= maxType && strings.Contains(t, "/")
}
