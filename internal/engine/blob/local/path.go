package local

import (
	"path/filepath"
	"strconv"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// Directories and files below the root.
const (
	stagingDir    = "staging"
	blobsDir      = "blobs"
	quarantineDir = "quarantine"
	dataFile      = "data"
	journalFile   = "journal"
)

const (
	dirMode  = 0o700 // of new directories
	fileMode = 0o600 // of new files
)

// stagedDir returns the directory of a staged upload.
func (d *Dir) stagedDir(ref blob.Ref) string {
	return filepath.Join(d.root, stagingDir, filepath.FromSlash(ref.Begun.Std().Format("2006/01/02")), ref.ID.String())
}

// blobPath returns the path of content. It returns NotFound for a name that the project does not
// give, so that no other file is reachable.
func (d *Dir) blobPath(name string) (string, error) {
	shard, ok := blob.ShardOf(name)
	if !ok {
		return "", drive.Fail(drive.NotFound)
	}
	return filepath.Join(d.root, blobsDir, shard, name), nil
}

// sealedPath returns the path of an upload's content. It cannot fail, because an upload id is a
// valid name.
func (d *Dir) sealedPath(id drive.UploadID) string {
	name := id.String()
	return filepath.Join(d.root, blobsDir, name[len(name)-2:], name)
}

// shardIndex returns the number of a shard, 0 to 255. It panics for other names.
func shardIndex(name string) int {
	n, err := strconv.ParseUint(name, 16, 8)
	if err != nil {
		panic("local: no shard: " + name)
	}
	return int(n)
}

// isDatePart reports whether name is a valid directory name at level 0 (year), 1 (month) or 2 (day)
// of the dated directories.
func isDatePart(level int, name string) bool {
	limits := [...]struct{ digits, min, max int }{{4, 1970, 9999}, {2, 1, 12}, {2, 1, 31}}[level]
	n, err := strconv.Atoi(name)
	return err == nil && len(name) == limits.digits && n >= limits.min && n <= limits.max
}
