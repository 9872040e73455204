package bundle

import (
	"time"

	"github.com/google/uuid"

	"example.org/smartdrive/internal/base/drive"
)

// Limits of a manifest.
const (
	MaxSize      = 4 << 20   // bytes of meta.json; enough for 10,000 members with names of 200 bytes
	MaxMembers   = 10_000    // equal to the maximum number of entries of an export
	MaxSource    = 100       // bytes of a source's name, which is a label in lists and metrics
	MaxDocuments = 1_000_000 // per bundle: fifty times the intended size; sums of it cannot overflow
	maxType      = 255       // bytes of a media type; RFC 6838 §4.2 allows 127 on each side of the slash
	maxBytes     = int64(drive.MaxFileSize)
)

// Fixed names and the schema version of a bundle.
const (
	Root     = drive.Name("intake")    // folder of an account that holds one folder per source
	MetaName = drive.Name("meta.json") // file name of the manifest, which seals the bundle
	Schema   = 1                       // the only version so far
)

// Manifest is the content of meta.json, by which a sender declares the files of a bundle.
type Manifest struct {
	Schema    int       `json:"schema"`
	ID        string    `json:"id"` // UUIDv7, equal to the name of the bundle's folder
	Source    string    `json:"source"`
	CreatedAt time.Time `json:"created_at"` // by the sender's clock: for display only, no decision depends on it
	Members   members   `json:"members"`
}

// Member describes one file of a bundle other than the manifest.
type Member struct {
	Name      string `json:"name"`
	Size      int64  `json:"size"`           // bytes
	SHA256    string `json:"sha256"`         // lower-case hex
	Type      string `json:"type,omitempty"` // media type; empty: unknown
	Documents int    `json:"documents"`      // number of documents in the file; 0 for a file that only accompanies a document, such as a PDF
}

// Declared returns the sum of the members' document counts.
func (m *Manifest) Declared() (n int) {
	for _, member := range m.Members {
		n += member.Documents
	}
	return n
}

// Size returns the sum of the members' sizes in bytes.
func (m *Manifest) Size() (n int64) {
	for _, member := range m.Members {
		n += member.Size
	}
	return n
}

// NewID returns a new UUIDv7 as the id of a bundle.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// Folder returns the path of a bundle's folder, /intake/SOURCE/ID. It does not validate its
// arguments.
func Folder(source, id string) drive.Path {
	return drive.Path{Root, drive.Name(source), drive.Name(id)}
}

// Find reports whether p has the form of the path of a bundle's manifest,
// /intake/SOURCE/ID/meta.json, and returns its source and id. It reads nothing: the caller must
// Decode the manifest and compare source and id. source and id are valid only if ok.
func Find(p drive.Path) (source, id string, ok bool) {
	if len(p) != 4 || p[0] != Root || p[3] != MetaName {
		return "", "", false
	}
	source, id = string(p[1]), string(p[2])
	return source, id, checkSource(source) == nil && checkID(id) == nil
}

// IsID reports whether name is a valid bundle id, that is a UUIDv7 in canonical text form.
func IsID(name string) bool { return checkID(name) == nil }

// IsSource reports whether name is a valid name of a source, that is, whether CheckSource returns
// nil.
func IsSource(name string) bool { return checkSource(name) == nil }
