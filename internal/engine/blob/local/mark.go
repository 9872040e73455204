package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"smartdrive/internal/engine/blob"
)

// Mark is blob.Mark.
type Mark = blob.Mark

// markFile lies in the root; markTemp is what a crash in the middle of WriteMark leaves, and the
// next WriteMark overwrites.
const (
	markFile = blob.MarkName
	markTemp = markFile + ".new"
)

// ReadMark returns the mark of dir; found is false when there is none, or no dir.
func ReadMark(dir string) (m Mark, found bool, err error) {
	b, err := os.ReadFile(filepath.Join(dir, markFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Mark{}, false, nil
	}
	if err != nil {
		return Mark{}, false, fmt.Errorf("read installation mark: %w", err)
	}
	if m, err = blob.ParseMark(b); err != nil {
		return Mark{}, false, fmt.Errorf("in %s: %w", dir, err)
	}
	return m, true, nil
}

// WriteMark replaces the mark of dir, durably: a crash leaves the old one or the new one.
func WriteMark(dir string, m Mark) error {
	b, err := m.Encode()
	if err != nil {
		return fmt.Errorf("write installation mark: %w", err)
	}
	temp := filepath.Join(dir, markTemp)
	err = os.WriteFile(temp, b, fileMode)
	if err == nil {
		err = syncPath(temp)
	}
	if err == nil {
		err = os.Rename(temp, filepath.Join(dir, markFile))
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("write installation mark: %w", classify(err))
	}
	return nil
}
