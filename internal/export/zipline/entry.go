package zipline

import (
	"hash/crc32"
	"strings"

	"smartdrive/internal/base/drive"
)

// Entry is one line of a manifest. Its bytes are those of Blob at the store, or Inline; a folder
// has neither.
type Entry struct {
	Name   string // as SafeNames gives it: '/' between folders; one that ends with '/' is a folder
	Size   drive.ByteSize
	CRC32  uint32     // IEEE, of the content
	Time   drive.Time // shown by readers as the time of last change; zero is 1980-01-01
	Blob   string     // name at the store; an entry of 0 bytes needs none
	Inline []byte     // content that is kept in the manifest itself, such as err.txt
}

// Text returns an entry whose content lies in the manifest. Keep it short: a manifest is held in
// memory.
func Text(name string, when drive.Time, content []byte) Entry {
	return Entry{
		Name: name, Size: drive.ByteSize(len(content)), CRC32: crc32.ChecksumIEEE(content), Time: when, Inline: content,
	}
}

// Folder returns an entry for a folder, which is needed only for an empty one. The name's '/' at
// the end is added where it is missing.
func Folder(name string, when drive.Time) Entry {
	return Entry{Name: strings.TrimSuffix(name, "/") + "/", Time: when}
}

// IsFolder reports whether the entry is a folder.
func (e *Entry) IsFolder() bool { return strings.HasSuffix(e.Name, "/") }
