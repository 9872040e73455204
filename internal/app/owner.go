package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// explainOwner adds the remedy to the error of a start if this process may not open a file of the
// installation, usually because a command was run as another user such as root.
func explainOwner(err error, dirs ...string) error {
	if err == nil || os.Geteuid() <= 0 { // root may open everything; Windows has no such ids
		return err
	}
	for _, dir := range dirs {
		file := firstForbidden(dir)
		if file == "" {
			continue
		}
		return fmt.Errorf("%w\n%s cannot be opened by the user that the server runs as (id %d), because it belongs to another one: run \"chown -R %d:%d %s\" as root",
			err, file, os.Geteuid(), os.Geteuid(), os.Getegid(), dir)
	}
	return err
}

// explainUnwritable adds the remedy to the error of a start that may not create or change its data
// directory, as in a container whose volume belongs to another user or is mounted read-only.
func explainUnwritable(err error, dir string) error {
	switch {
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w\n%s lies on a file system that is mounted read-only: mount a volume there that can be written", err, dir)
	case errors.Is(err, fs.ErrPermission) && os.Geteuid() > 0:
		return fmt.Errorf("%w\nthe user that the server runs as (id %d) may not write to %s: run \"chown -R %d:%d\" as root on that directory or on the volume that is mounted there, or run the server as the user to whom it belongs",
			err, os.Geteuid(), dir, os.Geteuid(), os.Getegid())
	}
	return err
}

// firstForbidden returns the first regular file of a directory that this process may not read and
// write, or the directory itself; "" if there is none.
func firstForbidden(dir string) string {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrPermission) {
		return dir
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !e.Type().IsRegular() {
			continue
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if errors.Is(err, fs.ErrPermission) {
			return path
		}
		if err == nil {
			_ = f.Close() // nothing was written
		}
	}
	return ""
}
