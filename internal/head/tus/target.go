package tus

import (
	"encoding/hex"
	"mime"
	"strings"
	"unicode"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload"
)

// defaultName returns a unique name for a file without a name, such as upload-0123456789ab. A fixed
// name would conflict: finding the next free number of a name taken thousands of times costs about
// twenty look-ups, and concurrent requests would find the same one.
func defaultName() string {
	const random = 24 // start of the last 12 digits of an id
	return "upload-" + drive.NewID[drive.UploadID]().String()[random:]
}

// readBegin builds a Begin from the metadata:
//
//	path            target path from the root; with a trailing slash it is the folder. //SPACE/path
//	                is a path in a space, //ID/path one in a shared folder
//	relativePath    (Uppy) path below the dropped folder
//	filename, name  file name
//	filetype, type  media type
//	conflict        rename (default), fail or replace
//	blake3, sha256, sm3, sha1, md5
//	                digest in hex, verified before the file is visible
//
// Missing folders are created. Errors: BadName, BadRequest.
func (m metadata) readBegin() (upload.Begin, error) {
	b := upload.Begin{Protocol: upload.Tus, Parents: true, Mime: mediaType(m.first("filetype", "type"))}
	at, err := m.path()
	if err != nil {
		return b, err
	}
	b.Place, b.Path = at.Place, at.Path
	if b.Conflict, err = drive.ParseConflict(m["conflict"], drive.ConflictRename); err != nil {
		return b, err
	}
	b.Digests, err = m.digests()
	return b, err
}

// path returns the target address of the file. A value of the key path without a trailing slash is
// the address. One with a trailing slash, or none, which means the root, is a folder; below it
// follows relativePath, else filename or name, else a default name. It fails with drive.BadName.
func (m metadata) path() (drive.Address, error) {
	at := m.first("path")
	if at == "" {
		at = "/"
	}
	if !strings.HasPrefix(at, "/") {
		at = "/" + at
	}
	if folder, ok := strings.CutSuffix(at, "/"); ok {
		below := strings.TrimPrefix(m.first("relativePath"), "/")
		if below == "" {
			below = m.first("filename", "name")
			if strings.Contains(below, "/") {
				return drive.Address{}, drive.Fail(drive.BadName, "field", metadataHeader, "reason", "slash")
			}
		}
		if below == "" {
			below = defaultName()
		}
		at = folder + "/" + below
	}
	to, err := drive.ParseAddress(at)
	if err == nil && len(to.Path) == 0 {
		err = drive.Fail(drive.BadName, "field", metadataHeader, "reason", "root")
	}
	return to, err
}

// mediaType returns s if it is a valid media type, else "".
func mediaType(s string) string {
	media, _, err := mime.ParseMediaType(s)
	major, minor, two := strings.Cut(media, "/")
	if err != nil || !two || major == "" || minor == "" || len(s) > maxMediaType || strings.ContainsFunc(s, unicode.IsControl) {
		return ""
	}
	return s
}

const maxMediaType = 255 // bytes; RFC 6838 §4.2 allows 127 on each side of the slash

// digests returns the digests that the client declares for the file; empty if none. A malformed one
// fails with drive.BadRequest, because the client would believe that it was verified.
func (m metadata) digests() (digest.Set, error) {
	set := digest.Set{}
	for _, algo := range digest.Algos() {
		text, declared := m[string(algo)]
		if !declared {
			continue
		}
		b, err := hex.DecodeString(text)
		if err != nil || len(b) != algo.Size() {
			return nil, drive.BadField(metadataHeader, drive.Malformed, "expected", string(algo)+" in hex")
		}
		set[algo] = b
	}
	return set, nil
}
