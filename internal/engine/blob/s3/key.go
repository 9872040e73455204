package s3

import (
	"path"
	"strings"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// What keys begin with, below the prefix.
const (
	blobsDir      = "blobs/"
	quarantineDir = "quarantine/"
	probeDir      = "probe/"
	tailsDir      = "tails/" // pieces of tails: tails/<upload id>/<part>-<offset in the part>-<random>

	// stagingDir is not a place in the bucket: staged uploads are shown under it, with the date of
	// their id.
	stagingDir = "staging/"
	// strayDir shows multipart uploads whose key no upload has.
	strayDir = "multipart/"
)

// key returns the whole key of a place.
func (b *Bucket) key(place string) string { return b.prefix + place }

// blobPlace returns the place of content, or NotFound for a name that the project does not give:
// nothing else can be reached.
func blobPlace(name string) (string, error) {
	shard, ok := blob.ShardOf(name)
	if !ok {
		return "", drive.Fail(drive.NotFound)
	}
	return blobsDir + shard + "/" + name, nil
}

// blobKey returns the key of content.
func (b *Bucket) blobKey(name string) (string, error) {
	place, err := blobPlace(name)
	return b.key(place), err
}

// contentKey is blobKey for an upload, whose id is always a good name. Its multipart uploads have
// this key too.
func (b *Bucket) contentKey(id drive.UploadID) string {
	name := id.String()
	return b.key(blobsDir + name[len(name)-2:] + "/" + name)
}

// nameOf returns the name of content by its place; empty when the place does not follow the rules.
func nameOf(place string) string {
	name := path.Base(place)
	if want, err := blobPlace(name); err != nil || want != place {
		return ""
	}
	return name
}

// uploadOf returns whose multipart uploads have a place as their key.
func uploadOf(place string) (drive.UploadID, bool) {
	id, err := drive.ParseID[drive.UploadID](nameOf(place))
	return id, err == nil
}

// stagedPlace returns what stands for a staged upload in lists: as in a directory,
// staging/2026/11/20/<id>, by the time in the id.
func stagedPlace(id drive.UploadID) string {
	var ms int64
	for _, b := range id[:6] {
		ms = ms<<8 | int64(b)
	}
	return stagingDir + time.UnixMilli(ms).UTC().Format("2006/01/02/") + id.String()
}

// quarantinePlace returns where something goes that nobody can explain.
func (b *Bucket) quarantinePlace(place string) string {
	return quarantineDir + b.now().UTC().Format("2006-01-02/") + strings.ReplaceAll(place, "/", "_")
}
