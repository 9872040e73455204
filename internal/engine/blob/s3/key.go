package s3

import (
	"path"
	"strings"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// Prefixes of keys, below the bucket prefix.
const (
	blobsDir      = "blobs/"
	quarantineDir = "quarantine/"
	probeDir      = "probe/"
	tailsDir      = "tails/" // pieces of tails: tails/<upload id>/<part>-<offset in the part>-<random>

	// stagingDir is not a key prefix: staged uploads are listed under it, by the date of their id.
	stagingDir = "staging/"
	// strayDir is not a key prefix either: multipart uploads whose key belongs to no upload are
	// listed under it.
	strayDir = "multipart/"
)

// key returns the full key of a place.
func (b *Bucket) key(place string) string { return b.prefix + place }

// blobPlace returns the place of content. It returns NotFound for a name that the project does not
// give, so that no other key is reachable.
func blobPlace(name string) (string, error) {
	shard, ok := blob.ShardOf(name)
	if !ok {
		return "", drive.Fail(drive.NotFound)
	}
	return blobsDir + shard + "/" + name, nil
}

// blobKey returns the full key of content, with the error of blobPlace.
func (b *Bucket) blobKey(name string) (string, error) {
	place, err := blobPlace(name)
	return b.key(place), err
}

// contentKey returns the full key of an upload's content, which is also the key of its multipart
// uploads.
func (b *Bucket) contentKey(id drive.UploadID) string {
	name := id.String()
	return b.key(blobsDir + name[len(name)-2:] + "/" + name)
}

// nameOf returns the name of the content at place; empty if the place does not follow the rules.
func nameOf(place string) string {
	name := path.Base(place)
	if want, err := blobPlace(name); err != nil || want != place {
		return ""
	}
	return name
}

// uploadOf returns the upload whose content has this place; false if there is none.
func uploadOf(place string) (drive.UploadID, bool) {
	id, err := drive.ParseID[drive.UploadID](nameOf(place))
	return id, err == nil
}

// stagedPlace returns the place under which a staged upload is listed: staging/2026/11/20/<id>, by
// the time in the id.
func stagedPlace(id drive.UploadID) string {
	var ms int64
	for _, b := range id[:6] {
		ms = ms<<8 | int64(b)
	}
	return stagingDir + time.UnixMilli(ms).UTC().Format("2006/01/02/") + id.String()
}

// quarantinePlace returns the place in today's quarantine for the entry at place.
func (b *Bucket) quarantinePlace(place string) string {
	return quarantineDir + b.now().UTC().Format("2006-01-02/") + strings.ReplaceAll(place, "/", "_")
}
