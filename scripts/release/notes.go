package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// notesFile is the name of the release notes.
const notesFile = "RELEASE_NOTES.md"

// writeNotes writes the section of the version in CHANGELOG.md as the release notes. Without
// CHANGELOG.md, and for a pre-release without a section, the fragments in changelog/unreleased are
// the notes.
func (r *release) writeNotes(context.Context) error {
	text, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if errors.Is(err, fs.ErrNotExist) {
		text, err = fragments(filepath.Join(r.root, "changelog/unreleased"), r.version)
	}
	if err != nil {
		return err
	}
	notes, err := section(string(text), r.version)
	if err != nil && strings.Contains(r.version, "-") {
		text, err = fragments(filepath.Join(r.root, "changelog/unreleased"), r.version)
		notes = string(text)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dist, notesFile), []byte(notes), 0o644)
}

// fragments returns the files of a directory, in the order of their names, as the section of a
// version.
func fragments(dir, version string) ([]byte, error) {
	files, err := tree(dir)
	var b bytes.Buffer
	fmt.Fprintf(&b, "## %s\n", version)
	for _, f := range files {
		fmt.Fprintf(&b, "\n%s\n", bytes.TrimSpace(f.text))
	}
	return b.Bytes(), err
}

// heading matches the headings of versions: "## 0.1.0", "## [0.1.0] - 2026-11-30", "## Unreleased".
var heading = regexp.MustCompile(`(?m)^## \[?v?([^\s\]]+)\]?.*$`)

// section returns the section of a version with its heading. A pre-release without a section has
// the section Unreleased.
func section(changelog, version string) (string, error) {
	names := []string{version}
	if strings.Contains(version, "-") {
		names = append(names, "Unreleased")
	}
	all := heading.FindAllStringSubmatchIndex(changelog, -1)
	for _, name := range names {
		for i, m := range all {
			if !strings.EqualFold(changelog[m[2]:m[3]], name) {
				continue
			}
			end := len(changelog)
			if i+1 < len(all) {
				end = all[i+1][0]
			}
			if strings.TrimSpace(changelog[m[1]:end]) == "" {
				return "", fmt.Errorf("the section of %s in CHANGELOG.md is empty", name)
			}
			return strings.TrimSpace(changelog[m[0]:end]) + "\n", nil
		}
	}
	return "", fmt.Errorf(`CHANGELOG.md has no section for version %s: write one below a heading "## %s"`, version, version)
}
