package tus

import (
	"net/url"
	"strings"

	"example.org/smartdrive/internal/base/drive"
)

// concatHeader tells whether an upload is partial or final, and the parts of a final one.
const concatHeader = "Upload-Concat"

// partial is the value of concatHeader for a part of a later final upload.
const partial = "partial"

// finalPrefix starts the value of Upload-Concat for a final upload. The URLs of partial uploads
// follow, separated by spaces.
const finalPrefix = "final;"

// maxPartials is the most uploads that one request may concatenate; their URLs must fit into a
// header.
const maxPartials = 1000

// concat is a parsed Upload-Concat; the zero value is an absent header.
type concat struct {
	partial  bool
	final    bool
	partials []drive.UploadID // of a final upload
}

// parseConcat parses Upload-Concat (tus 1.0.0 §Upload-Concat); an empty value sets neither flag.
// URLs of partial uploads may be absolute, paths, or bare ids, because ids are unique and only the
// caller's uploads are looked up. BadRequest if the value is malformed.
func parseConcat(s string) (concat, error) {
	if s == "" {
		return concat{}, nil
	}
	if s == partial {
		return concat{partial: true}, nil
	}
	list, ok := strings.CutPrefix(s, finalPrefix)
	addresses := strings.Fields(list)
	if !ok || len(addresses) == 0 || len(addresses) > maxPartials {
		return concat{}, drive.BadField(concatHeader, drive.Malformed, "expected", "partial, or final; and 1 to 1000 addresses")
	}
	c := concat{final: true}
	for _, address := range addresses {
		id, err := parseAddress(address)
		if err != nil {
			return concat{}, err
		}
		c.partials = append(c.partials, id)
	}
	return c, nil
}

// parseAddress returns the upload id in a URL or path of this head; a bare id is accepted. It fails
// with drive.BadRequest.
func parseAddress(s string) (drive.UploadID, error) {
	bad := drive.BadField(concatHeader, drive.Malformed, "expected", "addresses of uploads")
	u, err := url.Parse(s)
	if err != nil || u.RawQuery != "" {
		return drive.UploadID{}, bad
	}
	above, last := "", u.Path
	if i := strings.LastIndexByte(u.Path, '/'); i >= 0 {
		above, last = u.Path[:i+1], u.Path[i+1:]
	}
	id, err := drive.ParseID[drive.UploadID](last)
	if err != nil || above != "" && !strings.HasSuffix(above, Prefix) {
		return drive.UploadID{}, bad
	}
	return id, nil
}
