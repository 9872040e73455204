package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"example.org/smartdrive/internal/engine/blob"
)

// Mark is blob.Mark, the installation mark of a directory.
type Mark = blob.Mark

// markFile is in the root. A crash in WriteMark leaves markTemp, which the next WriteMark
// overwrites.
const (
	markFile = blob.MarkName
	markTemp = markFile + ".new"
)

// ReadMark returns the installation mark of dir; found is false if there is no mark or no dir.
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

// WriteMark atomically and durably replaces the mark of dir. If root runs it, the file gets the
// owner of dir, so that a command run by root does not lock the server out.
func WriteMark(dir string, m Mark) error {
	b, err := m.Encode()
	if err != nil {
		return fmt.Errorf("write installation mark: %w", err)
	}
	temp := filepath.Join(dir, markTemp)
	err = writeOwned(temp, b)
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

// writeOwned durably writes a new file with the owner of its directory. It removes an existing file
// first and creates its own, so that it never changes the owner of a file placed there by another
// user.
func writeOwned(path string, b []byte) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = inheritOwner(f)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
