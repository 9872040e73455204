package zipline

import (
	"hash/crc32"
	"strings"

	"example.org/smartdrive/internal/base/drive"
)

// Entry is one line of a manifest. Its content is the object Blob in the store, or Inline. A folder
// has neither.
type Entry struct {
	Name   string // as returned by SafeNames: '/' between folders; a folder ends with '/'
	Size   drive.ByteSize
	CRC32  uint32     // IEEE CRC-32 of the content
	Time   drive.Time // modification time shown by unzip programs; zero: 1980-01-01
	Blob   string     // object name in the store; empty for an entry of 0 bytes
	Inline []byte     // content kept in the manifest, such as err.txt
}

// Text returns an entry with inline content. Keep content short: the manifest is held in memory.
func Text(name string, when drive.Time, content []byte) Entry {
	return Entry{
		Name: name, Size: drive.ByteSize(len(content)), CRC32: crc32.ChecksumIEEE(content), Time: when, Inline: content,
	}
}

// Folder returns an entry for an empty folder. It appends '/' to name if missing. Other folders
// need no entry.
func Folder(name string, when drive.Time) Entry {
	return Entry{Name: strings.TrimSuffix(name, "/") + "/", Time: when}
}

// IsFolder reports whether the entry is a folder: its name ends in "/".
func (e *Entry) IsFolder() bool { return strings.HasSuffix(e.Name, "/") }
