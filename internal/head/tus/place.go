package tus

import (
	"encoding/hex"
	"mime"
	"strings"
	"unicode"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/usecase/upload"
)

// nameless is what a file is called whose client does not say. No two are called the same: the next
// free number of a name that is taken thousands of times costs some twenty look-ups, and two who
// look at once find the same one.
func nameless() string {
	const random = 24 // where an id's last 12 digits begin
	return "upload-" + drive.NewID[drive.UploadID]().String()[random:]
}

// readBegin reads what the metadata says of a file:
//
//	path            where it goes, from the root; with a slash at its end it is the folder. //SPACE/path
//	                is a path in a space, //ID/path one in a shared folder
//	relativePath    of Uppy: the path below the folder that was dropped
//	filename, name  its name
//	filetype, type  its media type
//	conflict        what to do when the name is taken: rename (unless it says so), fail, replace
//	blake3, sha256, sm3, sha1, md5
//	                its digest in hex, verified before the file is there
//
// Folders that are missing are made.
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
			below = nameless()
		}
		at = folder + "/" + below
	}
	to, err := drive.ParseAddress(at)
	if err == nil && len(to.Path) == 0 {
		err = drive.Fail(drive.BadName, "field", metadataHeader, "reason", "root")
	}
	return to, err
}

// mediaType is the type that the client gives; what is none says nothing.
func mediaType(s string) string {
	media, _, err := mime.ParseMediaType(s)
	major, minor, two := strings.Cut(media, "/")
	if err != nil || !two || major == "" || minor == "" || len(s) > maxMediaType || strings.ContainsFunc(s, unicode.IsControl) {
		return ""
	}
	return s
}

const maxMediaType = 255 // bytes; RFC 6838 §4.2 allows 127 on each side of the slash

// digests are the declared ones. What is not a digest is refused: its sender would believe that it
// was verified.
func (m metadata) digests() (digest.Set, error) {
	set := digest.Set{}
	for _, algo := range digest.Algos() {
		text, declared := m[string(algo)]
		if !declared {
			continue
		}
		b, err := hex.DecodeString(text)
		if err != nil || len(b) != algo.Size() {
			return nil, drive.Bad(metadataHeader, drive.Malformed, "expected", string(algo)+" in hex")
		}
		set[algo] = b
	}
	return set, nil
}
