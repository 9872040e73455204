package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/meta"
	"example.org/smartdrive/internal/engine/sqldb"
)

// format is the version of the backup format. Newer formats are refused.
const format = 1

const (
	// manifestFile is the name of the manifest in a backup.
	manifestFile = "manifest.json"
	// blobsDir is the directory with the contents in a backup.
	blobsDir = "blobs"

	stagingDir    = "staging"    // directory of the store
	quarantineDir = "quarantine" // directory of the store
)

// Manifest describes a backup. It is the file manifest.json of its directory.
type Manifest struct {
	Format       int            `json:"format"`
	Complete     bool           `json:"complete"` // false: the first backup into this directory has not finished
	Installation string         `json:"installation"`
	Generation   int64          `json:"generation"`
	Taken        drive.Time     `json:"taken_at"` // time of the copy of the database
	Database     string         `json:"database"` // file name
	Size         drive.ByteSize `json:"size"`     // of the database
	SHA256       string         `json:"sha256"`   // of the database, in hex as printed by sha256sum
	Blobs        int64          `json:"blobs"`
	Bytes        drive.ByteSize `json:"bytes"`             // total size of the contents
	Missing      []string       `json:"missing,omitempty"` // contents that the installation has lost: run fsck there
	Damaged      []string       `json:"damaged,omitempty"` // contents with wrong bytes in the installation
}

// ReadManifest reads the manifest of a backup. Without one it returns NotFound; it also fails for a
// format of a newer release.
func ReadManifest(dir string) (m Manifest, err error) {
	text, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return m, drive.Wrap(err, drive.NotFound)
	}
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		return m, fmt.Errorf("read the manifest: %w", err)
	}
	if m.Format > format {
		return m, fmt.Errorf("the backup has format %d and this program knows formats up to %d: use a newer release", m.Format, format)
	}
	return m, nil
}

// writeManifest replaces the manifest atomically and durably. On an error the previous one stays.
func writeManifest(dir string, m Manifest) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	temp := filepath.Join(dir, manifestFile+tempSuffix)
	if err := writeFile(temp, append(text, '\n')); err != nil {
		return fmt.Errorf("write the manifest: %w", err)
	}
	return replace(temp, filepath.Join(dir, manifestFile))
}

// check returns nil if the backup is complete and its database has the size and digest of the
// manifest. It reads the whole database.
func (m Manifest) check(dir string) error {
	if !m.Complete {
		return errors.New("the backup is not complete: run it again")
	}
	if m.Installation == "" || m.Size == 0 {
		return errors.New("the backup is of no installation: it was damaged when it was made")
	}
	if m.Database != filepath.Base(m.Database) {
		return fmt.Errorf("the manifest names the database %q", m.Database)
	}
	sum, size, err := digestOf(filepath.Join(dir, m.Database))
	if err == nil && (sum != m.SHA256 || size != m.Size) {
		err = fmt.Errorf("%s is not what the manifest says: it was changed or damaged", m.Database)
	}
	return err
}

// digestOf reads a file and returns its SHA-256, in hex, and its size. The results hold only
// without an error.
func digestOf(path string) (sum string, size drive.ByteSize, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = f.Close() }()
	hash := sha256.New()
	n, err := io.Copy(hash, f)
	return hex.EncodeToString(hash.Sum(nil)), drive.ByteSize(n), err
}

// identity returns the installation and generation of a database. The id is empty if the
// installation was never started.
func identity(ctx context.Context, q sqldb.Querier) (id string, generation int64, err error) {
	if id, err = meta.Find(ctx, q, "installation"); err != nil || id == "" {
		return id, 0, err
	}
	text, err := meta.Find(ctx, q, "generation")
	if err == nil {
		generation, err = strconv.ParseInt(text, 10, 64)
	}
	return id, generation, err
}
