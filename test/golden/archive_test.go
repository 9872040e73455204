package golden

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// left lists files that are not archived, because every start creates them.
var left = []string{"ballast", "lock", "admin.sock", "smartdrive.db-shm"}

// pack writes a directory into an archive.
func pack(t *testing.T, dir, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	zip, _ := gzip.NewWriterLevel(f, gzip.BestCompression) // a good level
	w := tar.NewWriter(zip)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || slices.Contains(left, d.Name()) {
			return err
		}
		return add(w, dir, path, d)
	})
	if err := errors.Join(err, w.Close(), zip.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

func add(w *tar.Writer, dir, path string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	h, err := tar.FileInfoHeader(info, "")
	if err != nil {
		return err
	}
	name, err := filepath.Rel(dir, path)
	if err != nil {
		return err
	}
	h.Name, h.Uname, h.Gname, h.Uid, h.Gid = filepath.ToSlash(name), "", "", 0, 0
	if err := w.WriteHeader(h); err != nil || d.IsDir() {
		return err
	}
	content, err := os.Open(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, content)
	return errors.Join(err, content.Close())
}

// unpack makes a directory of an archive.
func unpack(t *testing.T, path, dir string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(zip); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err == nil {
			err = extract(r, h, filepath.Join(dir, filepath.FromSlash(h.Name)))
		}
		if err != nil {
			t.Fatalf("unpack %s: %v", path, err)
		}
	}
}

func extract(r io.Reader, h *tar.Header, to string) error {
	if h.Typeflag == tar.TypeDir {
		return os.MkdirAll(to, 0o700)
	}
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r) //nolint:gosec // the archives are ours
	return errors.Join(err, f.Close())
}
