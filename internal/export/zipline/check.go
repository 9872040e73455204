package zipline

import (
	"fmt"
	"hash/crc32"
	"strings"
	"unicode/utf8"

	"example.org/smartdrive/internal/base/drive"
)

// checkEntries returns BadName or another error for a manifest that must not become an archive:
// unsafe or duplicate names, or contradictory entries.
//
// Unlike SafeNames, it uses no Unicode tables: they change, but a manifest once sealed must stay
// valid for ever.
func checkEntries(entries []Entry) error {
	files, folders := make(map[string]bool, len(entries)), map[string]bool{}
	for i := range entries {
		e := &entries[i]
		if err := e.check(); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
		key := lowerASCII(e.Name)
		if files[key] {
			return fmt.Errorf("entry %d: %q is there twice: %w", i, e.Name, drive.Fail(drive.BadName, "reason", "not-safe"))
		}
		files[key] = true
		for parent := key; strings.Contains(parent, "/"); {
			parent = parent[:strings.LastIndexByte(parent, '/')]
			if folders[parent] {
				break
			}
			folders[parent] = true
		}
	}
	for i := range entries {
		if folders[lowerASCII(entries[i].Name)] {
			return fmt.Errorf("entry %d: %q is a folder, too: %w", i, entries[i].Name, drive.Fail(drive.BadName, "reason", "not-safe"))
		}
	}
	return nil
}

// lowerASCII converts the ASCII letters of s to lower case.
func lowerASCII(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// check returns an error for an entry that must not be in a zip: BadName for an unsafe name,
// TooLarge for its size, and another error for fields that contradict each other.
func (e *Entry) check() error {
	switch {
	case !isSafe(e.Name):
		return drive.Wrap(fmt.Errorf("%q is not safe", e.Name), drive.BadName, "reason", "not-safe")
	case e.Size < 0 || e.Size > drive.MaxFileSize:
		return drive.Fail(drive.TooLarge, "limit", int64(drive.MaxFileSize), "sent", int64(e.Size))
	case e.Blob != "" && len(e.Inline) > 0, e.Blob != "" && e.IsFolder():
		return fmt.Errorf("%s: content from two places, or of a folder", e.Name)
	case e.Size == 0 && e.CRC32 != 0, e.Blob == "" && (int(e.Size) != len(e.Inline) || e.CRC32 != crc32.ChecksumIEEE(e.Inline)):
		return fmt.Errorf("%s: size or CRC-32 is not that of its content", e.Name)
	}
	return nil
}

// isSafe reports whether a name stays inside the directory it is unpacked to and can be created
// there, also on Windows.
func isSafe(name string) bool {
	if !utf8.ValidString(name) || len(name) > maxParentBytes+drive.MaxNameBytes+1 {
		return false
	}
	for s := range strings.SplitSeq(strings.TrimSuffix(name, "/"), "/") {
		if s == "" || len(s) > drive.MaxNameBytes || strings.TrimRight(s, ". ") != s || isDevice(s) || strings.Map(safeRune, s) != s {
			return false
		}
	}
	return true
}
