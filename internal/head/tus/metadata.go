package tus

import (
	"encoding/base64"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/upload"
)

// metadataHeader carries the client's keys and base64 values.
const metadataHeader = "Upload-Metadata"

// metadata holds the decoded values of Upload-Metadata by key.
type metadata map[string]string

// parseMetadata parses Upload-Metadata (tus 1.0.0 §Upload-Metadata): comma-separated pairs of a key
// and, after a space, an optional value in base64. BadRequest if it is malformed, too long, or
// repeats a key.
func parseMetadata(s string) (metadata, error) {
	if len(s) > upload.MaxMetadata {
		return nil, drive.BadField(metadataHeader, drive.TooLong, "limit", upload.MaxMetadata, "sent", len(s))
	}
	all := metadata{}
	if strings.Trim(s, " ") == "" {
		return all, nil
	}
	for pair := range strings.SplitSeq(s, ",") {
		key, encoded, _ := strings.Cut(strings.Trim(pair, " "), " ")
		value, err := decodeBase64(encoded)
		_, twice := all[key]
		if key == "" || err != nil || twice {
			return nil, drive.Wrap(err, drive.BadRequest, "field", metadataHeader, "reason", string(drive.Malformed),
				"expected", "key base64,key base64")
		}
		all[key] = string(value)
	}
	return all, nil
}

// decodeBase64 decodes padded base64 and refuses line breaks, which encoding/base64 would skip.
func decodeBase64(s string) ([]byte, error) {
	if i := strings.IndexAny(s, "\r\n"); i >= 0 {
		return nil, base64.CorruptInputError(i)
	}
	return base64.StdEncoding.DecodeString(s)
}

// first returns the first value of the keys that is not empty; "" if there is none. "null" counts
// as empty, because Uppy sends it for a missing value.
func (m metadata) first(keys ...string) string {
	for _, key := range keys {
		if v := m[key]; v != "" && v != "null" {
			return v
		}
	}
	return ""
}
