package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestFileTakesPrecedenceOverPack: as in the store, a file with the full name of a content takes
// precedence over the pack.
func TestFileTakesPrecedenceOverPack(t *testing.T) {
	t.Parallel()
	c := &checker{options: options{blobs: t.TempDir()}}
	const pack = "put-3-01a21e12-c356-79f8-8420-84264dec5658"
	const file = pack + ".0000.01"
	b, err := os.ReadFile("../../internal/engine/blob/local/pack/testdata/pack-v1")
	if err != nil {
		t.Fatal(err)
	}
	write := func(path string, b []byte) {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := func(text string) {
		t.Helper()
		f, err := c.openContent(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if got, err := io.ReadAll(f); string(got) != text || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	write(c.place(pack)+packSuffix, b)
	want("hello")
	write(c.place(file), []byte("from a backup"))
	want("from a backup")
}
