package app

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestLockedErrorNamesHolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	held, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = lockDir(dir)
	var locked *LockedError
	if !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Errorf("a second lock: %v", err)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := lockDir(dir)
	if err != nil {
		t.Fatalf("the lock was not given back: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	if names, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(names) != 1 {
		t.Errorf("more than the lock is left: %v", names)
	}
}

func TestBallastIsRestored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 2 {
		if err := placeBallast(dir); err != nil {
			t.Fatal(err)
		}
		before := statBallast(t, dir)
		if err := placeBallast(dir); err != nil {
			t.Fatal(err)
		}
		if after := statBallast(t, dir); !os.SameFile(before, after) || after.ModTime() != before.ModTime() || after.Size() != ballastSize {
			t.Errorf("the ballast was %v and is %v", before, after)
		}
		dropBallast(dir)
		dropBallast(dir) // gone already
	}
}

func statBallast(t *testing.T, dir string) os.FileInfo {
	t.Helper()
	info, err := os.Stat(filepath.Join(dir, ballastFile))
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestFullDiskDropsBallastAndExplains(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, spaceFile, "x"), 0o700); err != nil { // nothing can be written under its name
		t.Fatal(err)
	}
	if err := placeBallast(dir); err != nil {
		t.Fatal(err)
	}
	if err := ensureSpace(dir); err == nil {
		t.Error("there is room")
	}
	if _, err := os.Stat(filepath.Join(dir, ballastFile)); !os.IsNotExist(err) {
		t.Errorf("the ballast was kept: %v", err)
	}
}
