package bundle

import (
	"time"

	"github.com/google/uuid"

	"smartdrive/internal/base/drive"
)

// Limits of a manifest.
const (
	MaxSize      = 4 << 20   // bytes of meta.json: 10,000 members with names of 200 bytes
	MaxMembers   = 10_000    // as many as an export has entries
	MaxSource    = 100       // bytes of a source's name: it is a label in lists and in metrics
	MaxDocuments = 1_000_000 // in one bundle: fifty times what a bundle is meant for, and no sum overflows
	maxType      = 255       // bytes of a media type: RFC 6838 §4.2 has 127 on each side of the slash
	maxBytes     = int64(drive.MaxFileSize)
)

// Names that make a bundle.
const (
	Root     = drive.Name("intake")    // the folder of an account that holds its sources
	MetaName = drive.Name("meta.json") // the member that seals
	Schema   = 1                       // the only version there is
)

// Manifest is meta.json.
type Manifest struct {
	Schema    int       `json:"schema"`
	ID        string    `json:"id"` // a UUIDv7; the name of the bundle's folder
	Source    string    `json:"source"`
	CreatedAt time.Time `json:"created_at"` // by the sender's clock: shown, never decided by
	Members   members   `json:"members"`
}

// Member is one file of a bundle. The manifest is none.
type Member struct {
	Name      string `json:"name"`
	Size      int64  `json:"size"`           // bytes
	SHA256    string `json:"sha256"`         // lower-case hex
	Type      string `json:"type,omitempty"` // media type; empty: unknown
	Documents int    `json:"documents"`      // how many documents are in it: 0 for what only belongs to one, such as a PDF
}

// Declared is how many documents the bundle is said to hold.
func (m *Manifest) Declared() (n int) {
	for _, member := range m.Members {
		n += member.Documents
	}
	return n
}

// Size is the sum of the members' sizes in bytes.
func (m *Manifest) Size() (n int64) {
	for _, member := range m.Members {
		n += member.Size
	}
	return n
}

// NewID returns an id for a bundle.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// Folder returns the path of a bundle's folder.
func Folder(source, id string) drive.Path {
	return drive.Path{Root, drive.Name(source), drive.Name(id)}
}

// Find reports whether a path is that of a meta.json that seals a bundle, and of which. That the
// file is a good manifest, and says the same source and id, is for Decode and the caller to see.
func Find(p drive.Path) (source, id string, ok bool) {
	if len(p) != 4 || p[0] != Root || p[3] != MetaName {
		return "", "", false
	}
	source, id = string(p[1]), string(p[2])
	return source, id, checkSource(source) == nil && checkID(id) == nil
}

// IsID reports whether a folder's name is that of a bundle.
func IsID(name string) bool { return checkID(name) == nil }

// IsSource reports whether a folder's name may be that of a source.
func IsSource(name string) bool { return checkSource(name) == nil }
