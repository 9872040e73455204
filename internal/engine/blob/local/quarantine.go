package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// Quarantine lists and purges the directory quarantine of a Dir (blob.Quarantine).
type Quarantine struct{ dir string }

var _ blob.Quarantine = (*Quarantine)(nil)

// List calls fn for every entry of the quarantine. A directory that was moved as a whole is one
// entry, with the size of all its files. It stops at the first error of fn and when ctx ends.
func (q *Quarantine) List(ctx context.Context, fn func(blob.Quarantined) error) error {
	fsys := os.DirFS(q.dir)
	err := fs.WalkDir(fsys, ".", func(name string, e fs.DirEntry, err error) error {
		day, item := path.Split(name)
		switch {
		case errors.Is(err, fs.ErrNotExist): // purged meanwhile
			return nil
		case err != nil:
			return err
		case name == ".", day == "" && e.IsDir():
			return ctx.Err()
		}
		size, err := treeSize(fsys, name)
		if err == nil {
			err = fn(blob.Quarantined{Date: strings.TrimSuffix(day, "/"), Name: item, Size: size})
		}
		if err != nil || !e.IsDir() {
			return err
		}
		return fs.SkipDir
	})
	if err != nil {
		return fmt.Errorf("list the quarantine: %w", classify(err))
	}
	return nil
}

// treeSize returns the sum of the lengths of all regular files at or below name.
func treeSize(fsys fs.FS, name string) (size drive.ByteSize, err error) {
	err = fs.WalkDir(fsys, name, func(_ string, e fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil && e.Type().IsRegular() {
			if info, err = e.Info(); err == nil {
				size += drive.ByteSize(info.Size())
			}
		}
		if errors.Is(err, fs.ErrNotExist) { // purged meanwhile
			return nil
		}
		return err
	})
	return size, err
}

// Purge deletes one entry of the quarantine; a missing one is not an error (blob.Quarantine).
func (q *Quarantine) Purge(_ context.Context, item blob.Quarantined) error {
	if item.Name != path.Base(item.Name) || item.Name == "." || item.Name == ".." {
		return fmt.Errorf("purge %q: not in the quarantine", item.Name)
	}
	root, err := os.OpenRoot(q.dir)
	if err != nil {
		return fmt.Errorf("open the quarantine: %w", classify(err))
	}
	defer func() { _ = root.Close() }()
	if err := root.RemoveAll(path.Join(item.Date, item.Name)); err != nil {
		return fmt.Errorf("purge the quarantine: %w", classify(err))
	}
	if item.Date != "" {
		_ = root.Remove(item.Date) // succeeds if it is empty
	}
	return nil
}
